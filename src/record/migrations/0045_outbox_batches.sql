-- What a statement did to the e-mails of a workspace is one row, however many they are: a row for each event took a quarter
-- of all the time that Postgres spends on an e-mail. Batches become rows of the outbox, with their sequence, in their turn.

create table outbox_batch (
  number       bigint not null default nextval('outbox_number'),  -- in the order of writing, as in the outbox
  workspace_id uuid not null,
  kept_at      timestamptz not null default now(),
  events       int not null,                      -- how many there are in it
  type         text,                              -- of e-mails that are new; null: they have changed
  -- of each e-mail: when the first event was ("sent", where they have changed), null: there was none
  email_ids    uuid[] not null,
  ats          timestamptz[] not null,
  -- and how many entries its history had before and has now: each new one is an event
  known        int[] not null,
  present      int[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index outbox_batch_next on outbox_batch (number);
-- ids and times hardly become shorter
alter table outbox_batch alter column email_ids set storage external, alter column ats set storage external;

create or replace function tell_of_emails() returns trigger language plpgsql set enable_nestloop = off as $$
declare
  telling uuid[];
begin
  if not exists (select from workspace where tells) then
    return null;
  end if;
  telling := array(select id from workspace where tells and id in (select workspace_id from new_rows));
  if telling = '{}' then
    return null;
  end if;
  -- with an offset, what is computed below is computed once
  if tg_op = 'INSERT' then
    insert into outbox_batch (workspace_id, type, events, email_ids, ats, known, present)
    select workspace_id, case when is_scheduled then 'email.scheduled' else 'email.accepted' end, count(*) + sum(present),
      array_agg(id), array_agg(created_at), array_agg(0), array_agg(present)
    from (
      select workspace_id, id, created_at, status = 'scheduled' as is_scheduled,
        coalesce(jsonb_array_length(history), 0) as present
      from new_rows where workspace_id = any(telling) offset 0
    ) n
    group by workspace_id, is_scheduled order by workspace_id, is_scheduled;
  else
    insert into outbox_batch (workspace_id, events, email_ids, ats, known, present)
    select workspace_id, count(at) + sum(greatest(present - known, 0)), array_agg(id), array_agg(at), array_agg(known),
      array_agg(present)
    from (
      select n.workspace_id, n.id, case when o.sent_at is null then n.sent_at end as at,
        coalesce(jsonb_array_length(o.history), 0) as known, coalesce(jsonb_array_length(n.history), 0) as present
      from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
      where n.workspace_id = any(telling) offset 0
    ) n
    where at is not null or present > known
    group by workspace_id order by workspace_id;
  end if;
  return null;
end $$;
