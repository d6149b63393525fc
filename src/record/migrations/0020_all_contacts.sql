-- The audience of contacts that are given without one. Made with the workspace, or when it is first needed.
alter table audience add column is_default boolean not null default false;
create unique index audience_default on audience (workspace_id) where is_default and deleted_at is null;

-- contacts are looked up by address in all audiences together, and listed by status
create index contact_identity on contact (workspace_id, identity);
create index contact_status on contact (workspace_id, audience_id, status, id) where archived_at is null;

-- and listed by tag: who has one and is not archived, kept by triggers
create table contact_tag (
  workspace_id uuid not null,
  audience_id  uuid not null,
  tag          text not null,
  contact_id   uuid not null,
  primary key (workspace_id, audience_id, tag, contact_id)
);
insert into contact_tag (workspace_id, audience_id, tag, contact_id)
select workspace_id, audience_id, unnest(tags), id from contact where archived_at is null;

create function keep_contact_tags() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    delete from contact_tag t using old_rows o join new_rows n on n.workspace_id = o.workspace_id and n.id = o.id
    where t.workspace_id = o.workspace_id and t.audience_id = o.audience_id and t.tag = any(o.tags) and t.contact_id = o.id
      and (n.archived_at is not null or t.tag <> all(n.tags));
  elsif tg_op = 'DELETE' then
    delete from contact_tag t using old_rows o
    where t.workspace_id = o.workspace_id and t.audience_id = o.audience_id and t.tag = any(o.tags) and t.contact_id = o.id;
  end if;
  if tg_op <> 'DELETE' then
    insert into contact_tag (workspace_id, audience_id, tag, contact_id)
    select n.workspace_id, n.audience_id, tag, n.id from new_rows n cross join unnest(n.tags) as tag
    where n.archived_at is null
    on conflict do nothing;
  end if;
  return null;
end $$;

create trigger tags_of_new after insert on contact referencing new table as new_rows
  for each statement execute function keep_contact_tags();
create trigger tags_of_changed after update on contact referencing old table as old_rows new table as new_rows
  for each statement execute function keep_contact_tags();
create trigger tags_of_deleted after delete on contact referencing old table as old_rows
  for each statement execute function keep_contact_tags();
