-- Windows of evidence start with the workspace, each day and each hour, and a step starts them anew. A bounce that is
-- reported later belongs to the mail of its day, but to no hour of it.

alter table tally add column late_bounced int not null default 0;

-- What was sent before today has been judged by the windows of before.
update capacity
set state = state - 'judged' || jsonb_build_object(
  'probe', 0, 'since', to_char(now() at time zone 'UTC', 'YYYY-MM-DD'), 'judged', null, 'hours', jsonb_build_array());
