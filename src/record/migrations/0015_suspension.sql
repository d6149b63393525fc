-- A workspace may be suspended: nothing of it leaves, and nothing of it is lost.

alter table workspace
  add column suspended_at timestamptz,
  add column suspended_for text,                  -- the reason, in the operator's words
  add column resumed_at timestamptz;              -- mail that was held meanwhile has its lifetime from then on
create index workspace_suspended on workspace (id) where suspended_at is not null;

-- What comes due in a suspended workspace is held: set aside once, so that it is in nobody's way.
alter table due add column is_held boolean not null default false;
drop index due_at;
create index due_at on due (at) where why in ('scheduled', 'deferred') and not is_held;
create index due_held on due (workspace_id, email_id) where is_held;

alter table run add column is_held boolean not null default false;
drop index run_wake;
create index run_wake on run (wake_at) where wake_at is not null and not is_held;
create index run_held on run (workspace_id, id) where is_held;
