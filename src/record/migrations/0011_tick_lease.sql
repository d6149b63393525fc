-- Which process of the fleet runs a tick of the keeper that takes more than one transaction.
create table tick_lease (
  name  text primary key,
  token uuid not null,
  until timestamptz not null                      -- on the clock of this server, whatever the processes believe
);
