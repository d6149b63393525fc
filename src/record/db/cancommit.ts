/**
 * Whether mail could be committed: a transaction that is given a number, over the connections that commits
 * use, onto a disk with space, by a role that may write what a send writes, on a day that has its partitions.
 */
import { DAY_MS } from "../../clock.ts";
import { areSettingsOurs, isRefusedByPooler, type Sql, type Tx } from "./connect.ts";
import { hindranceOf, isRefusal } from "./lost.ts";
import { tablesWithout } from "./partitions.ts";
import { boolean, onlyRow, text, typed } from "./rowshape.ts";
import { transactionTime } from "./time.ts";

const READ_ONLY = "25006";
const FULL = "its disk is full";
const STANDBY = "it accepts no writes: is it a standby?";
const READ_ONLY_BY_SETTING =
  "it accepts no writes: default_transaction_read_only is on for this database or role";
const WITHOUT_TRIGGERS =
  "its triggers do not fire: session_replication_role is replica for this database or role; reset it and restart";
/** It came after the start, at which it would have been noticed. */
const POOLED =
  "a pooler before it takes no settings with a connection: restart, or set DATABASE_PREPARE=false";
/** A statement that was prepared over another connection of the pooler. */
const NOT_PREPARED = "26000";
const WRITTEN = ["attachment", "bag", "body", "claim", "due", "email", "ledger"];
const RIGHTS = ["select", "insert", "update", "delete"];

class ReadOnlyBySetting extends Error {}

/** What is wrong, or null. */
export async function canCommit(commits: Sql): Promise<string | null> {
  try {
    return await commits.begin(troubleIn);
  } catch (error) {
    if (error instanceof ReadOnlyBySetting) return READ_ONLY_BY_SETTING;
    if (isRefusedByPooler(error)) return POOLED;
    if (!isRefusal(error)) return "no answer";
    if (error.code === NOT_PREPARED) return POOLED;
    if (hindranceOf(error) === "disk") return FULL;
    return error.code === READ_ONLY || /recovery/.test(error.message)
      ? STANDBY
      : `it refuses a transaction (${error.code})`;
  }
}

async function troubleIn(tx: Tx): Promise<string | null> {
  const { isOurs, isReadOnly, isStandby, replicationRole } = onlyRow(
    await typed(tx, { isOurs: boolean, isReadOnly: boolean, isStandby: boolean, replicationRole: text })`
      select ${areSettingsOurs(tx)} as "isOurs",
        current_setting('transaction_read_only')::boolean as "isReadOnly",
        pg_is_in_recovery() as "isStandby", current_setting('session_replication_role') as "replicationRole"`,
  );
  if (!isOurs) return POOLED;
  if (isReadOnly)
    // is refused, so that the next look is over another connection
    await tx`delete from claim where false`.catch((error: unknown) => {
      throw isStandby ? error : new ReadOnlyBySetting();
    });
  if (replicationRole === "replica") return WITHOUT_TRIGGERS;
  await tx`select pg_current_xact_id()`;
  // a small file, until the transaction ends: nothing else of this writes to the disk before the commit
  await tx`select pg_export_snapshot()`;
  const [forbidden] = await typed(tx, { table: text })`
    select t as table from unnest(${WRITTEN}::text[]) as t, unnest(${RIGHTS}::text[]) as r
    where not has_table_privilege(to_regclass(t), r) order by 1 limit 1`;
  if (forbidden)
    return `its role may not write the table ${forbidden.table}: run ops/postgres-roles.sql in this database`;
  const today = Math.floor((await transactionTime(tx, 0)) / DAY_MS);
  const [without] = await tablesWithout(tx, today);
  return without === undefined
    ? null
    : `the table ${without} has no partition for today: does a keeper run as the role that owns the tables?`;
}
