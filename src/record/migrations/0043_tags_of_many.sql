-- The tags of contacts that one statement changed, for a statement of any size. What went and what came is a difference of
-- two lists: a join of the rows before with those after was planned once, for the first few rows that a connection
-- changed, and compared each row with each of twenty thousand later on. With its tag a contact is always found by key, for
-- the same reason: a plan that reads the whole table for many rows would be kept for one.
create or replace function keep_contact_tags() returns trigger language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  if tg_op = 'UPDATE' then
    delete from contact_tag t using (
      select workspace_id, audience_id, unnest(tags) as tag, id from old_rows where archived_at is null
      except
      select workspace_id, audience_id, unnest(tags), id from new_rows where archived_at is null) as gone
    where t.workspace_id = gone.workspace_id and t.audience_id = gone.audience_id and t.tag = gone.tag and t.contact_id = gone.id;
    insert into contact_tag (workspace_id, audience_id, tag, contact_id)
    select workspace_id, audience_id, unnest(tags), id from new_rows where archived_at is null
    except
    select workspace_id, audience_id, unnest(tags), id from old_rows where archived_at is null
    on conflict do nothing;
  elsif tg_op = 'DELETE' then
    delete from contact_tag t using (
      select workspace_id, audience_id, unnest(tags) as tag, id from old_rows where archived_at is null) as gone
    where t.workspace_id = gone.workspace_id and t.audience_id = gone.audience_id and t.tag = gone.tag and t.contact_id = gone.id;
  else
    insert into contact_tag (workspace_id, audience_id, tag, contact_id)
    select workspace_id, audience_id, unnest(tags), id from new_rows where archived_at is null
    on conflict do nothing;
  end if;
  return null;
end $$;

-- A domain that has keys is named. Both went in two transactions, so that a key may have come in between.
insert into domain (workspace_id, id, domain, token, created_at)
select workspace_id, gen_random_uuid(), domain, replace(gen_random_uuid()::text, '-', ''), min(created_at)
from domain_key group by workspace_id, domain
on conflict do nothing;
