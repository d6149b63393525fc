-- The core of the record: who may send (workspace, api_key), what was accepted (email, body, attachment), what it may
-- use (ledger), what travels now (bag), what must wait (due), and which request was already answered (claim).
-- Primary keys lead with workspace_id, so that the schema can be distributed unchanged; `workspace` is the reference table.

create table workspace (
  id         uuid primary key,
  handle     text not null unique,
  name       text not null,
  plan       text not null,
  limits     jsonb not null default '{}',
  -- rises with every change of key, plan, limit or cap: no copy elsewhere may be replaced by an older one
  version    bigint not null default 1,
  changed_at timestamptz not null,
  created_at timestamptz not null
);
create index workspace_changed on workspace (changed_at);

create table account (
  id            uuid primary key,
  email         text not null unique,
  password_hash text not null,
  created_at    timestamptz not null
);

create table member (
  workspace_id uuid not null references workspace on delete cascade,
  account_id   uuid not null references account on delete cascade,
  role         text not null check (role in ('owner', 'admin', 'member')),
  primary key (workspace_id, account_id)
);

create table api_key (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  hash         bytea not null,
  shown        text not null,
  name         text not null,
  permissions  int not null,
  audience_ids uuid[],
  created_at   timestamptz not null,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  primary key (workspace_id, id),
  unique (workspace_id, hash)
);

create table audience (
  workspace_id  uuid not null references workspace on delete cascade,
  id            uuid not null,
  name          text not null,
  double_opt_in boolean not null default false,
  created_at    timestamptz not null,
  primary key (workspace_id, id)
);

-- One row per workspace, locked by every commit that sends: it has the last word on quota and caps.
create table ledger (
  workspace_id  uuid primary key references workspace on delete cascade,
  month         int not null default 0,           -- year * 12 + month, UTC
  month_used    int not null default 0,
  day           int not null default 0,           -- days since 1970, UTC; of quota and of cap
  day_used      int not null default 0,
  cap_day_used  int not null default 0,
  cap_day_bulk  int not null default 0,
  bucket        int not null default 0,           -- newest 5-minute bucket since 1970; hour_* hold it and the 12 before
  hour_used     int[] not null default array_fill(0, array[13]),
  hour_bulk     int[] not null default array_fill(0, array[13]),
  waiting       int not null default 0,           -- transactional e-mails that wait for the caps
  waiting_bulk  int not null default 0,
  cap_day       int not null,                     -- as grown; a fixed limit of the workspace wins
  cap_hour      int not null,
  reserved_share real not null,
  next_release_at timestamptz
) with (fillfactor = 50);
create index ledger_release on ledger (next_release_at) where next_release_at is not null;

-- Narrow and updated once or a few times; no index but the key, so that settling stays a heap-only update.
create table email (
  workspace_id  uuid not null,
  id            uuid not null,
  key_id        uuid,                             -- null: an automation's
  bulk          boolean not null,                 -- automation mail: leaves a share of the caps to the rest
  status        text not null,
  head          json not null,                    -- from, to, cc, bcc, reply_to, subject: as they were sent
  weight        smallint not null,                -- recipients of the envelope
  bytes         int not null,
  created_at    timestamptz not null,
  updated_at    timestamptz not null,
  scheduled_at  timestamptz,
  sent_at       timestamptz,
  delivered_at  timestamptz,
  delayed_at    timestamptz,
  bounced_at    timestamptz,
  complained_at timestamptz,
  failed_at     timestamptz,
  attempts      smallint not null default 0,
  -- one letter per recipient of the envelope: o open, d delivered, b bounced, c complained, f failed, s suppressed, x canceled
  marks         text,
  history       jsonb,
  primary key (workspace_id, id)
) partition by range (id);

create table body (
  workspace_id uuid not null,
  id           uuid not null,
  html         text,
  plain        text,
  extra        json,                              -- headers, tags, attachments
  primary key (workspace_id, id)
) partition by range (id);

-- Content is kept once per workspace, whatever the number of e-mails that carry it.
create table attachment (
  workspace_id uuid not null,
  hash         bytea not null,
  content      bytea not null,
  last_used_at timestamptz not null,
  primary key (workspace_id, hash)
);
alter table attachment alter column content set storage external;

-- Up to 100 e-mails of one workspace that travel together now. Gone when they have settled or must wait.
create table bag (
  workspace_id uuid not null,
  id           uuid not null,
  shard        smallint not null,
  email_ids    uuid[] not null,
  bytes        int not null,
  generation   int not null default 0,            -- rises with every re-queue, and is part of the claim
  epoch        text,                              -- of the queue it was last put in; null: not yet
  token        uuid,
  lease_until  timestamptz,
  claims       smallint not null default 0,
  created_at   timestamptz not null,
  primary key (workspace_id, id)
) with (fillfactor = 70);
create index bag_stray on bag (shard, workspace_id, id) where token is null and epoch is null;
create index bag_queued on bag (shard, workspace_id, id) where token is null and epoch is not null;
create index bag_lease on bag (lease_until) where token is not null;

-- What must wait, and why: scheduled, cap_hour, cap_day, quota_month, deferred.
create table due (
  workspace_id uuid not null,
  email_id     uuid not null,
  at           timestamptz not null,
  why          text not null,
  bulk         boolean not null,
  weight       smallint not null,
  bytes        int not null,
  domain       text,                              -- where a deferred mail wanted to go
  reply        text,
  primary key (workspace_id, email_id)
);
create index due_at on due (at) where why in ('scheduled', 'deferred');
create index due_waiting on due (workspace_id, bulk, email_id) where why in ('cap_hour', 'cap_day', 'quota_month');

-- Which request was answered 2xx, and how. Decides idempotency; rows live a day.
create table claim (
  workspace_id uuid not null,
  scope        text not null,                     -- endpoint, or audience of an event
  key          text not null,
  digest       bytea not null,
  answer       json not null,
  created_at   timestamptz not null,
  primary key (workspace_id, scope, key)
);
create index claim_age on claim (created_at);

-- Delivery counts by day, summed over one row per worker, so that workers never wait for each other.
create table tally (
  workspace_id uuid not null,
  day          int not null,
  worker       text not null,
  accepted     int not null default 0,
  attempted    int not null default 0,
  delivered    int not null default 0,
  deferred     int not null default 0,
  hard_bounced int not null default 0,
  soft_bounced int not null default 0,
  blocked      int not null default 0,
  complained   int not null default 0,
  failed       int not null default 0,
  primary key (workspace_id, day, worker)
) with (fillfactor = 50);

-- Why sending is refused for now (backlog, disk), by whom it was found. Empty in good times.
create table brake (
  name   text primary key,
  reason text not null,
  since  timestamptz not null
);
