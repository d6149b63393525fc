-- Files of contacts that were given to the API: how far each has come. The file itself is in the process that reads it, which
-- says now and then that it lives (seen_at).

create table contact_import (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  audience_id  uuid not null,
  status       text not null check (status in ('queued', 'in_progress', 'completed', 'failed')),
  total        int not null default 0,
  created      int not null default 0,
  updated      int not null default 0,
  skipped      int not null default 0,
  failed       int not null default 0,
  created_at   timestamptz not null,
  seen_at      timestamptz not null,
  completed_at timestamptz,
  primary key (workspace_id, id)
);
