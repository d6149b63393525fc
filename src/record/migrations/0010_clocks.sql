-- A process with a fast clock may have left times in the future, for which everything would wait. The ledgers come back
-- when they are looked at, so what waits is looked at now. Locked in the order in which everyone locks ledgers.
with waiting as (
  select workspace_id from ledger where waiting + waiting_bulk > 0 and next_release_at > now()
  order by workspace_id for update
)
update ledger l set next_release_at = now() from waiting w where l.workspace_id = w.workspace_id;

update brake set since = now() where since > now();
