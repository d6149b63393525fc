-- Contacts of audiences, what they consented to, and whom a confirmation is asked of. An audience row is locked by
-- every change of its contacts, so that a change is decided on what is there.

create table contact (
  workspace_id uuid not null,
  id           uuid not null,
  audience_id  uuid not null,
  identity     text not null,                     -- of the address: letter case and the form of the domain make no difference
  email        text not null,                     -- as first spelt, and as it is sent to
  first_name   text,
  last_name    text,
  properties   jsonb not null default '{}',
  tags         text[] not null default '{}',      -- sorted
  status       text not null check (status in ('pending', 'subscribed', 'unsubscribed')),
  created_at   timestamptz not null,
  updated_at   timestamptz not null,
  archived_at  timestamptz,
  primary key (workspace_id, id),
  unique (workspace_id, audience_id, identity)
) with (fillfactor = 80);
-- the pages of a list; archived contacts are in none
create index contact_list on contact (workspace_id, audience_id, id) where archived_at is null;

-- Append-only: what a contact agreed to, confirmed and withdrew. Gone only with the contact itself.
create table consent (
  workspace_id uuid not null,
  contact_id   uuid not null,
  id           uuid not null,
  kind         text not null check (kind in ('given', 'confirmed', 'withdrawn')),
  source       text not null,                     -- as the caller says it; of ours: confirmation, link, api, command
  captured_at  timestamptz not null,
  ip_address   text,
  user_agent   text,
  wording      text,
  text_version text,
  key_id       uuid,
  recorded_at  timestamptz not null,
  primary key (workspace_id, contact_id, id)
);

-- Double opt-in: how often the contact was asked, under which serial the last link was made, and whether the mail of
-- that serial is still to be written.
create table confirmation (
  workspace_id uuid not null,
  contact_id   uuid not null,
  asked        smallint not null,
  asked_at     timestamptz not null,
  is_open      boolean not null,                  -- the link of the last mail has not been used
  is_mailed    boolean not null,
  primary key (workspace_id, contact_id)
);
create index confirmation_unmailed on confirmation (asked_at) where not is_mailed;

-- Addresses that must not be written to although nothing else of them is kept: a keyed hash, of an erased contact.
create table suppression (
  workspace_id uuid not null,
  audience_id  uuid not null,
  address_hash bytea not null,
  reason       text not null,
  since        timestamptz not null,
  primary key (workspace_id, audience_id, address_hash)
);

-- Erasures that are still at work on the mail to some addresses. Gone when they are done, and the addresses with them.
create table erasure (
  workspace_id uuid not null,
  id           uuid not null,
  identities   text[] not null,
  next_day     int not null,                      -- whose e-mails are looked through next, from the newest to the oldest
  primary key (workspace_id, id)
);

-- a deleted audience is seen by nobody; its contacts are erased in groups, and then the row goes too
alter table audience add column deleted_at timestamptz;
create index audience_deleted on audience (deleted_at) where deleted_at is not null;
