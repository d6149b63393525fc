-- Webhooks: endpoints of workspaces that are told of events over HTTP. An endpoint has a cursor over the event log, and
-- rows only for events that must be tried again. No row holds an address or contents: a payload is made when it is sent.

alter table workspace
  add column webhooks int not null default 0,
  -- since it has had webhooks; the keeper takes it back when it has none, since a change holds up all writers for a moment
  add column has_webhooks boolean not null default false;
-- its events are written: somebody reads them
alter table workspace add column tells boolean generated always as (logs_events or has_webhooks) stored;
drop index workspace_logs_events;
create index workspace_tells on workspace (id) where tells;
create index workspace_webhooks on workspace (id) where has_webhooks;

create or replace function tell_when_asked() returns trigger language plpgsql security definer set search_path from current as $$
declare
  is_asked boolean := exists (select from workspace where tells);
  is_told boolean := (select tgenabled <> 'D' from pg_trigger where tgrelid = 'email'::regclass and tgname = 'tell_of_new');
  what text := case when is_asked then 'enable' else 'disable' end;
begin
  if is_asked = is_told then
    return null;
  end if;
  execute format('alter table only email %s trigger tell_of_new, %1$s trigger tell_of_changed', what);
  execute format('alter table only contact %s trigger tell_of_new, %1$s trigger tell_of_changed,
    %1$s trigger tell_of_deleted', what);
  return null;
end $$;
drop trigger hold_writers on workspace;
drop trigger tell_when_asked on workspace;
create trigger hold_writers before update of logs_events, has_webhooks on workspace
  for each statement execute function hold_writers();
create trigger tell_when_asked after update of logs_events, has_webhooks on workspace
  for each statement execute function tell_when_asked();

create table webhook (
  workspace_id    uuid not null references workspace on delete cascade,
  id              uuid not null,
  endpoint        text not null,
  events          text[],                         -- null: all
  secrets         bytea not null,                 -- sealed: the secret in force, and older ones while receivers change over
  public_key      text,                           -- of its ed25519 key, when it has one
  status          text not null check (status in ('enabled', 'disabled')),
  disabled_for    text check (disabled_for in ('gone', 'failing')),  -- null: its owner disabled it
  cursor          bigint not null,                -- up to this sequence every event is delivered, unwanted or in webhook_delivery
  failures        int not null default 0,         -- in a row
  failing_since   timestamptz,
  retry_at        timestamptz,                    -- until then nothing new is sent to it
  delivered_at    timestamptz,                    -- the last time
  told_by         uuid,                           -- the e-mail that tells its owner of the failures
  missed          bigint not null default 0,      -- events that the log no longer held when their turn came
  lease_token     uuid,
  lease_until     timestamptz,
  created_at      timestamptz not null,
  updated_at      timestamptz not null,           -- by its owner
  primary key (workspace_id, id)
) with (fillfactor = 50);
create index webhook_enabled on webhook (workspace_id, id) where status = 'enabled';
create index webhook_failing on webhook (failing_since) where failing_since is not null;

-- Events that their endpoint did not take at the first try, or that are asked for again.
create table webhook_delivery (
  workspace_id uuid not null,
  webhook_id   uuid not null,
  sequence     bigint not null,
  at           timestamptz not null,
  type         text not null,
  subject_id   uuid not null,
  entry        int,
  detail       text,
  tries        smallint not null default 0,
  due_at       timestamptz,                       -- null: it failed for good, or waits behind another of its e-mail
  failed_at    timestamptz,
  primary key (workspace_id, webhook_id, sequence)
) with (fillfactor = 70);
create index webhook_delivery_due on webhook_delivery (workspace_id, webhook_id, due_at) where due_at is not null;
create index webhook_delivery_subject on webhook_delivery (workspace_id, webhook_id, subject_id, sequence)
  where failed_at is null;
create index webhook_delivery_failed on webhook_delivery (failed_at) where failed_at is not null;

-- A range of the log that an endpoint is sent again.
create table webhook_replay (
  workspace_id uuid not null,
  webhook_id   uuid not null,
  id           uuid not null,
  cursor       bigint not null,
  last         bigint not null,
  primary key (workspace_id, webhook_id, id)
);

create table webhook_attempt (
  workspace_id uuid not null,
  webhook_id   uuid not null,
  id           uuid not null,
  sequence     bigint not null,
  at           timestamptz not null,
  status       smallint,                          -- of HTTP; null: there was no answer
  ms           int not null,
  error        text,
  response     text,                              -- its beginning, of a failure
  subject_id   uuid                               -- with a response, which may repeat what it was sent
) partition by range (at);
create index webhook_attempt_latest on webhook_attempt (workspace_id, webhook_id, id);
create index webhook_attempt_event on webhook_attempt (workspace_id, webhook_id, sequence);
create index webhook_attempt_subject on webhook_attempt (workspace_id, subject_id) where subject_id is not null;

alter table outbox add column detail text;        -- the name of a domain

-- Transition tables have no statistics: planned for one row, a join of old and new rows compares each with each.
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
  if tg_op = 'INSERT' then
    insert into outbox (workspace_id, at, type, subject_id, entry)
    select n.workspace_id, e.at, e.type, n.id, e.place - 1
    from new_rows n
    cross join lateral (
      select n.created_at as at, case n.status when 'scheduled' then 'email.scheduled' else 'email.accepted' end as type,
             null::bigint as place
      union all
      select (h.entry ->> 'at')::timestamptz, 'email.' || (h.entry ->> 'type'), h.place
      from jsonb_array_elements(n.history) with ordinality as h(entry, place)
    ) e
    where n.workspace_id = any(telling)
    order by n.workspace_id, n.id, e.place nulls first;
  else
    insert into outbox (workspace_id, at, type, subject_id, entry)
    select n.workspace_id, e.at, e.type, n.id, e.place - 1
    from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
    cross join lateral (
      select n.sent_at as at, 'email.sent' as type, null::bigint as place where o.sent_at is null and n.sent_at is not null
      union all
      select (h.entry ->> 'at')::timestamptz, 'email.' || (h.entry ->> 'type'), h.place
      from jsonb_array_elements(n.history) with ordinality as h(entry, place)
      where h.place > coalesce(jsonb_array_length(o.history), 0)
    ) e
    where n.workspace_id = any(telling)
    order by n.workspace_id, n.id, e.place nulls first;
  end if;
  return null;
end $$;

create or replace function tell_of_contacts() returns trigger language plpgsql set enable_nestloop = off as $$
begin
  if not exists (select from workspace where tells) then
    return null;
  end if;
  if tg_op = 'INSERT' then
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.created_at, 'contact.created', n.id
    from new_rows n join workspace w on w.id = n.workspace_id and w.tells
    order by n.workspace_id, n.id;
  elsif tg_op = 'UPDATE' then
    insert into outbox (workspace_id, at, type, subject_id)
    select n.workspace_id, n.updated_at,
      case when o.archived_at is null and n.archived_at is not null then 'contact.deleted'
           when o.archived_at is not null and n.archived_at is null then 'contact.created'
           else 'contact.updated' end, n.id
    from new_rows n join old_rows o on o.workspace_id = n.workspace_id and o.id = n.id
    join workspace w on w.id = n.workspace_id and w.tells
    where n.updated_at is distinct from o.updated_at or n.archived_at is distinct from o.archived_at
    order by n.workspace_id, n.id;
  else
    insert into outbox (workspace_id, at, type, subject_id)
    select o.workspace_id, now(), 'contact.deleted', o.id
    from old_rows o join workspace w on w.id = o.workspace_id and w.tells
    where o.archived_at is null
    order by o.workspace_id, o.id;
  end if;
  return null;
end $$;

create function tell_of_domain() returns trigger language plpgsql as $$
declare
  told record;
begin
  if tg_op = 'DELETE' then
    told := old;
  else
    told := new;
  end if;
  -- DNS is looked at again and again: told is what changed
  if tg_op = 'UPDATE' and (old.verified_at is null) = (new.verified_at is null)
    and (old.missing_since is null) = (new.missing_since is null)
    and (old.return_path_at is null) = (new.return_path_at is null) then
    return null;
  end if;
  insert into outbox (workspace_id, at, type, subject_id, detail)
  select told.workspace_id, now(),
    case tg_op when 'INSERT' then 'domain.created' when 'UPDATE' then 'domain.updated' else 'domain.deleted' end,
    told.id, told.domain
  from workspace where id = told.workspace_id and tells;
  return null;
end $$;
create trigger tell after insert or update or delete on domain for each row execute function tell_of_domain();

create function tell_of_caps() returns trigger language plpgsql as $$
begin
  insert into outbox (workspace_id, at, type, subject_id)
  select new.workspace_id, new.at, 'cap.changed', new.id from workspace where id = new.workspace_id and tells;
  return null;
end $$;
create trigger tell after insert on cap_change for each row execute function tell_of_caps();
