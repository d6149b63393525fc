-- From which network a report came: whoever forges the name of an organization sends from other networks than it does.
alter table report add column network text;
alter table tls_report_in add column network text not null default '';
