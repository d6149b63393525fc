-- Evidence about single sources: strangers act over few of them.

-- Complaints, and what was delivered where complaints are reported, by the domain of the reader.
create table cap_source (
  workspace_id  uuid not null,
  day           int not null,
  source        text not null,
  worker        text not null,                    -- as in tally: workers never wait for each other
  complained    int not null default 0,
  fbl_delivered int not null default 0,
  primary key (workspace_id, day, source, worker)
) with (fillfactor = 50);

-- What providers show senders on their own pages, as an operator imported it.
create table postmaster_day (
  workspace_id   uuid not null references workspace on delete cascade,
  domain         text not null,
  day            int not null,
  complaint_rate float8,
  delivered      int,                             -- what the rate was taken over; null: not said
  reputation     text check (reputation in ('high', 'medium', 'low', 'bad')),
  imported_at    timestamptz not null,
  primary key (workspace_id, domain, day)
);
