-- Whether anybody was ever suppressed in an audience: known with the lock of the row, so that nobody else is looked up.
alter table audience add column suppresses boolean not null default false;
update audience a set suppresses = true
where exists (select from suppression s where s.workspace_id = a.workspace_id and s.audience_id = a.id);
