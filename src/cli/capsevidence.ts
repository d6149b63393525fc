/** `postrider caps evidence import`: what providers tell senders on their own pages, as evidence for the caps. */
import { readFileSync, statSync } from "node:fs";
import { Readable } from "node:stream";
import { csvRecords } from "../audience/csv.ts";
import { messageOf } from "../caught.ts";
import { DAY_MS } from "../clock.ts";
import { ownersOf } from "../record/workspaces/domains.ts";
import { type NewPostmasterDay, putPostmasterDays } from "../record/workspaces/evidence.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say } from "./print.ts";

const FILE_BYTES_MAX = 64 * 1_048_576;
const ROWS_MAX = 100_000;
const COUNT_MAX = 2_000_000_000;
const REPUTATIONS = ["high", "medium", "low", "bad"] as const;
const COLUMNS = ["domain", "day", "complaint_rate", "reputation", "delivered"] as const;

type Column = (typeof COLUMNS)[number];
/** As the file has them; absent: the file says nothing. */
type ImportedRow = { place: string } & Partial<Record<Column, string>>;
type ImportedDay = Omit<NewPostmasterDay, "workspaceId">;

/** All rows are read before one is written: a file is imported whole or not at all, and again without harm. */
export async function importEvidence({ sql, clock }: Context, file: string, options: OutputOptions) {
  const today = Math.floor(clock.now() / DAY_MS);
  const days = (await rowsOf(file)).map((row) => dayIn(row, today));
  const owners = new Map(
    (await ownersOf(sql, [...new Set(days.map(({ domain }) => domain))])).map(({ domain, workspaceId }) => [
      domain,
      workspaceId,
    ]),
  );
  const unknown = [...new Set(days.map(({ domain }) => domain).filter((domain) => !owners.has(domain)))];
  const rows = days.flatMap((day) => {
    const workspaceId = owners.get(day.domain);
    return workspaceId === undefined ? [] : [{ ...day, workspaceId }];
  });
  await putPostmasterDays(sql, rows, new Date(clock.now()));
  const skipped = days.length - rows.length;
  const words = [
    `${rows.length} days were imported; caps are judged by them from the keeper's next look on.`,
    ...(unknown.length > 0
      ? [
          `${skipped} rows were skipped, since no workspace has verified ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? ", and others" : ""}.`,
        ]
      : []),
  ];
  say(options, { imported: rows.length, skipped, unknown_domains: unknown }, words.join("\n"));
}

async function rowsOf(file: string): Promise<ImportedRow[]> {
  const text = textOf(file);
  const rows = text.trimStart().startsWith("[") ? jsonRows(file, text) : await csvRows(file, text);
  if (rows.length > ROWS_MAX)
    throw new CommandError(`${file} has ${rows.length} rows; at most ${ROWS_MAX} are taken.`);
  return rows;
}

function textOf(file: string): string {
  try {
    if (statSync(file).size > FILE_BYTES_MAX)
      throw new CommandError(`${file} is larger than ${FILE_BYTES_MAX} bytes. Split it.`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${file} cannot be read: ${messageOf(error)}.`);
  }
}

function jsonRows(file: string, text: string): ImportedRow[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new CommandError(`${file} is not JSON: ${messageOf(error)}.`);
  }
  return (parsed as unknown[]).map((one, n) => {
    const place = `${file}, item ${n + 1}`;
    if (one === null || typeof one !== "object") throw new CommandError(`${place}: it must be an object.`);
    const row: ImportedRow = { place };
    for (const [name, value] of Object.entries(one)) {
      if (value === null || value === undefined) continue;
      row[columnOf(place, name)] = String(value);
    }
    return row;
  });
}

async function csvRows(file: string, text: string): Promise<ImportedRow[]> {
  let head: Column[] | null = null;
  const rows: ImportedRow[] = [];
  for await (const { fields, line, raw } of csvRecords(Readable.from([Buffer.from(text)]))) {
    const place = `${file}, line ${line}`;
    if (raw.trim() === "") continue;
    if (fields === null) throw new CommandError(`${place}: it cannot be read as CSV.`);
    if (head === null) {
      head = fields.map((name) => columnOf(place, name));
      continue;
    }
    const row: ImportedRow = { place };
    for (const [n, value] of fields.entries()) {
      const column = head[n];
      if (column === undefined) throw new CommandError(`${place}: it has more fields than the header.`);
      if (value.trim() !== "") row[column] = value.trim();
    }
    rows.push(row);
  }
  return rows;
}

function columnOf(place: string, name: string): Column {
  const column = name.trim().toLowerCase().replaceAll(" ", "_") as Column;
  if (!COLUMNS.includes(column))
    throw new CommandError(
      `${place}: there is no column \`${name}\`. The columns are ${COLUMNS.join(", ")}.`,
    );
  return column;
}

function dayIn(
  { place, domain, day, complaint_rate, reputation, delivered }: ImportedRow,
  today: number,
): ImportedDay {
  const refuse = (what: string): never => {
    throw new CommandError(`${place}: ${what}. Nothing was imported.`);
  };
  const number = /^\d{4}-\d\d-\d\d$/.test(day ?? "") ? Date.parse(day as string) / DAY_MS : Number.NaN;
  const word = (reputation?.toLowerCase() ?? null) as ImportedDay["reputation"];
  if (!domain || !/^[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+$/i.test(domain))
    refuse("`domain` must be a domain");
  if (Number.isNaN(number) || number > today)
    refuse("`day` must be a day such as 2026-11-21, and not in the future");
  if (word !== null && !REPUTATIONS.includes(word))
    refuse(`\`reputation\` must be one of ${REPUTATIONS.join(", ")}`);
  if (complaint_rate === undefined && word === null) refuse("it needs `complaint_rate` or `reputation`");
  const rate = complaint_rate === undefined ? null : rateIn(complaint_rate);
  if (rate !== null && !(rate >= 0 && rate <= 1))
    refuse("`complaint_rate` must be a share such as 0.0012, or 0.12%");
  const count = delivered === undefined ? null : Number(delivered);
  if (count !== null && !(Number.isInteger(count) && count >= 0 && count <= COUNT_MAX))
    refuse("`delivered` must be a whole number");
  return {
    domain: (domain as string).toLowerCase(),
    day: number,
    complaintRate: rate,
    delivered: count,
    reputation: word,
  };
}

/** `0.12%` or `0.0012`. */
function rateIn(text: string): number {
  return /^\d+(?:\.\d+)?%$/.test(text) ? Number(text.slice(0, -1)) / 100 : Number(text);
}
