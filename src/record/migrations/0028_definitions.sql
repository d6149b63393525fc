-- What a workspace says of its events and of the properties of its contacts. Nothing is checked against it: it is kept for
-- callers of the official client, which ask for it by name.
create table definition (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  kind         text not null check (kind in ('event', 'contact_property')),
  name         text not null,
  content      jsonb not null,                    -- schema; or type and fallback_value
  created_at   timestamptz not null,
  updated_at   timestamptz,
  primary key (workspace_id, id),
  unique (workspace_id, kind, name)
);
create index definition_list on definition (workspace_id, kind, id);
