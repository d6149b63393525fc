/** Bodies of `multipart/form-data` (RFC 7578): a few named parts, each as it came. */

const PARTS_MAX = 20;
const HEAD_BYTES_MAX = 4 * 1024;
const BOUNDARY_CHARS_MAX = 70;
const BREAK = "\r\n";

export type Form = ReadonlyMap<string, Buffer>;

/** null: the body is no form. */
export function boundaryOf(contentType: string): string | null {
  const [type = "", ...parameters] = contentType.split(";").map((one) => one.trim());
  if (type.toLowerCase() !== "multipart/form-data") return null;
  const given = parameters.find((one) => /^boundary=/i.test(one))?.slice("boundary=".length) ?? "";
  const boundary = given.replace(/^"(.*)"$/, "$1");
  return boundary !== "" && boundary.length <= BOUNDARY_CHARS_MAX ? boundary : null;
}

/** The parts by name; null when the body cannot be read so. */
export function parseForm(boundary: string, body: Buffer): Form | null {
  const delimiter = `--${boundary}`;
  const form = new Map<string, Buffer>();
  if (!body.subarray(0, delimiter.length).equals(Buffer.from(delimiter))) return null;
  let at = delimiter.length;
  while (!isAt(body, at, "--")) {
    if (!isAt(body, at, BREAK) || form.size === PARTS_MAX) return null;
    const headEnd = body.subarray(at, at + HEAD_BYTES_MAX).indexOf(BREAK + BREAK);
    if (headEnd < 0) return null;
    const begin = at + headEnd + 2 * BREAK.length;
    const end = body.indexOf(BREAK + delimiter, begin);
    const name = nameIn(body.toString("utf8", at, at + headEnd));
    if (end < 0 || name === null || form.has(name)) return null;
    form.set(name, body.subarray(begin, end));
    at = end + BREAK.length + delimiter.length;
  }
  return form;
}

function isAt(body: Buffer, at: number, text: string): boolean {
  return body.toString("latin1", at, at + text.length) === text;
}

function nameIn(head: string): string | null {
  const disposition = /^content-disposition: *form-data *;(.*)$/im.exec(head)?.[1] ?? "";
  return /(?:^|;) *name="([^"]*)"/i.exec(disposition)?.[1] ?? null;
}
