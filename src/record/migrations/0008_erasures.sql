-- Whether anybody was ever suppressed in an audience: known with the lock of the row, so that nobody else is looked up.
alter table audience add column suppresses boolean not null default false;
update audience a set suppresses = true
where exists (select from suppression s where s.workspace_id = a.workspace_id and s.audience_id = a.id);

-- One erasure looks through the mail for any number of addresses: those of a workspace gather until it is begun.
create table erased_address (
  workspace_id uuid not null,
  erasure_id   uuid not null,
  identity     text not null,
  primary key (workspace_id, erasure_id, identity),
  foreign key (workspace_id, erasure_id) references erasure
);
insert into erased_address (workspace_id, erasure_id, identity)
select distinct workspace_id, id, unnest(identities) from erasure;

alter table erasure drop column identities;
alter table erasure add column is_begun boolean not null default true;
alter table erasure alter column is_begun set default false;
create unique index erasure_gathering on erasure (workspace_id) where not is_begun;

-- attachments go with the bodies that named them
create index attachment_age on attachment using brin (last_used_at) with (pages_per_range = 32, autosummarize = on);
