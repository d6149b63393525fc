-- Who may do what in Postgres. Run by a superuser in the database of Postrider, as often as you like:
--
--   OWNER_PASSWORD=... SERVING_PASSWORD=... psql --dbname=postrider --file=postgres-roles.sql
--
-- postrider_owner  owns the tables: for `postrider migrate`, for `postrider workspace move`, and for the keeper, which
--                  creates and drops daily partitions
-- postrider        reads and writes rows: for all other roles of Postrider, and for the command line

\getenv owner_password OWNER_PASSWORD
\getenv serving_password SERVING_PASSWORD
\set ON_ERROR_STOP on

do $$
declare
  name text;
  thing record;
begin
  foreach name in array array['postrider_owner', 'postrider'] loop
    if to_regrole(name) is null then
      execute format('create role %I', name);
    end if;
    execute format('alter role %I with login nosuperuser nocreatedb nocreaterole noreplication nobypassrls', name);
    -- the engine says so on each connection, but a pooler may not pass it on
    execute format('alter role %I set jit = off', name);
  end loop;

  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to postrider_owner, postrider', current_database());
  -- large attachments arrive in pieces
  execute format('grant temporary on database %I to postrider', current_database());

  -- what an earlier version made as a superuser
  for thing in
    select c.oid::regclass as name, c.relkind from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
      and c.relowner <> 'postrider_owner'::regrole
  loop
    execute format('alter %s %s owner to postrider_owner',
      case thing.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end, thing.name);
  end loop;
  for thing in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and p.proowner <> 'postrider_owner'::regrole
  loop
    execute format('alter function %s owner to postrider_owner', thing.name);
  end loop;
end $$;

alter role postrider_owner password :'owner_password';
alter role postrider password :'serving_password';

alter schema public owner to postrider_owner;
revoke all on schema public from public;
grant usage on schema public to postrider;
grant select, insert, update, delete on all tables in schema public to postrider;
grant usage on all sequences in schema public to postrider;
-- what migrations and the days to come bring
alter default privileges for role postrider_owner in schema public
  grant select, insert, update, delete on tables to postrider;
alter default privileges for role postrider_owner in schema public grant usage on sequences to postrider;
