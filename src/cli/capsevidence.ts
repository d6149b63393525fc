/**
 * `postrider caps evidence import`: what providers tell senders on their own pages, as evidence for the caps.
 */
import { readFileSync, statSync } from "node:fs";
import { Readable } from "node:stream";
import { csvRecords } from "../audience/csv.ts";
import { parseJson } from "../capacity/policyfile.ts";
import { counted, sayCount } from "../capacity/report/words.ts";
import { messageOf } from "../caught.ts";
import { DAY_MS } from "../clock.ts";
import { COUNTS_KEPT_DAYS } from "../record/workspaces/caps.ts";
import { ownersOf } from "../record/workspaces/domains.ts";
import { type NewPostmasterDay, putPostmasterDays } from "../record/workspaces/evidence.ts";
import type { Context } from "./context.ts";
import { whyUnreadable } from "./files.ts";
import { CommandError, type OutputOptions, say } from "./print.ts";

const FILE_BYTES_MAX = 64 * 1_048_576;
const ROWS_MAX = 100_000;
const COUNT_MAX = 2_000_000_000;
const REPUTATIONS = ["high", "medium", "low", "bad"] as const;
const COLUMNS = ["domain", "day", "complaint_rate", "reputation", "delivered", "provider"] as const;
const PROVIDER_CHARS_MAX = 40;
const BYTE_ORDER_MARK = "\ufeff";

type Column = (typeof COLUMNS)[number];
/** As the file has them; absent: the file says nothing. */
type ImportedRow = { place: string } & { [name in Column]?: string | undefined };
type ImportedDay = Omit<NewPostmasterDay, "workspaceId">;

/**
 * All rows are read before one is written: a file is imported whole or not at all, and again without harm.
 */
export async function importEvidence({ sql, clock }: Context, file: string, options: OutputOptions) {
  const today = Math.floor(clock.now() / DAY_MS);
  const given = await rowsOf(file);
  const days = given.map((row) => dayIn(row, today));
  refuseRepeated(given, days);
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
  const unweighted = rows.filter(({ complaintRate, delivered }) => complaintRate !== null && !delivered);
  const words = [
    rows.length === 0
      ? "Nothing was imported."
      : `${counted(rows.length, "row was", "rows were")} imported; caps are judged by ${rows.length === 1 ? "it" : "them"} from the keeper's next look on.`,
    ...(unweighted.length > 0
      ? [
          `In ${sayCount(unweighted.length)} of them a rate is without \`delivered\`: if it is high it stops growth, but complaints stay unknown.`,
        ]
      : []),
    ...(unknown.length > 0
      ? [
          `${counted(skipped, "row was", "rows were")} skipped, since no workspace has verified ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? ", and others" : ""}.`,
        ]
      : []),
  ];
  say(options, { imported: rows.length, skipped, unknown_domains: unknown }, words.join("\n"));
}

async function rowsOf(file: string): Promise<ImportedRow[]> {
  const text = textOf(file);
  if (text.trimStart().startsWith("{"))
    throw new CommandError(`${file} must be a JSON array of objects, or CSV with a header.`);
  const rows = text.trimStart().startsWith("[") ? jsonRows(file, text) : await csvRows(file, text);
  if (rows.length === 0) throw new CommandError(`${file} has no rows. Nothing was imported.`);
  if (rows.length > ROWS_MAX)
    throw new CommandError(
      `${file} has ${sayCount(rows.length)} rows; at most ${sayCount(ROWS_MAX)} are taken.`,
    );
  return rows;
}

function textOf(file: string): string {
  try {
    if (statSync(file).size > FILE_BYTES_MAX)
      throw new CommandError(`${file} is larger than ${FILE_BYTES_MAX} bytes. Split it.`);
    const text = readFileSync(file, "utf8");
    return text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(whyUnreadable(file, error));
  }
}

function jsonRows(file: string, text: string): ImportedRow[] {
  let parsed: unknown;
  try {
    parsed = parseJson(text);
  } catch (error) {
    throw new CommandError(`${file}: ${messageOf(error)} Nothing was imported.`);
  }
  return (parsed as unknown[]).map((one, n) => {
    const place = `${file}, item ${n + 1}`;
    if (one === null || typeof one !== "object") throw new CommandError(`${place}: it must be an object.`);
    const row: ImportedRow = { place };
    for (const [name, value] of Object.entries(one)) {
      const column = columnOf(place, name);
      if (column in row) throw repeatedColumn(place, column);
      if (value !== null && !["string", "number"].includes(typeof value))
        throw new CommandError(`${place}: \`${column}\` must be a text or a number. Nothing was imported.`);
      const text = value === null ? "" : String(value).trim();
      row[column] = text === "" ? undefined : text;
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
      const twice = head.find((column, n) => head?.indexOf(column) !== n);
      if (twice) throw repeatedColumn(place, twice);
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

function repeatedColumn(place: string, column: Column): CommandError {
  return new CommandError(`${place}: there are two columns \`${column}\`. Nothing was imported.`);
}

/** Nobody could say which of them is right. */
function refuseRepeated(given: readonly ImportedRow[], days: readonly ImportedDay[]): void {
  const places = new Map<string, string>();
  for (const [n, { domain, day, provider }] of days.entries()) {
    const key = `${domain} ${day} ${provider}`;
    const place = (given[n] as ImportedRow).place;
    const known = places.get(key);
    if (known !== undefined)
      throw new CommandError(
        `${place}: ${known} has the same domain, day and provider. If two providers tell of one day, name them in a column \`provider\`. Nothing was imported.`,
      );
    places.set(key, place);
  }
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
  { place, domain, day, complaint_rate, reputation, delivered, provider }: ImportedRow,
  today: number,
): ImportedDay {
  const refuse = (what: string): never => {
    throw new CommandError(`${place}: ${what}. Nothing was imported.`);
  };
  const number = dayNumber(day ?? "");
  const word = (reputation?.toLowerCase() ?? null) as ImportedDay["reputation"];
  if (!domain || !/^[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+$/i.test(domain))
    refuse("`domain` must be a domain");
  if (Number.isNaN(number) || number > today)
    refuse("`day` must be a day such as 2026-11-21, and not in the future");
  if (number <= today - COUNTS_KEPT_DAYS)
    refuse(`\`day\` is more than ${COUNTS_KEPT_DAYS} days ago, and older counts are not kept`);
  if (word !== null && !REPUTATIONS.includes(word))
    refuse(`\`reputation\` must be one of ${REPUTATIONS.join(", ")}`);
  if (complaint_rate === undefined && word === null) refuse("it needs `complaint_rate` or `reputation`");
  const rate = complaint_rate === undefined ? null : rateIn(complaint_rate);
  if (rate !== null && !(rate >= 0 && rate <= 1))
    refuse("`complaint_rate` must be a share such as 0.0012, or 0.12%");
  const count = delivered === undefined ? null : Number(delivered);
  if (count !== null && !(/^\d+$/.test(delivered ?? "") && count <= COUNT_MAX))
    refuse("`delivered` must be a whole number");
  const named = provider?.toLowerCase() ?? null;
  if (named !== null && (named.length > PROVIDER_CHARS_MAX || !/^[a-z0-9][a-z0-9.-]*$/.test(named)))
    refuse("`provider` must be a name such as google or microsoft");
  return {
    domain: (domain as string).toLowerCase(),
    day: number,
    provider: named,
    complaintRate: rate,
    delivered: count,
    reputation: word,
  };
}

/** Counted from 1970; NaN: there is no such day. */
function dayNumber(day: string): number {
  const number = /^\d{4}-\d\d-\d\d$/.test(day) ? Date.parse(`${day}T00:00:00Z`) / DAY_MS : Number.NaN;
  // JavaScript takes the 31st of February for the 3rd of March
  return Number.isNaN(number) || new Date(number * DAY_MS).toISOString().slice(0, 10) !== day
    ? Number.NaN
    : number;
}

/** `0.12%` or `0.0012`. */
function rateIn(text: string): number {
  if (/^\d+(?:\.\d+)?%$/.test(text)) return Number(text.slice(0, -1)) / 100;
  return /^\d*\.?\d+(?:e-\d+)?$/i.test(text) ? Number(text) : Number.NaN;
}
