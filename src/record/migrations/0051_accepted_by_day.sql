-- Recipients of the mail accepted on a day: counted in the ledger's row, which each commit writes anyway, and noted with
-- the use of the caps when the day is over. A version before this one that sees the day turn does not close the count.
alter table ledger
  add column accepted int not null default 0,
  add column closed_accepted int not null default 0;
alter table cap_use add column accepted int not null default 0;
