-- Only the first workspace that has a webhook, and the last, hold up writers: whoever comes between changes no trigger. An
-- advisory lock keeps whoever begins to tell and whoever ends it from missing each other.

create or replace function hold_writers() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform pg_advisory_xact_lock(7165003);
  lock table only email, only contact in share row exclusive mode;
  return null;
end $$;

create function hold_writers_when_silent() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform pg_advisory_xact_lock_shared(7165003);
  if (select tgenabled = 'D' from pg_trigger where tgrelid = 'email'::regclass and tgname = 'tell_of_new') then
    lock table only email, only contact in share row exclusive mode;
  end if;
  return null;
end $$;

drop trigger hold_writers on workspace;
drop trigger tell_when_asked on workspace;
create trigger hold_writers before update of logs_events on workspace
  for each statement execute function hold_writers();
create trigger hold_writers_when_silent before update of has_webhooks on workspace
  for each statement execute function hold_writers_when_silent();
create trigger tell_when_asked after update of logs_events, has_webhooks on workspace
  for each statement execute function tell_when_asked();
