-- Streams: mail by what it is. A name is only there where it is not that of the kind: '' is transactional or bulk, as
-- `bulk` says. What a workspace defines, and what holds of its streams now, is read with rows that are read anyway.

alter table workspace add column streams jsonb not null default '{}';      -- StreamDefinitions
alter table ledger add column streams jsonb;                               -- used by name; null: none
alter table ledger add column stream_shares jsonb not null default '{}';   -- as the policy holds them back
alter table api_key add column stream text not null default 'transactional';
alter table email add column stream text not null default '';
alter table due add column stream text not null default '';

-- Versions before this one release waiting mail of a whole kind in one order, and sort for that until they are gone.
create index due_waiting_in_stream on due (workspace_id, bulk, stream, email_id)
  where why in ('cap_hour', 'cap_day', 'quota_month');
drop index due_waiting;
