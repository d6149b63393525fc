-- What receivers report after they took a mail: raw reports, committed before they are acknowledged, and worked off from
-- here. Rows are kept for a bounded time after they were worked off.
create table report (
  id           uuid primary key,
  source       text not null,                     -- return_path, feedback_address, api
  -- which copy of which mail, where the address it came to says so under a MAC, or the caller's key
  handle       text,
  workspace_id uuid,
  email_id     uuid,
  place        smallint,
  raw          bytea not null,                    -- its beginning; of the api, JSON
  received_at  timestamptz not null default now(),
  due_at       timestamptz default now(),         -- null: worked off
  tries        smallint not null default 0,
  done_at      timestamptz,
  result       text                               -- what it changed, or why nothing
) with (fillfactor = 70);
alter table report alter column raw set storage external; -- compressing costs more than it saves
create index report_due on report (due_at, id) where due_at is not null;
create index report_done on report (done_at) where done_at is not null;
create index report_email on report (email_id) where email_id is not null;

-- Mail from this domain has its return path below it: DNS shows the record.
alter table domain add column return_path_at timestamptz;
