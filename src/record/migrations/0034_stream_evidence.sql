-- Counts as in `tally`, of mail of which more is known than its workspace: its stream, the provider that took it, the
-- source address it left from. '' is what is not known. Mail of `transactional` to no provider of the shaping file is
-- counted in `tally` alone.
create table part_tally (
  workspace_id  uuid not null,
  day           int not null,
  worker        text not null,
  stream        text not null,
  provider      text not null,
  source        text not null,
  attempted     int not null default 0,
  delivered     int not null default 0,
  hard_bounced  int not null default 0,
  late_bounced  int not null default 0,
  blocked       int not null default 0,
  complained    int not null default 0,
  fbl_delivered int not null default 0,
  primary key (workspace_id, day, worker, stream, provider, source)
) with (fillfactor = 50);

-- How many recipients a day a workspace may write to at a provider in one stream, after trouble there.
create table sender_limit (
  workspace_id uuid not null references workspace on delete cascade,
  stream       text not null,
  provider     text not null,
  per_day      int not null,
  reason       text not null,
  changed_at   timestamptz not null,
  primary key (workspace_id, stream, provider)
);
