-- People in the console: where they are signed in, whom they invited, and what they changed.

alter table account
  add column is_operator boolean not null default false,
  add column totp_secret bytea,                   -- sealed; null: no codes are asked for
  add column totp_step   bigint not null default 0;  -- of the last code that was taken: none is taken twice
create index account_email on account (lower(email));

-- A bounded number for each account: signing in ends the oldest.
create table session (
  hash       bytea primary key,
  account_id uuid not null references account on delete cascade,
  created_at timestamptz not null,
  used_at    timestamptz not null
);
create index session_account on session (account_id);

-- The last link that was asked for.
create table password_reset (
  account_id uuid primary key references account on delete cascade,
  hash       bytea not null unique,
  created_at timestamptz not null
);

create table invitation (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  email        text not null,
  role         text not null check (role in ('owner', 'admin', 'member')),
  hash         bytea not null unique,
  invited_by   uuid not null,                     -- an account that may no longer be there
  created_at   timestamptz not null,
  primary key (workspace_id, id)
);

-- What people changed, written before it happens. What concerns the whole installation has the workspace 0.
create table change (
  workspace_id uuid not null,
  id           uuid not null,
  account_id   uuid not null,
  email        text not null,
  action       text not null,                     -- 'DELETE keys/{id}'
  subject      text not null,                     -- what a path names
  detail       jsonb,
  status       smallint,                          -- how it was answered; null: nobody knows
  primary key (workspace_id, id)
);
