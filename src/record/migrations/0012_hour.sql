-- The hour of the caps has 14 slots of five minutes. What was used in the 13 of before counts in the newest of them.
alter table ledger
  alter column hour_used set default array_fill(0, array[14]),
  alter column hour_bulk set default array_fill(0, array[14]);

update ledger set
  hour_used = (
    select array_agg(case when slot = bucket % 14 then used else 0 end order by slot)
    from generate_series(0, 13) as slot, (select sum(n)::int as used from unnest(hour_used) as n) as total),
  hour_bulk = (
    select array_agg(case when slot = bucket % 14 then used else 0 end order by slot)
    from generate_series(0, 13) as slot, (select sum(n)::int as used from unnest(hour_bulk) as n) as total);
