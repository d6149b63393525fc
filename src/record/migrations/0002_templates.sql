-- Templates: what a caller saved to write e-mails from. A change adds a version and never alters one, so that what was
-- compiled of a version stays true; what was sent keeps its own text and needs none of this.

create table template (
  workspace_id uuid not null references workspace on delete cascade,
  id           uuid not null,
  external_id  text,                              -- chosen by the caller
  version      int not null,                      -- the one that is sent
  created_at   timestamptz not null,
  updated_at   timestamptz not null,
  primary key (workspace_id, id),
  unique (workspace_id, external_id)
);

create table template_version (
  workspace_id uuid not null,
  template_id  uuid not null,
  version      int not null,
  name         text not null,
  subject      text,
  sender       text,
  reply_to     text[] not null,
  html         text not null,
  plain        text,
  variables    json not null,                     -- key, type, fallback_value: as they are shown
  declared     json not null,                     -- those the caller declared, with fallbacks for when they are missing
  created_at   timestamptz not null,
  primary key (workspace_id, template_id, version),
  foreign key (workspace_id, template_id) references template on delete cascade
);
