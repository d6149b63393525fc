-- An e-mail travels in one bag at a time, and its row says in which: loading and settling require that name. A bag that
-- still lists an e-mail which has left it can neither send nor settle it.
alter table email add column bag_id uuid;

update email e set bag_id = b.bag_id
from (
  select distinct on (workspace_id, email_id) workspace_id, email_id, id as bag_id
  from bag, unnest(email_ids) as email_id
  order by workspace_id, email_id, id desc
) as b
where e.workspace_id = b.workspace_id and e.id = b.email_id and e.status in ('accepted', 'deferred')
  and not exists (select from due d where d.workspace_id = e.workspace_id and d.email_id = e.id);

-- When mail was given its place in the sending caps. A place that is not used within minutes lapses: caps are about what
-- receivers see, so mail that was held up takes a new place when it may leave.
alter table bag add column granted_at timestamptz;
update bag set granted_at = created_at;
alter table bag alter column granted_at set default now(), alter column granted_at set not null;
alter table due add column granted_at timestamptz; -- deferred mail only
