/**
 * A copy of all rows in one snapshot, and back into an empty database: text of COPY, with the migrations that
 * it needs. It asks for no program of a fitting version, and a later build restores it and goes on migrating.
 *
 *   {"postrider": "backup", ...}            a line of JSON: migrations, partitions, sequences
 *   {"table": "email", "columns": [...]}    a line of JSON, then its rows as COPY writes them, then `\.`
 *   {"end": true, "rows": 12}               whoever does not find it has a part of a backup
 */
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type postgres from "postgres";
import { type Sql, streamingClient, WITHOUT_LIMITS } from "./connect.ts";
import { type AppliedMigration, appliedMigrationRow, migrate } from "./migrate.ts";
import { dayNumber, makePartition, type Partition, partitionRow } from "./partitions.ts";
import { arrayOf, integer, onlyRow, orNull, pick, rowsOf, text, timestamp, typed } from "./rowshape.ts";

const FORMAT = 1;
const END_OF_ROWS = "\\.";
const PIECE_BYTES = 1024 * 1024;
/** Made anew by whoever migrates, or worth nothing in another place. */
const LEFT_OUT: readonly string[] = ["migration", "tick_lease"];

type Header = {
  postrider: "backup";
  format: number;
  takenAt: string;
  migrations: AppliedMigration[];
  partitions: Pick<Partition, "table" | "day">[];
  sequences: { name: string; value: string; isCalled: boolean }[];
};
type TableHeader = { table: string; columns: string[] };

export type DumpSummary = { tables: number; rows: number; migrations: number };

/** Said to the operator as it is. */
export class DumpError extends Error {}

/** Rejects when `out` fails, and leaves no connection to Postgres with rows that nobody takes any more. */
export async function dump(url: string, out: Writable): Promise<DumpSummary> {
  const { client, close } = streamingClient(url);
  const failed = new Promise<never>((_, reject) => out.once("error", reject));
  failed.catch(() => {});
  try {
    const written = client.begin("isolation level repeatable read read only", async (tx) => {
      await tx.unsafe(WITHOUT_LIMITS);
      const header = await headerOf(tx);
      await write(out, `${JSON.stringify(header)}\n`);
      const tables = await tablesOf(tx);
      let rows = 0;
      for (const table of tables) {
        await write(out, `${JSON.stringify(table)}\n`);
        const columns = table.columns.map(quoted).join(", ");
        const copied = await tx
          .unsafe(`copy (select ${columns} from ${quoted(table.table)}) to stdout`)
          .readable();
        for await (const piece of copied as AsyncIterable<Buffer>) {
          rows += linesIn(piece);
          await write(out, piece);
        }
        // the client stops its socket when rows wait, and forgets that when the last ones come in one packet
        // with the end
        copied._read(0);
        await write(out, `${END_OF_ROWS}\n`);
      }
      await write(out, `${JSON.stringify({ end: true, rows })}\n`);
      return { tables: tables.length, rows, migrations: header.migrations.length };
    });
    return await Promise.race([written, failed]);
  } finally {
    await close();
  }
}

/** `sql` for the schema. The database has to be empty; nothing stays when it fails, but the tables. */
export async function restore(url: string, sql: Sql, input: Readable, now: number): Promise<DumpSummary> {
  const lines = new Lines(input);
  const header = readHeader(await lines.next());
  await expectEmpty(sql);
  await migrate(sql, now, {}, header.migrations);
  for (const { table, day } of header.partitions) await makePartition(sql, table, dayNumber(day));
  const { client, close } = streamingClient(url);
  try {
    const summary = await client.begin((tx) => load(tx, header, lines));
    await migrate(sql, now);
    return summary;
  } catch (error) {
    // what Postgres says after that is about rows that never came
    throw lines.failure ?? error;
  } finally {
    await close();
  }
}

async function load(tx: postgres.TransactionSql, header: Header, lines: Lines): Promise<DumpSummary> {
  await tx.unsafe(WITHOUT_LIMITS);
  const known = new Map((await tablesOf(tx)).map(({ table, columns }) => [table, columns]));
  const names = [...known.keys()].map(quoted);
  await tx.unsafe(`truncate ${names.join(", ")}`);
  // rows come as they were: what triggers made of them is among them
  for (const name of names) await tx.unsafe(`alter table ${name} disable trigger user`);
  let rows = 0;
  let tables = 0;
  for (;;) {
    const line = parsed(await lines.next()) as (TableHeader & { end?: never }) | { end: true; rows: number };
    if (line.end) {
      if (line.rows !== rows)
        throw new DumpError(`The backup is damaged: it has ${rows} rows, not ${line.rows}.`);
      // behind the last row is the checksum of the compressed file
      await lines.expectEnd();
      break;
    }
    const columns = known.get(line.table);
    const unknown = line.columns.find((column) => !columns?.includes(column));
    if (!columns || unknown !== undefined)
      throw new DumpError(`The backup has a table or column that its migrations do not make: ${line.table}.`);
    const into = `copy ${quoted(line.table)} (${line.columns.map(quoted).join(", ")}) from stdin`;
    const copy = await tx.unsafe(into).writable();
    try {
      rows += await fill(copy, lines);
    } catch (error) {
      copy.destroy(error as Error); // or the connection would wait for the rest of the rows
      throw error;
    }
    tables++;
  }
  for (const name of names) await tx.unsafe(`alter table ${name} enable trigger user`);
  for (const { name, value, isCalled } of header.sequences)
    await tx`select setval(${quoted(name)}::regclass, ${value}::text::bigint, ${isCalled})`;
  // no queue has a job for them, and whoever held them is gone
  await tx`update bag set epoch = null, token = null, lease_until = null, generation = generation + 1`;
  return { tables, rows, migrations: header.migrations.length };
}

async function fill(copy: Writable, lines: Lines): Promise<number> {
  const failed = new Promise<never>((_, reject) => copy.once("error", reject));
  failed.catch(() => {});
  let rows = 0;
  let held: Buffer[] = [];
  let bytes = 0;
  const flush = async () => {
    const piece = Buffer.concat(held);
    [held, bytes] = [[], 0];
    await Promise.race([write(copy, piece), failed]);
  };
  for (;;) {
    const line = await lines.next();
    if (line.length === END_OF_ROWS.length && line.toString() === END_OF_ROWS) break;
    held.push(line, NEWLINE);
    bytes += line.length + 1;
    rows++;
    if (bytes >= PIECE_BYTES) await flush();
  }
  if (bytes > 0) await flush();
  const finished = once(copy, "finish");
  copy.end();
  await Promise.race([finished, failed]);
  return rows;
}

const NEWLINE = Buffer.from("\n");

async function headerOf(tx: postgres.TransactionSql): Promise<Header> {
  const [migrations, partitions, sequences] = [
    rowsOf(appliedMigrationRow, await tx`select name, checksum from migration order by name`),
    rowsOf(
      pick(partitionRow, "table", "day"),
      await tx`
      select left(relname, -9) as table, right(relname, 8) as day
      from pg_inherits join pg_class c on c.oid = inhrelid
      where not inhdetachpending and relname ~ '^[a-z_]+_[0-9]{8}$' and pg_table_is_visible(c.oid)
        order by relname`,
    ),
    rowsOf(
      { name: text, value: orNull(text), start: text },
      await tx`
      select sequencename as name, last_value::text as value, start_value::text as start
      from pg_sequences
      where schemaname = (select nspname from pg_class c join pg_namespace n on n.oid = relnamespace
        where c.oid = 'migration'::regclass)
      order by sequencename`,
    ),
  ];
  return {
    postrider: "backup",
    format: FORMAT,
    takenAt: onlyRow(rowsOf({ at: timestamp }, await tx`select now() as at`)).at.toISOString(),
    migrations: [...migrations],
    partitions: [...partitions],
    sequences: sequences.map(({ name, value, start }) => ({
      name,
      value: value ?? start,
      isCalled: value !== null,
    })),
  };
}

const referringTable = { table: text, columns: arrayOf(text), refersTo: arrayOf(text) };

/** With what others refer to first. Partitions are rows of the table that they belong to. */
async function tablesOf(tx: postgres.TransactionSql): Promise<TableHeader[]> {
  const tables = rowsOf(
    referringTable,
    await tx`
    select c.relname::text as table,
      (select array_agg(a.attname::text order by a.attnum) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
      coalesce((select array_agg(distinct f.confrelid::regclass::text) from pg_constraint f
        where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid), '{}') as "refersTo"
    from pg_class c
    where c.relnamespace = (select relnamespace from pg_class where oid = 'migration'::regclass)
      and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname !~ '_[0-9]{8}$' and c.relname <> all(${[...LEFT_OUT]}::text[])
    order by c.relname`,
  );
  const ordered: TableHeader[] = [];
  let left = [...tables];
  while (left.length > 0) {
    const names = new Set(left.map(({ table }) => table));
    const free = left.filter(({ refersTo }) => !refersTo.some((name) => names.has(name)));
    if (free.length === 0) throw new Error("tables refer to each other in a circle");
    ordered.push(...free.map(({ table, columns }) => ({ table, columns })));
    left = left.filter((one) => !free.includes(one));
  }
  return ordered;
}

async function expectEmpty(sql: Sql): Promise<void> {
  const [row] = await typed(sql, { count: integer })`
    select count(*)::int from pg_class c join pg_namespace n on n.oid = relnamespace
    where nspname = current_schema() and relkind in ('r', 'p')`;
  if (row && row.count > 0)
    throw new DumpError("The database is not empty. Create an empty one, and name it in DATABASE_URL.");
}

function readHeader(line: Buffer): Header {
  const header = parsed(line) as Header;
  if (header.postrider !== "backup") throw new DumpError("This file is no backup of Postrider.");
  if (header.format !== FORMAT)
    throw new DumpError(`The backup has format ${header.format}; this version of Postrider reads ${FORMAT}.`);
  return header;
}

function parsed(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    throw new DumpError("This file is no backup of Postrider, or it is damaged.");
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function linesIn(piece: Buffer): number {
  let lines = 0;
  for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++;
  return lines;
}

async function write(out: Writable, piece: Buffer | string): Promise<void> {
  if (!out.write(piece)) await once(out, "drain");
}

/** Without their ends. Whoever asks beyond the last one has a part of a backup. */
class Lines {
  readonly #pieces: AsyncIterator<Buffer>;
  /** Why there are no more, although there should be. */
  failure: unknown = null;
  #piece: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(input: Readable) {
    this.#pieces = (input as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  async next(): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (;;) {
      const end = this.#piece.indexOf(10, this.#at);
      if (end >= 0) {
        const last = this.#piece.subarray(this.#at, end);
        this.#at = end + 1;
        return parts.length === 0 ? last : Buffer.concat([...parts, last]);
      }
      parts.push(this.#piece.subarray(this.#at));
      this.#piece = await this.#more();
      this.#at = 0;
    }
  }

  async expectEnd(): Promise<void> {
    try {
      const { done } = await this.#pieces.next();
      if (!done || this.#at < this.#piece.length)
        throw new DumpError("The backup is damaged: more follows behind its end.");
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }

  async #more(): Promise<Buffer> {
    try {
      const { value, done } = await this.#pieces.next();
      if (done) throw new DumpError("The backup ends too early: it is a part of one.");
      return value;
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }
}
