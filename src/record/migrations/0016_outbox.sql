-- What happens to e-mails and contacts, written once in the transaction that makes it true, for workspaces that ask for it.
-- The rows hold no addresses and no contents: a reader finds those where they are kept, and erased.

alter table workspace add column logs_events boolean not null default false;
create index workspace_logs_events on workspace (id) where logs_events;

create sequence outbox_number;
create table outbox (
  workspace_id uuid not null,
  number       bigint not null default nextval('outbox_number'),  -- in the order of writing
  sequence     bigint,                            -- of the workspace, without gaps; given once the row is seen by all
  at           timestamptz not null,
  kept_at      timestamptz not null default now(),  -- which day's partition
  type         text not null,                     -- 'email.delivered'
  subject_id   uuid not null,                     -- the e-mail or the contact
  entry        int                                -- of the e-mail's history, from 0
) partition by range (kept_at);
create index outbox_unread on outbox (number) where sequence is null;
create index outbox_read on outbox (workspace_id, sequence);

create table event_sequence (
  workspace_id uuid primary key references workspace,
  last         bigint not null
);

-- Statements, not rows: where nobody asks for it this costs one probe of an empty index for each statement. Triggers, so
-- that no writer, also of later versions, can change an e-mail without telling.
create function tell_of_emails() returns trigger language plpgsql as $$
begin
  if not exists (select from workspace where logs_events) then
    return null;
  end if;
  if tg_op = 'INSERT' then
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.created_at, case n.status when 'scheduled' then 'email.scheduled' else 'email.accepted' end, n.id
    from new_rows n join workspace w on w.id = n.workspace_id and w.logs_events
    order by n.workspace_id, n.id;
    insert into outbox (workspace_id, at, type, subject_id, entry)
    select n.workspace_id, (h.entry ->> 'at')::timestamptz, 'email.' || (h.entry ->> 'type'), n.id, h.place - 1
    from new_rows n join workspace w on w.id = n.workspace_id and w.logs_events
    cross join jsonb_array_elements(n.history) with ordinality as h(entry, place)
    order by n.workspace_id, n.id, h.place;
  else
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.sent_at, 'email.sent', n.id
    from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
    join workspace w on w.id = n.workspace_id and w.logs_events
    where o.sent_at is null and n.sent_at is not null
    order by n.workspace_id, n.id;
    insert into outbox (workspace_id, at, type, subject_id, entry)
    select n.workspace_id, (h.entry ->> 'at')::timestamptz, 'email.' || (h.entry ->> 'type'), n.id, h.place - 1
    from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
    join workspace w on w.id = n.workspace_id and w.logs_events
    cross join jsonb_array_elements(n.history) with ordinality as h(entry, place)
    where h.place > coalesce(jsonb_array_length(o.history), 0)
    order by n.workspace_id, n.id, h.place;
  end if;
  return null;
end $$;

create trigger tell_of_new after insert on email referencing new table as new_rows
  for each statement execute function tell_of_emails();
create trigger tell_of_changed after update on email referencing old table as old_rows new table as new_rows
  for each statement execute function tell_of_emails();

create function tell_of_contacts() returns trigger language plpgsql as $$
begin
  if not exists (select from workspace where logs_events) then
    return null;
  end if;
  if tg_op = 'INSERT' then
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.created_at, 'contact.created', n.id
    from new_rows n join workspace w on w.id = n.workspace_id and w.logs_events
    order by n.workspace_id, n.id;
  elsif tg_op = 'UPDATE' then
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.updated_at,
      case when o.archived_at is null and n.archived_at is not null then 'contact.deleted'
           when o.archived_at is not null and n.archived_at is null then 'contact.created'
           else 'contact.updated' end, n.id
    from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
    join workspace w on w.id = n.workspace_id and w.logs_events
    where n.updated_at is distinct from o.updated_at or n.archived_at is distinct from o.archived_at
    order by n.workspace_id, n.id;
  else
    insert into outbox (workspace_id, at, type, subject_id)
    select o.workspace_id, now(), 'contact.deleted', o.id
    from old_rows o join workspace w on w.id = o.workspace_id and w.logs_events
    where o.archived_at is null
    order by o.workspace_id, o.id;
  end if;
  return null;
end $$;

create trigger tell_of_new after insert on contact referencing new table as new_rows
  for each statement execute function tell_of_contacts();
create trigger tell_of_changed after update on contact referencing old table as old_rows new table as new_rows
  for each statement execute function tell_of_contacts();
create trigger tell_of_deleted after delete on contact referencing old table as old_rows
  for each statement execute function tell_of_contacts();
