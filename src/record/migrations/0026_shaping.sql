-- How mail goes to receivers: which of them get none for now, or less, and the last shaping file that was valid.

-- A destination is a recipient domain, a provider of the shaping file, or `smarthost`.
create table destination_hold (
  destination text not null,
  source      text not null,                      -- the source address it is about; empty: all
  kind        text not null check (kind in ('suspended', 'slowed')),
  factor      real not null default 0,            -- of a slowed one: what its limits are multiplied by
  until       timestamptz,                        -- null: until an operator resumes it
  reason      text not null,
  set_by      text not null check (set_by in ('operator', 'rule')),
  created_at  timestamptz not null,
  changed_at  timestamptz not null,
  primary key (destination, source, kind)
);

-- One row: a worker that finds a file it cannot use goes on with this one.
create table shaping_file (
  is_only    boolean primary key default true check (is_only),
  text       text not null,
  read_at    timestamptz not null
);

-- The suspended destination that a deferred e-mail waits for.
alter table due add column held_by text;
create index due_held_by on due (held_by) where held_by is not null;
