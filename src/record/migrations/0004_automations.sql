-- Events and what they start: automations in versions, runs that sleep here until their time, and the history of their
-- steps. A sleeping run costs one row and one entry of an index; it is nowhere else.

create table automation (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  name         text not null,
  audience_id  uuid not null,
  event        text not null,
  entry        text not null check (entry in ('once', 'one_active', 'every', 'cooldown')),
  cooldown_ms  bigint,
  filters      json not null,
  version      int not null,                      -- that new runs take
  state        text not null check (state in ('active', 'paused')),
  created_at   timestamptz not null,
  updated_at   timestamptz not null,
  primary key (workspace_id, id),
  unique (workspace_id, name)
);
create index automation_event on automation (workspace_id, audience_id, event) where state = 'active';

-- Never changed: a run keeps the version it began with.
create table automation_version (
  workspace_id  uuid not null,
  automation_id uuid not null,
  version       int not null,
  document      json not null,
  created_at    timestamptz not null,
  primary key (workspace_id, automation_id, version),
  foreign key (workspace_id, automation_id) references automation on delete cascade
);

-- The key leads to all that happened to one contact, so that an erasure finds it.
create table event (
  workspace_id uuid not null,
  contact_id   uuid not null,
  id           text not null,
  audience_id  uuid not null,
  name         text not null,
  properties   json,
  created_at   timestamptz not null,
  primary key (workspace_id, contact_id, id)
);
create index event_age on event using brin (created_at) with (pages_per_range = 32, autosummarize = on);

-- When a contact last entered an automation. The entry policy is the condition under which this row may be replaced.
create table entry (
  workspace_id  uuid not null,
  automation_id uuid not null,
  contact_id    uuid not null,
  run_id        uuid not null,
  entered_at    timestamptz not null,
  is_open       boolean not null,                 -- the run has not ended
  -- what the newcomer asks of the row it meets: entered at this time at the latest; null: ended
  entered_by    timestamptz,
  primary key (workspace_id, automation_id, contact_id)
) with (fillfactor = 70);

create table run (
  workspace_id  uuid not null,
  id            uuid not null,
  automation_id uuid not null,
  version       int not null,
  audience_id   uuid not null,
  contact_id    uuid not null,
  event_id      text not null,
  position      text not null,                    -- of the step it stands at
  seq           int not null default 0,           -- rises with every claim and every step: who knows an older one may not move it
  claims        smallint not null default 0,      -- since somebody last said what became of it
  -- when it is due; while a worker holds it, when others may take it; null: it has ended
  wake_at       timestamptz,
  stepped_at    timestamptz,                      -- when the step it stands at was first taken up: the time of its e-mail's id
  state         text not null default 'active' check (state in ('active', 'finished', 'stopped')),
  reason        text,                             -- why it stopped
  created_at    timestamptz not null,
  ended_at      timestamptz,
  primary key (workspace_id, id)
) with (fillfactor = 60);
create index run_wake on run (wake_at) where wake_at is not null;
create index run_contact on run (workspace_id, contact_id) where wake_at is not null;
create index run_list on run (workspace_id, automation_id, id);
create index run_ended on run (ended_at) where ended_at is not null;

create table run_step (
  workspace_id uuid not null,
  run_id       uuid not null,
  seq          int not null,
  position     text not null,
  kind         text not null,                     -- wait, send, tag, split
  result       text not null,                     -- done, skipped, or the branch
  detail       text,                              -- why skipped, until when, which e-mail
  began_at     timestamptz not null,
  ended_at     timestamptz not null,
  primary key (workspace_id, run_id, seq)
);

-- whom an automation's e-mail is to: asked once more when it leaves
alter table email add column contact_id uuid;
