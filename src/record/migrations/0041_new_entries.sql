-- A change of a history reads the entries that are new, not the whole: one e-mail may have thousands, of fifty recipients who
-- are tried for days.
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
    cross join lateral (select coalesce(jsonb_array_length(o.history), 0) as count) known
    cross join lateral (
      select n.sent_at as at, 'email.sent' as type, null::bigint as place where o.sent_at is null and n.sent_at is not null
      union all
      select (h.entry ->> 'at')::timestamptz, 'email.' || (h.entry ->> 'type'), known.count + h.place
      from jsonb_path_query(n.history, '$[$known to last]', jsonb_build_object('known', known.count))
        with ordinality as h(entry, place)
    ) e
    where n.workspace_id = any(telling)
    order by n.workspace_id, n.id, e.place nulls first;
  end if;
  return null;
end $$;
