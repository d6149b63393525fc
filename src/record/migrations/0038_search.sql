-- Lists of e-mails by status, recipient, subject, tag and key. `email` itself gets no index: one on `status` would make
-- each settling write the row and its indexes anew, and one on what is written once would cost every send.

-- E-mails by an ending that few have. One that changed since is here under both.
create table email_ending (
  workspace_id uuid not null,
  status       text not null,
  id           uuid not null,
  primary key (workspace_id, status, id)
) partition by range (id);

do $$
declare
  days record;
begin
  for days in
    select relname, pg_get_expr(relpartbound, c.oid) as bounds
    from pg_class c join pg_inherits on inhrelid = c.oid where inhparent = 'email'::regclass and not inhdetachpending
  loop
    execute format('create table %I partition of email_ending %s', replace(days.relname, 'email_', 'email_ending_'), days.bounds);
  end loop;
end $$;

create function note_ending() returns trigger language plpgsql as $$
begin
  insert into email_ending values (new.workspace_id, new.status, new.id) on conflict do nothing;
  return null;
end $$;

-- A condition here costs a comparison for each e-mail; the function runs for the few.
create trigger note_first_ending after insert on email for each row
  when (new.status in ('bounced', 'complained', 'failed', 'suppressed', 'canceled')) execute function note_ending();
create trigger note_ending after update on email for each row
  when (new.status in ('bounced', 'complained', 'failed', 'suppressed', 'canceled') and old.status <> new.status)
  execute function note_ending();

insert into email_ending
select workspace_id, status, id from email
where status in ('bounced', 'complained', 'failed', 'suppressed', 'canceled');

-- What is scheduled among much that waits for caps, and the other way round.
create index due_by_why on due (workspace_id, why, email_id);

-- Which recipients, words, tags, keys and streams occur among some consecutive e-mails of a workspace; null: not known now, the
-- keeper looks. Says where to look, and not what is there: an e-mail that changed since is read anyway.
create table search_block (
  workspace_id uuid not null,
  from_id      uuid not null,
  until_id     uuid not null,                     -- the first that is not in it
  emails       int not null default 0,            -- when it was looked through
  terms        bigint[],
  primary key (workspace_id, until_id)
) with (fillfactor = 90);
alter table search_block alter column terms set storage external;
create index search_block_terms on search_block using gin (terms) with (gin_pending_list_limit = 512);
create index search_block_unknown on search_block (workspace_id, until_id) where terms is null;

-- A term is of one workspace: blocks of others do not have it.
create function search_term(workspace_id uuid, kind text, value text) returns bigint language sql immutable parallel safe
  return ('x' || left(md5(workspace_id::text || ' ' || kind || ' ' || value), 16))::bit(64)::bigint;

-- With spaces around each word. Case and punctuation are those of ASCII, as rules/words.ts has them.
create function spaced_words(text) returns text language sql immutable parallel safe
  return ' ' || translate(lower($1 collate "C"),
    E'\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~',
    repeat(' ', 64)) || ' ';
