-- What a process compares its POSTRIDER_SECRET with, so that one with another secret does not start: one row.
create table secret_check (
  is_only boolean primary key default true check (is_only),
  digest  bytea not null
);
