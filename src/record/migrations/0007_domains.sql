-- Keys that sign the mail of a domain (DKIM). A private key is here only sealed, under a key derived from the server's
-- secret, and only for as long as it may sign; the public key stays until it is removed, since mail on its way is still
-- verified with it.

create table domain_key (
  workspace_id uuid not null references workspace on delete cascade,
  domain       text not null,                     -- A-labels, in lower case
  selector     text not null,
  algorithm    text not null check (algorithm in ('rsa', 'ed25519')),
  state        text not null check (state in ('waiting', 'signing', 'retired')),
  public_key   bytea not null,                    -- SubjectPublicKeyInfo
  sealed_key   bytea,
  created_at   timestamptz not null,
  primary key (workspace_id, domain, selector),
  check ((state = 'retired') = (sealed_key is null))
);
-- Of each algorithm one key signs and one waits to take its place.
create unique index domain_key_in_use on domain_key (workspace_id, domain, algorithm, state) where state <> 'retired';
