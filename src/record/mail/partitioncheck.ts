/**
 * Whether everything in a partition of e-mails is over: found by looking at each row once, in small steps
 * that keep no lock and no snapshot from one to the next, and remember how far they got.
 *
 * A row that is over stays so: what reached a final status is never open again. It does not matter when a row
 * is seen, only that none is missed. The steps go through the pages of the table in their order, since 10,000
 * rows in the order of the key lie on nearly 10,000 pages. But an open row that is updated may move to a page
 * that has been seen already. So the keys are gone through as well, in the order of the index, where each has
 * its place for good. When pages and keys yield the same number of rows and the same sum of hashes, every row
 * was seen; otherwise the check begins again.
 */
import { StepSize } from "../../rules/stepsize.ts";
import type { Sql } from "../db/connect.ts";
import { integer, json, orNull, text, typed } from "../db/rowshape.ts";

const PAGES_MAX = 2_000;
const KEYS_MAX = 50_000;

type Key = { workspaceId: string; id: string };

const NO_KEY: Key = {
  workspaceId: "00000000-0000-0000-0000-000000000000",
  id: "00000000-0000-0000-0000-000000000000",
};

/** Of a set of rows: how many, and the exclusive or of the hashes of their ids. */
class Sum {
  #rows = 0;
  #hash = 0n;

  add(rows: number, hash: string): void {
    this.#rows += rows;
    this.#hash ^= BigInt(hash);
  }

  equals(other: Sum): boolean {
    return this.#rows === other.#rows && this.#hash === other.#hash;
  }
}

export type PartitionState = "over" | "open" | "unfinished";

export class PartitionCheck {
  readonly #sql: Sql;
  readonly #name: string;
  readonly #pages: StepSize;
  readonly #keys: StepSize;
  #nextPage: number | null = 0;
  #inPages = new Sum();
  #lastKey: Key | null = NO_KEY;
  #inKeys = new Sum();
  /** A row that was open when it was seen. */
  #open: Key | null = null;
  #isOver = false;

  /** A step that took longer than `slowMs` makes the next one smaller. */
  constructor(sql: Sql, name: string, slowMs: number) {
    this.#sql = sql;
    this.#name = name;
    this.#pages = new StepSize({ max: PAGES_MAX, slowMs });
    this.#keys = new StepSize({ max: KEYS_MAX, slowMs });
  }

  /**
   * Looks at some more of it. `over`: all rows were final before that time; `open`: that cannot be said now.
   */
  async step(before: Date): Promise<PartitionState> {
    if (this.#isOver) return "over";
    if (this.#open && (await this.#isOpen(this.#open, before))) return "open";
    this.#open = null;
    if (this.#nextPage !== null) {
      await this.#pages.take((most) => this.#seePages(before, most));
      return this.#open ? "open" : "unfinished";
    }
    if (this.#lastKey !== null) {
      await this.#keys.take((most) => this.#seeKeys(most));
      return "unfinished";
    }
    this.#isOver = this.#inPages.equals(this.#inKeys);
    if (!this.#isOver) this.#begin();
    return this.#isOver ? "over" : "open";
  }

  /**
   * After it was found to be over, for when nothing can be written there any more: the keys are gone through
   * again. Rows that came meanwhile show; all others are still over.
   */
  again(): void {
    this.#isOver = false;
    this.#lastKey = NO_KEY;
    this.#inKeys = new Sum();
  }

  #begin(): void {
    this.again();
    this.#nextPage = 0;
    this.#inPages = new Sum();
  }

  /** Pages with an open row are seen again when that row is over. */
  async #seePages(before: Date, most: number): Promise<void> {
    const sql = this.#sql;
    const page = this.#nextPage ?? 0;
    const end = page + most;
    const [row] = await typed(sql, { pages: integer, rows: integer, hash: text, open: orNull(text) })`
      select (pg_relation_size(${this.#name}::regclass) / current_setting('block_size')::int)::int as pages,
        count(*)::int as rows, coalesce(bit_xor(uuid_hash_extended(id, 0)), 0)::text as hash,
        min(workspace_id || ' ' || id) filter (where ${notOver(sql, before)}) as open
      from ${sql(this.#name)} where ctid >= ${`(${page},0)`}::text::tid and ctid < ${`(${end},0)`}::text::tid`;
    if (!row) return;
    if (row.open !== null) {
      const [workspaceId, id] = row.open.split(" ") as [string, string];
      this.#open = { workspaceId, id };
      return;
    }
    this.#inPages.add(row.rows, row.hash);
    this.#nextPage = end < row.pages ? end : null;
  }

  async #seeKeys(most: number): Promise<void> {
    const sql = this.#sql;
    const { workspaceId, id } = this.#lastKey ?? NO_KEY;
    const [row] = await typed(sql, { rows: integer, hash: text, last: orNull(json<Key>()) })`
      with step as materialized (
        select workspace_id, id from ${sql(this.#name)} where (workspace_id, id) > (${workspaceId}, ${id})
        order by workspace_id, id limit ${most}
      )
      select count(*)::int as rows, coalesce(bit_xor(uuid_hash_extended(id, 0)), 0)::text as hash,
        (select json_build_object('workspaceId', workspace_id, 'id', id) from step offset ${most - 1}) as last
      from step`;
    if (!row) return;
    this.#inKeys.add(row.rows, row.hash);
    this.#lastKey = row.last;
  }

  async #isOpen({ workspaceId, id }: Key, before: Date): Promise<boolean> {
    const sql = this.#sql;
    const rows = await sql`
      select from ${sql(this.#name)} where workspace_id = ${workspaceId} and id = ${id}
        and ${notOver(sql, before)}`;
    return rows.length > 0;
  }
}

function notOver(sql: Sql, before: Date) {
  return sql`(status in ('accepted', 'scheduled', 'waiting', 'deferred') or updated_at >= ${before})`;
}
