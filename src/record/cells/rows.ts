/**
 * Rows on their way from one record to another, as Postgres writes and reads a whole row in text: no type is
 * translated, so none can be translated wrongly. Both records have the same columns in the same order
 * (`expectSameTables`). Whoever writes or deletes does it as a replica: no trigger runs and no foreign key is
 * checked, since the rows are there already as triggers made them.
 */
import type { Sql, Tx } from "../db/connect.ts";
import { type RowOf, text, typed } from "../db/rowshape.ts";
import type { MovedTable } from "./tables.ts";

const STEP_ROWS = 2_000;
const STEP_BYTES = 8 * 1024 * 1024;

/** `key` as jsonb text. */
const movedRow = {
  key: text,
  row: text,
};
export type MovedRow = RowOf<typeof movedRow>;

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Of a transaction that handles rows of both records: the same text everywhere, and no triggers. */
export async function asReplica(tx: Tx): Promise<void> {
  await tx`
    select set_config('session_replication_role', 'replica', true), set_config('datestyle', 'ISO, MDY', true),
      set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true),
      set_config('extra_float_digits', '1', true), set_config('timezone', 'UTC', true)`;
}

/** The next rows after a key, as many as one step may take: at least one. */
export async function rowsAfter(
  tx: Tx,
  table: MovedTable,
  workspaceId: string,
  after: string | null,
): Promise<MovedRow[]> {
  const { key, columns, condition } = table;
  const rest = key.slice(1);
  const names = key.map(({ name }) => quoted(name)).join(", ");
  const [, ...bounds] = key.map(({ type }, n) => `(a.after_key ->> ${n})::${type}`);
  const place = rest.map(({ name }) => quoted(name)).join(", ");
  const order = tx.unsafe(rest.length > 0 ? `order by ${place}` : "");
  const beyond =
    after === null ? "" : rest.length > 0 ? `and (${place}) > (${bounds.join(", ")})` : "and false";
  // as they are stored: a text that is long is read only when its turn has come
  const size = columns.map(({ name }) => `coalesce(pg_column_size(${quoted(name)}), 0)`).join(" + ");
  return typed(tx, movedRow)`
    with next as (
      select ${tx.unsafe(names)}, ${tx.unsafe(size)} as step_bytes from ${tx(table.name)},
        (select ${after}::text::jsonb as after_key) a
      where workspace_id = ${workspaceId}
        and (${tx.unsafe(condition)}) ${tx.unsafe(beyond)} ${order} limit ${STEP_ROWS}
    ), fitting as (
      select ${tx.unsafe(names)} from (
        select *, sum(step_bytes) over (${order} rows between unbounded preceding
          and 1 preceding) as step_before from next) n
      where coalesce(step_before, 0) < ${STEP_BYTES}
    )
    select ${tx.unsafe(keyText(table))} as key, t::text as row from fitting
      join ${tx(table.name)} t using (${tx.unsafe(names)})
    ${tx.unsafe(rest.length > 0 ? `order by ${rest.map(({ name }) => `t.${quoted(name)}`).join(", ")}` : "")}`;
}

/** As they are now; those that are not there any more, or are not to be copied, are left out. */
export async function rowsAt(tx: Tx, table: MovedTable, keys: readonly string[]): Promise<MovedRow[]> {
  return typed(tx, movedRow)`
    select ${tx.unsafe(keyText(table))} as key, t::text as row
    from ${tx(table.name)} t join ${keysOf(tx, table, keys)} on ${tx.unsafe(matched(table))}
    where ${tx.unsafe(table.condition)}`;
}

/** What is there under these keys becomes these rows. */
export async function replaceRows(
  tx: Tx,
  table: MovedTable,
  keys: readonly string[],
  rows: readonly MovedRow[],
): Promise<void> {
  await deleteKeys(tx, table, keys);
  await insertRows(tx, table, rows);
}

async function insertRows(tx: Tx, table: MovedTable, rows: readonly MovedRow[]): Promise<void> {
  if (rows.length === 0) return;
  await insertTexts(
    tx,
    table.name,
    rows.map(({ row }) => row),
  );
  if (table.name === "bag") await renewBags(tx, rows);
}

export async function insertTexts(tx: Tx, table: string, rows: readonly string[]): Promise<void> {
  // each text is read once: the fields of a row that is not materialized would each read it anew
  await tx`
    insert into ${tx(table)} select (q.r).* from (
      select one::${tx(table)} as r
        from jsonb_array_elements_text(${JSON.stringify(rows)}::text::jsonb) as one offset 0) q`;
}

/** No queue here has a job for them, and nobody holds them. */
async function renewBags(tx: Tx, rows: readonly MovedRow[]): Promise<void> {
  const keys = `[${rows.map(({ key }) => key).join(",")}]`;
  await tx`
    update bag b set epoch = null, token = null, lease_until = null, generation = b.generation + 1,
      shard = ('x' || right(b.workspace_id::text, 4))::bit(16)::int % (select shards from queue_shards)
    from jsonb_array_elements(${keys}::text::jsonb) as k
    where b.workspace_id = (k ->> 0)::uuid and b.id = (k ->> 1)::uuid`;
}

async function deleteKeys(tx: Tx, table: MovedTable, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await tx`
    delete from ${tx(table.name)} t using ${keysOf(tx, table, keys)} where ${tx.unsafe(matched(table))}`;
}

/** Of a workspace that is not here any more, or not yet; says how many. */
export async function deleteSome(tx: Tx, table: string, workspaceId: string): Promise<number> {
  const deleted = await tx`
    delete from ${tx(table)} where (tableoid, ctid) in (
      select tableoid, ctid from ${tx(table)} where workspace_id = ${workspaceId} limit ${STEP_ROWS})`;
  return deleted.count;
}

export async function allRows(tx: Tx, table: MovedTable, workspaceId: string): Promise<MovedRow[]> {
  return typed(tx, movedRow)`
    select ${tx.unsafe(keyText(table))} as key, t::text as row from ${tx(table.name)} t
      where t.workspace_id = ${workspaceId}`;
}

export async function deleteAll(tx: Tx | Sql, table: string, workspaceId: string): Promise<void> {
  await tx`delete from ${tx(table)} where workspace_id = ${workspaceId}`;
}

function keyText({ key }: MovedTable): string {
  return `jsonb_build_array(${key.map(({ name }) => `t.${quoted(name)}`).join(", ")})::text`;
}

/** Each as the types of the table have it. */
function keysOf(tx: Tx, { key }: MovedTable, keys: readonly string[]) {
  const parts = key.map(({ type }, n) => `(one ->> ${n})::${type} as k${n}`).join(", ");
  return tx`(select distinct ${tx.unsafe(parts)} from jsonb_array_elements(${`[${keys.join(",")}]`}::text::jsonb) as one) k`;
}

function matched({ key }: MovedTable): string {
  return key.map(({ name }, n) => `t.${quoted(name)} = k.k${n}`).join(" and ");
}
