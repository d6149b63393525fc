-- How many shards the queue of bags has: one row, changed by `postrider queue shards N` while everything runs.
create table queue_shards (
  is_only boolean primary key default true check (is_only),
  shards  smallint not null check (shards between 1 and 64)
);
insert into queue_shards (shards) values (1);
