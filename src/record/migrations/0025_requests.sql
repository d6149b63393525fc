-- Requests of the last days, for whoever wonders what a key did: route, status and time, and nothing that was in them.
create table request (
  workspace_id uuid not null,
  id           uuid not null,
  key_id       uuid not null,
  method       text not null,
  route        text not null,                     -- with names for what a path holds: /contacts/{email_or_id}
  status       smallint not null,
  ms           real not null,
  request_id   uuid not null,                     -- as answered in X-Request-Id
  primary key (workspace_id, id)
) partition by range (id);
