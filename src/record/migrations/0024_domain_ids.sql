-- Domains by the API: an id to name one by, and what DNS showed of its records when it was last asked for them.
alter table domain
  add column id uuid not null default gen_random_uuid(),
  add column seen jsonb not null default '{}',
  add column seen_at timestamptz;
create unique index domain_id on domain (workspace_id, id);
