-- What providers show senders on their own pages, of those that the file names: several may tell of one domain and day.
-- postmaster_day keeps what names none, and the version before goes on with it.
create table provider_day (
  workspace_id   uuid not null,
  domain         text not null,
  day            int not null,
  provider       text not null,
  complaint_rate float8,
  delivered      int,                             -- what the rate was taken over; null: not said
  reputation     text check (reputation in ('high', 'medium', 'low', 'bad')),
  imported_at    timestamptz not null,
  primary key (workspace_id, domain, day, provider)
);
