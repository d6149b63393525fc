/**
 * Which rows belong to a workspace, from the catalog, and how they come to another cell. Every table with a
 * workspace is named here: what is done with the rows of a new one is a decision.
 */
import type { Sql, Tx } from "../db/connect.ts";
import { json, orNull, text, typed } from "../db/rowshape.ts";

/**
 * early: copied while the workspace works, and what changes meanwhile is copied again. Nothing in the new
 * record works on them there, since the workspace is suspended until it has arrived. late: few rows, copied
 * while nobody may write; where they are missing, nothing works on the workspace. empty: there must be none
 * when the workspace leaves. own: handled by name, or made anew where the workspace is.
 */
type Mode = "early" | "late" | "empty" | "own";

export const TABLE_MODES: Readonly<Record<string, Mode>> = {
  api_key: "early",
  attachment: "early",
  audience: "early",
  automation: "early",
  automation_version: "early",
  bag: "early",
  body: "early",
  cap_change: "early",
  cap_look: "early",
  cap_source: "early",
  cap_state: "early",
  cap_use: "early",
  capacity: "late",
  change: "early",
  claim: "early",
  confirmation: "early",
  consent: "early",
  contact: "early",
  contact_import: "late",
  contact_tag: "early",
  definition: "early",
  domain: "late",
  domain_key: "early",
  due: "early",
  email: "early",
  email_ending: "early",
  entry: "early",
  erased_address: "empty",
  erased_contact: "empty",
  erasure: "empty",
  event: "early",
  event_sequence: "late",
  invitation: "late",
  ledger: "late",
  member: "own", // accounts are of the cell
  outbox: "early", // what has its sequence, and the rest gets it before the workspace leaves
  outbox_batch: "own", // becomes rows of the outbox before the workspace leaves
  part_tally: "early",
  postmaster_day: "early",
  provider_day: "early",
  report: "own", // most are nobody's until they are read
  request: "early",
  run: "early",
  run_step: "early",
  search_block: "own", // made anew by the keeper
  sender_limit: "late",
  shadow_capacity: "late",
  shadow_change: "early",
  soft_bounce: "early",
  suppressed_address: "early",
  suppression: "early",
  tally: "early",
  template: "early",
  template_version: "early",
  webhook: "late",
  webhook_attempt: "early",
  webhook_delivery: "early",
  webhook_replay: "late",
  workspace_change: "own",
  workspace_move: "own",
};

/**
 * Of tables without a primary key, and of those of which only some rows are copied: rows without a key are
 * not.
 */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  outbox: ["workspace_id", "sequence"],
  webhook_attempt: ["workspace_id", "webhook_id", "id"],
};

/** What is copied of a table is what holds here; the rest must be gone when the workspace leaves. */
const CONDITIONS: Readonly<Record<string, string>> = {
  audience: "deleted_at is null",
  outbox: "sequence is not null",
};

export type MovedTable = {
  name: string;
  mode: Mode;
  /** In the order in which Postgres writes them. */
  columns: readonly { name: string; type: string; isRequired: boolean }[];
  key: readonly { name: string; type: string }[];
  condition: string;
};

export async function workspaceTables(sql: Sql | Tx): Promise<MovedTable[]> {
  const found = await typed(sql, {
    name: text,
    columns: json<MovedTable["columns"]>(),
    primary: orNull(json<string[]>()),
  })`
    select c.relname::text as name,
      (select json_agg(json_build_object(
        'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'isRequired', a.attnotnull)
        order by a.attnum)
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
      (select json_agg(a.attname order by array_position(i.indkey::int[], a.attnum::int))
        from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
        where i.indrelid = c.oid and i.indisprimary) as primary
    from pg_class c
    where c.relnamespace = (select relnamespace from pg_class where oid = 'migration'::regclass)
      and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname !~ '_[0-9]{8}$'
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'workspace_id'
        and not a.attisdropped)
    order by c.relname`;
  return found.map(({ name, columns, primary }) => {
    const mode = TABLE_MODES[name];
    if (mode === undefined)
      throw new Error(`record/cells/tables.ts does not say how the table ${name} moves`);
    const names = KEYS[name] ?? primary ?? [];
    const key = names.map(
      (one) => columns.find((column) => column.name === one) as MovedTable["key"][number],
    );
    return { name, mode, columns, key, condition: CONDITIONS[name] ?? "true" };
  });
}
