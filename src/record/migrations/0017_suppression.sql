-- Addresses that a workspace does not write to. Looked up by a keyed hash, which is all that an erasure leaves of one.
create table suppressed_address (
  workspace_id uuid not null,
  id           uuid not null,
  address_hash bytea not null,
  identity     text,                              -- null: the person was erased
  email        text,
  scope        text not null default '',          -- the sender's domain, with those below it; empty: all
  reason       text not null check (reason in ('bounce', 'complaint', 'manual')),
  evidence     text,                              -- the receiver's own words, or those of whoever added it
  email_id     uuid,                              -- what was sent when it became known
  counted_day  int,                               -- the day on which a bounce or complaint was counted for it
  created_at   timestamptz not null,
  undone_at    timestamptz,                       -- kept, and obeyed no longer
  primary key (workspace_id, id)
);
create unique index suppressed_address_in_force on suppressed_address (workspace_id, address_hash, scope)
  where undone_at is null;
create index suppressed_address_identity on suppressed_address (workspace_id, identity) where identity is not null;

-- Soft bounces of late, where a series of them suppresses.
create table soft_bounce (
  workspace_id uuid not null,
  address_hash bytea not null,
  at           timestamptz not null,
  email_id     uuid not null,
  primary key (workspace_id, address_hash, email_id)
);
create index soft_bounce_age on soft_bounce (at);
