-- Sending caps: what the policy knows of each workspace, what a person set, and every change with its reason. The
-- caps in force are in the ledger.

create table capacity (
  workspace_id   uuid primary key references workspace on delete cascade,
  state          jsonb not null,                  -- CapState
  override       jsonb,                           -- what a person set, with author and end
  policy_version text not null,
  is_troubled    boolean not null default false,  -- looked at on every run, mail or not
  evaluated_on   date not null
);

create table cap_change (
  workspace_id   uuid not null references workspace on delete cascade,
  id             uuid not null,
  at             timestamptz not null,
  day_before     int not null,
  day_after      int not null,
  hour_before    int not null,
  hour_after     int not null,
  level          text not null,
  reason         text not null,
  counts         jsonb,                           -- of the day it was decided on
  policy_version text,
  changed_by     text not null,
  primary key (workspace_id, id)
);

-- What was granted under the caps, and what had to wait for them, by day.
create table cap_use (
  workspace_id uuid not null,
  day          int not null,
  used         int not null,
  delayed      int not null,
  primary key (workspace_id, day)
);

-- The day before goes on in the ledger until it has been noted; `delayed` counts what had to wait today.
alter table ledger
  add column delayed int not null default 0,
  add column closed_day int not null default 0,
  add column closed_used int not null default 0,
  add column closed_delayed int not null default 0;

-- Delivered where complaints are reported: the only mail that a rate of complaints can be taken over.
alter table tally add column fbl_delivered int not null default 0;
