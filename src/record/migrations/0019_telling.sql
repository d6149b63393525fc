-- A trigger that reads old and new rows makes Postgres keep a copy of each, also for a workspace that asks for nothing: 7%
-- of a delivery. So the triggers of 0016 are there only while some workspace asks.

-- Waits for writers in flight, so that whatever is written after the change is told. Takes its locks before any row's:
-- writers of e-mails lock their table first and wait for rows later.
create function hold_writers() returns trigger language plpgsql security definer set search_path from current as $$
begin
  lock table only email, only contact in share row exclusive mode;
  return null;
end $$;

create function tell_when_asked() returns trigger language plpgsql security definer set search_path from current as $$
declare
  is_asked boolean := exists (select from workspace where logs_events);
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

create trigger hold_writers before update of logs_events on workspace
  for each statement execute function hold_writers();
create trigger tell_when_asked after update of logs_events on workspace
  for each statement execute function tell_when_asked();
create trigger tell_when_asked_at_once after insert on workspace
  for each row when (new.logs_events) execute function tell_when_asked();

update workspace set logs_events = logs_events where false;
