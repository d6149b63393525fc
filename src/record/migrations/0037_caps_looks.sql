-- What the keeper saw at its looks and from which state it judged, so that other policies can be tried on what really
-- was; and one policy that is tried beside the one in force. Rows are kept for days (caplooks.ts).

create table cap_look (
  workspace_id uuid not null,
  day          int not null,
  at           timestamptz not null,
  counts       int[] not null,                    -- LOOK_COUNTS in caplooks.ts, then what waits of each kind
  primary key (workspace_id, day, at)
);

create table cap_state (
  workspace_id uuid not null,
  at           timestamptz not null,
  state        jsonb not null,                    -- before the first look of the day, or when somebody set an override
  override     jsonb,
  primary key (workspace_id, at)
);

create table shadow_policy (
  is_only boolean primary key default true check (is_only),
  text    text not null,
  digest  text not null,
  author  text not null,
  since   timestamptz not null
);

create table shadow_capacity (
  workspace_id uuid primary key references workspace on delete cascade,
  digest       text not null,                     -- of the policy: another one starts from the state in force
  state        jsonb not null
);

-- What the shadow policy would have done.
create table shadow_change (
  workspace_id uuid not null,
  id           uuid not null,
  digest       text not null,
  at           timestamptz not null,
  day_before   int not null,
  day_after    int not null,
  level_before text not null,
  level        text not null,
  reason       text not null,
  counts       jsonb,
  primary key (workspace_id, id)
);
