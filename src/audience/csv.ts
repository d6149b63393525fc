/**
 * Comma-separated values (RFC 4180) as a stream: records with the number of their first line and the byte after their
 * end, so that a reader can begin again there. Takes CRLF and LF, quotes around any field, and line breaks within
 * them. What is not UTF-8, or has text after a closing quote, is a record without fields, not the end of the stream.
 */
const QUOTE = 0x22;
const COMMA = 0x2c;
const LF = 0x0a;
const RECORD_BYTES_MAX = 1024 * 1024;
const BOM = "\uFEFF";

export type CsvRecord = {
  line: number;
  /** null: it cannot be read. */
  fields: string[] | null;
  raw: string;
  /** Of the byte after it. */
  end: number;
  nextLine: number;
};

/** `from` and `line` are where the chunks begin in the file. */
export async function* csvRecords(
  chunks: AsyncIterable<Buffer>,
  from = 0,
  line = 1,
): AsyncGenerator<CsvRecord> {
  let rest: Buffer = Buffer.alloc(0);
  let end = from;
  let at = line;
  const take = (bytes: Buffer): CsvRecord | null => {
    end += bytes.byteLength;
    const first = at;
    for (const byte of bytes) if (byte === LF) at++;
    const raw = textOf(bytes);
    if (raw === "") return null;
    return {
      line: first,
      fields: raw === null ? null : fieldsOf(raw),
      raw: raw ?? bytes.toString("latin1"),
      end,
      nextLine: at,
    };
  };
  let scanned = 0;
  let isQuoted = false;
  let isFieldStart = true;
  let wasQuote = false;
  for await (const chunk of chunks) {
    rest = rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk]);
    let begin = 0;
    for (let n = scanned; n < rest.byteLength; n++) {
      const byte = rest[n];
      // a quote opens only where a field begins, or again right after it closed: anywhere else it is a slip
      if (byte === QUOTE) isQuoted = !isQuoted && (isFieldStart || wasQuote);
      isFieldStart = !isQuoted && (byte === COMMA || byte === LF);
      wasQuote = byte === QUOTE;
      // a quote that nobody closed must not swallow the file
      const isOver = byte === LF && (!isQuoted || n - begin > RECORD_BYTES_MAX);
      if (!isOver) continue;
      const record = take(rest.subarray(begin, n + 1));
      begin = n + 1;
      isQuoted = false;
      isFieldStart = true;
      if (record) yield record;
    }
    rest = rest.subarray(begin);
    scanned = rest.byteLength;
  }
  const last = rest.byteLength > 0 ? take(rest) : null;
  if (last) yield last;
}

export function csvLine(fields: readonly string[]): string {
  return `${fields.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",")}\r\n`;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(bytes: Buffer): string | null {
  try {
    return decoder.decode(bytes).replace(/\r?\n$/, "");
  } catch {
    return null;
  }
}

function fieldsOf(record: string): string[] | null {
  const text = record.startsWith(BOM) ? record.slice(1) : record;
  if (!text.includes('"')) return text.split(",");
  const fields: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/gy;
  for (;;) {
    const found = field.exec(text);
    if (!found) return null;
    fields.push(found[1] === undefined ? (found[2] as string) : found[1].replaceAll('""', '"'));
    if (found[3] === "")
      return field.lastIndex === text.length || found.index === text.length ? fields : null;
  }
}
