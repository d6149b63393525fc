/** `postrider contact show | import | export`: people of an audience, in the hands of an operator. */

import { createHash } from "node:crypto";
import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { pipeline } from "node:stream/promises";
import { csvLine, csvRecords } from "../audience/csv.ts";
import { exportedLines } from "../audience/export.ts";
import {
  columnsOf,
  type ImportParts,
  type ImportProgress,
  importContacts,
  type Skipped,
} from "../audience/import.ts";
import { addressHasher } from "../audience/links.ts";
import { sayCount } from "../capacity/report/words.ts";
import { codeOf, messageOf, syscallOf } from "../caught.ts";
import { type Audience, findAudienceAnywhere } from "../record/contacts/audiences.ts";
import { contactCommit } from "../record/contacts/commit.ts";
import { holdContacts, listConsents } from "../record/contacts/contacts.ts";
import type { Consent, GivenConsent } from "../rules/contact.ts";
import { type Context, requireSecret } from "./context.ts";
import { expectReadable, whyUnwritable } from "./files.ts";
import {
  CommandError,
  complain,
  harmless,
  type OutputOptions,
  oneLine,
  print,
  say,
  table,
  time,
} from "./print.ts";

const COMMIT_MS_MAX = 10_000;
const SKIPS_SHOWN = 20;
const HEAD_BYTES = 64 * 1024;

type ContactOf = { audience: string };
type ExportOptions = ContactOf & { excelSafe?: boolean };
type ImportOptions = ContactOf & { consent?: string; restart?: boolean; skipped?: string };

export async function show(
  context: Context,
  who: { identity: string } | { id: string },
  options: ContactOf & OutputOptions,
) {
  const { sql } = context;
  const { workspaceId, id: audienceId } = await audienceOf(context, options.audience);
  // archived ones too: what they agreed to is kept
  const [held] = await holdContacts(sql, [{ workspaceId, audienceId, who }]);
  if (!held) throw new CommandError("There is no such contact in this audience.");
  const { contact } = held;
  const consents = await listConsents(sql, workspaceId, contact.id);
  const { identity: _, ...shown } = contact;
  const { email, id, status, updatedAt, archivedAt } = contact;
  const facts = [
    archivedAt
      ? `${email} (${id}) is archived since ${time(archivedAt)}, and was ${status}`
      : `${email} (${id}) is ${status} since ${time(updatedAt)}`,
    `name: ${oneLine([contact.firstName, contact.lastName].filter(Boolean).join(" ")) || "-"}`,
    `tags: ${oneLine(contact.tags.join(", ")) || "-"}`,
    `properties: ${JSON.stringify(contact.properties)}`,
    "",
    table(
      consents.map((c) => [
        c.kind,
        c.source,
        time(c.capturedAt),
        c.ipAddress,
        c.userAgent,
        c.textVersion,
        c.keyId,
      ]),
      ["consent", "source", "when", "address", "user agent", "version", "key"],
    ),
    ...consents.flatMap(wordingOf),
  ];
  say(options, { ...shown, consents }, facts.join("\n"));
}

/** What somebody agreed to, in full. */
function wordingOf({ kind, capturedAt, wording, textVersion }: Consent): string[] {
  if (wording === null) return [];
  const version = textVersion === null ? "" : `, version ${textVersion}`;
  return ["", `text, ${kind} ${time(capturedAt)}${version}:`, wording.replace(/^/gm, "  ")];
}

export async function importFile(context: Context, file: string, options: ImportOptions): Promise<void> {
  const secret = await requireSecret(context);
  expectReadable(file);
  const { workspaceId, id: audienceId } = await audienceOf(context, options.audience);
  const size = statSync(file).size;
  const mark = new Bookmark(`${file}.progress`, { audienceId, size, head: headOf(file) });
  const before = options.restart ? null : mark.read();
  const commit = contactCommit(
    { connect: await context.findCommits(), timeoutMs: COMMIT_MS_MAX },
    addressHasher(secret),
  );
  const parts: ImportParts = {
    commit,
    workspaceId,
    audienceId,
    consent: options.consent === undefined ? null : consentOf(options.consent, context.clock.now()),
    clock: context.clock,
  };
  const skips = new Skips(options.skipped ?? `${file}.skipped.csv`, before !== null);
  const bar = new Bar(size, before);
  try {
    const columns = await readColumns(file);
    const from = before?.end ?? columns.end;
    const line = before?.line ?? columns.line;
    const records = csvRecords(createReadStream(file, { start: from }), from, line);
    let last: ImportProgress = { imported: 0, skipped: 0, end: from, line };
    for await (const progress of importContacts(records, columns.names, parts, (one) => skips.add(one))) {
      last = progress;
      // what is skipped is on file before the mark says that it was dealt with
      await skips.flush();
      if (progress.end > 0) mark.write(progress);
      bar.show(progress);
    }
    mark.clear();
    bar.end();
    const resumed = before ? ` (continued at line ${line})` : "";
    print(
      `${sayCount(last.imported)} imported, ${sayCount(last.skipped)} skipped${resumed}.${skips.where()}`,
    );
  } finally {
    await skips.flush();
    await commit.close();
  }
}

export async function exportFile(
  context: Context,
  file: string | undefined,
  { audience, excelSafe = false }: ExportOptions,
): Promise<void> {
  const { workspaceId, id } = await audienceOf(context, audience);
  const lines = exportedLines(context.sql, workspaceId, id, excelSafe);
  try {
    if (file !== undefined) await pipeline(lines, createWriteStream(file));
    else await pipeline(process.stdout.isTTY ? shownLines(lines) : lines, process.stdout, { end: false });
  } catch (error) {
    if (file === undefined && codeOf(error) === "EPIPE") return; // whoever listened has had enough
    if (file === undefined || !["open", "write", "close"].includes(syscallOf(error) ?? "")) throw error;
    throw new CommandError(whyUnwritable(file, error));
  }
}

/** A terminal obeys control characters; a file holds the data as it is. */
async function* shownLines(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${harmless(line.trimEnd())}\n`;
}

async function audienceOf({ sql }: Context, id: string): Promise<Audience> {
  const audience = await findAudienceAnywhere(sql, id);
  if (!audience)
    throw new CommandError(`There is no audience ${id}. Check the id: \`GET /api/v1/audiences\` lists them.`);
  return audience;
}

async function readColumns(file: string): Promise<{ names: string[]; end: number; line: number }> {
  for await (const header of csvRecords(createReadStream(file))) {
    try {
      return { names: columnsOf(header), end: header.end, line: header.nextLine };
    } catch (error) {
      throw new CommandError(`${file}: ${messageOf(error)}.`);
    }
  }
  throw new CommandError(`${file} is empty.`);
}

function consentOf(source: string, now: number): GivenConsent {
  return {
    source,
    capturedAt: new Date(now),
    ipAddress: null,
    userAgent: null,
    wording: null,
    textVersion: null,
  };
}

type MarkedContact = { audienceId: string; size: number; head: string };

/**
 * How far an import got, beside its file: only for the same file, by its size and how it begins, into the
 * same audience. A mark that is there is whole, whenever the import was killed.
 */
class Bookmark {
  readonly #path: string;
  readonly #of: MarkedContact;

  constructor(path: string, of: MarkedContact) {
    this.#path = path;
    this.#of = of;
  }

  read(): ImportProgress | null {
    if (!existsSync(this.#path)) return null;
    const mark = progressOf(readFileSync(this.#path, "utf8"));
    if (!mark) complain(`${this.#path} cannot be read: the import starts from the first line.`);
    if (!mark || mark.audienceId !== this.#of.audienceId) return null;
    const { size, head, audienceId: _, ...progress } = mark;
    return size === this.#of.size && head === this.#of.head ? progress : null;
  }

  write(progress: ImportProgress): void {
    const fresh = `${this.#path}.new`;
    writeFileSync(fresh, JSON.stringify({ ...this.#of, ...progress }));
    renameSync(fresh, this.#path);
  }

  clear(): void {
    rmSync(this.#path, { force: true });
  }
}

function progressOf(text: string): (MarkedContact & ImportProgress) | null {
  try {
    const { audienceId, size, head, imported, skipped, end, line } = JSON.parse(text);
    const counts = [size, imported, skipped, end, line];
    const isWhole = counts.every((count) => Number.isSafeInteger(count) && count >= 0);
    return isWhole ? { audienceId, size, head, imported, skipped, end, line } : null;
  } catch {
    return null;
  }
}

/** What a file begins with, as a hash: tells files of one size apart without reading them whole. */
function headOf(file: string): string {
  const head = Buffer.alloc(HEAD_BYTES);
  const opened = openSync(file, "r");
  try {
    const bytes = readSync(opened, head, 0, HEAD_BYTES, 0);
    return createHash("sha256").update(head.subarray(0, bytes)).digest("hex");
  } finally {
    closeSync(opened);
  }
}

/** Records that are no contact: with line and reason in a file, the first of them on the screen too. */
class Skips {
  readonly #path: string;
  readonly #appends: boolean;
  #lines: string[] = [];
  #count = 0;

  constructor(path: string, appends: boolean) {
    this.#path = path;
    this.#appends = appends;
  }

  add({ record, reason }: Skipped): void {
    this.#lines.push(csvLine([String(record.line), reason, record.raw]));
    this.#count++;
    if (this.#count <= SKIPS_SHOWN) complain(`line ${record.line}: ${oneLine(reason)}`);
    if (this.#count === SKIPS_SHOWN) complain("further skipped rows are listed in the file only");
  }

  async flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    const isFirst = !this.#appends && this.#count === this.#lines.length;
    const head = isFirst || !existsSync(this.#path) ? csvLine(["line", "reason", "record"]) : "";
    writeFileSync(this.#path, head + this.#lines.join(""), { flag: isFirst ? "w" : "a" });
    this.#lines = [];
  }

  where(): string {
    return this.#count > 0 ? ` The skipped rows are in ${this.#path}.` : "";
  }
}

/** A bar with the rate, where somebody looks. */
class Bar {
  readonly #size: number;
  readonly #from: number;
  readonly #began = performance.now();

  constructor(size: number, before: ImportProgress | null) {
    this.#size = size;
    this.#from = before?.end ?? 0;
  }

  show({ end, imported, skipped }: ImportProgress): void {
    if (!process.stderr.isTTY) return;
    const share = this.#size === 0 ? 1 : end / this.#size;
    const filled = Math.round(share * 30);
    const seconds = (performance.now() - this.#began) / 1000;
    const rate = Math.round((imported + skipped) / seconds);
    const left = Math.round(((this.#size - end) / Math.max(1, end - this.#from)) * seconds);
    const bar = `${"#".repeat(filled)}${".".repeat(30 - filled)}`;
    process.stderr.write(
      `\r[${bar}] ${Math.floor(share * 100)}%  ${imported} contacts  ${rate}/s  ${left} s left `,
    );
  }

  end(): void {
    if (process.stderr.isTTY) process.stderr.write("\n");
  }
}
