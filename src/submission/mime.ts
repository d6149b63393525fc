/**
 * A message as its fields and its leaves: the parts that hold something, in their order.
 *
 * Promises: the time is linear in the size of the message, times the depth allowed. Nothing is left out: a
 * message with more parts, deeper ones, ones in an encoding nobody knows or without their boundary is refused
 * whole. A last boundary may be missing. Attached messages stay whole: what is in them is not read.
 *
 * Refuses what cannot be written anew without breaking it: encrypted and signed parts.
 */
import { bytesOfBase64 } from "../message/base64.ts";
import { fieldsOf, type HeaderField, structured, valuesOf } from "./fields.ts";
import { Malformed } from "./malformed.ts";

export const PARTS_MAX = 200;
export const DEPTH_MAX = 12;
const BOUNDARY_CHARS_MAX = 200;

export type Leaf = {
  /** In lower case, as `text/plain`. */
  type: string;
  parameters: ReadonlyMap<string, string>;
  isAttached: boolean;
  filename: string | null;
  contentId: string | null;
  /** It stands for others that say the same. */
  isAlternative: boolean;
  encoding: Encoding;
  /** Still encoded. */
  body: Buffer;
};

const ENCODINGS = ["7bit", "8bit", "binary", "quoted-printable", "base64"] as const;
type Encoding = (typeof ENCODINGS)[number];

export type ReadMessage = { fields: HeaderField[]; leaves: Leaf[] };

type Surroundings = { depth: number; isAlternative: boolean; assumed: string };
/** `entities`: leaves and containers, which may be empty. */
type EntitiesRead = { leaves: Leaf[]; entities: number };

export function readMime(message: Buffer): ReadMessage {
  const reading: EntitiesRead = { leaves: [], entities: 0 };
  const { fields, bodyAt } = fieldsOf(message, 0, message.length);
  const root = { depth: 0, isAlternative: false, assumed: "text/plain" };
  readEntity(message.subarray(bodyAt), fields, root, reading);
  return { fields, leaves: reading.leaves };
}

function readEntity(
  body: Buffer,
  fields: readonly HeaderField[],
  within: Surroundings,
  reading: EntitiesRead,
): void {
  if (++reading.entities > PARTS_MAX) throw new Malformed(`a message may have at most ${PARTS_MAX} parts`);
  const contentType = valuesOf(fields, "content-type")[0] ?? "";
  const { value, parameters } = structured(contentType);
  const type = /^[^\s/]+\/[^\s/]+$/.test(value) ? value : within.assumed;
  refuseSealed(type);
  if (type.startsWith("multipart/")) {
    readContainer(body, type, parameters.get("boundary") ?? "", within, reading);
    return;
  }
  const disposition = structured(valuesOf(fields, "content-disposition")[0] ?? "");
  const filename = disposition.parameters.get("filename") ?? parameters.get("name") ?? null;
  reading.leaves.push({
    type,
    parameters,
    isAttached: disposition.value === "attachment",
    filename: filename === "" ? null : filename,
    contentId: valuesOf(fields, "content-id")[0] ?? null,
    isAlternative: within.isAlternative,
    encoding: encodingOf(fields),
    body,
  });
}

function refuseSealed(type: string): void {
  if (
    type === "multipart/encrypted" ||
    type === "multipart/signed" ||
    /^application\/(x-)?pkcs7-mime$/.test(type)
  )
    throw new Malformed(
      "signed and encrypted messages (OpenPGP, S/MIME) cannot be sent: the engine writes every message anew, which breaks them",
    );
}

function encodingOf(fields: readonly HeaderField[]): Encoding {
  const given = structured(valuesOf(fields, "content-transfer-encoding")[0] ?? "").value;
  const known = ENCODINGS.find((one) => one === (given || "7bit"));
  if (!known) throw new Malformed("the Content-Transfer-Encoding of a part is not known");
  return known;
}

function readContainer(
  body: Buffer,
  type: string,
  boundary: string,
  within: Surroundings,
  reading: EntitiesRead,
): void {
  if (boundary === "" || boundary.length > BOUNDARY_CHARS_MAX)
    throw new Malformed(`a multipart needs a boundary of at most ${BOUNDARY_CHARS_MAX} characters`);
  if (within.depth >= DEPTH_MAX) throw new Malformed(`parts may lie at most ${DEPTH_MAX} deep`);
  const inside: Surroundings = {
    depth: within.depth + 1,
    isAlternative: within.isAlternative || type === "multipart/alternative",
    assumed: type === "multipart/digest" ? "message/rfc822" : "text/plain",
  };
  const line = Buffer.from(`--${boundary}`);
  const first = nextBoundary(body, line, 0);
  // by RFC 2046 all of it would be a preamble, which nobody is shown
  if (!first && !isBlank(body)) throw new Malformed("the boundary of a multipart occurs nowhere in it");
  for (const piece of piecesOf(body, line, first)) {
    const { fields, bodyAt } = fieldsOf(piece, 0, piece.length);
    readEntity(piece.subarray(bodyAt), fields, inside, reading);
  }
}

function isBlank(body: Buffer): boolean {
  return body.every((byte) => byte <= SPACE);
}

/** What stands between the lines of the boundary. The line end before a boundary belongs to the boundary. */
function* piecesOf(body: Buffer, line: Buffer, first: BoundaryPlace | null): Generator<Buffer> {
  let begin = first;
  while (begin && !begin.isLast) {
    const next = nextBoundary(body, line, begin.end);
    yield body.subarray(begin.end, Math.max(begin.end, next ? next.start - 2 : body.length));
    begin = next;
  }
}

type BoundaryPlace = { start: number; end: number; isLast: boolean };

/** Another boundary may begin with the same letters. */
function nextBoundary(body: Buffer, line: Buffer, from: number): BoundaryPlace | null {
  for (let start = body.indexOf(line, from); start >= 0; start = body.indexOf(line, start + line.length)) {
    if (start > 0 && body[start - 1] !== LF) continue;
    const newline = body.indexOf(LF, start);
    const end = newline < 0 ? body.length : newline + 1;
    if (end - start > line.length + BOUNDARY_CHARS_MAX) continue;
    const rest = body.toString("latin1", start + line.length, end).trim();
    if (rest === "" || rest === "--") return { start, end, isLast: rest === "--" };
  }
  return null;
}

const LF = 0x0a;

/** What a part holds, decoded. What cannot be is passed over, as RFC 2045 asks. */
export function contentOf({ encoding, body }: Leaf): Buffer {
  if (encoding === "base64") return bytesOfBase64(body);
  return encoding === "quoted-printable" ? bytesOfQuotedPrintable(body) : body;
}

function bytesOfQuotedPrintable(body: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(body.length);
  let length = 0;
  /** Without the blanks at its end, unless they are encoded: others were added on the way. */
  let solid = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number;
    if (byte === EQUALS) {
      const high = HEX[body[at + 1] ?? 0] as number;
      const low = HEX[body[at + 2] ?? 0] as number;
      if (high >= 0 && low >= 0) {
        bytes[length++] = high * 16 + low;
        solid = length;
        at += 2;
        continue;
      }
      const end = endOfBlanks(body, at + 1);
      if (end === body.length || body[end] === CR) {
        at = end + 1; // and its LF
        continue;
      }
    } else if (byte === CR) length = solid;
    bytes[length++] = byte;
    if (byte !== SPACE && byte !== TAB) solid = length;
  }
  return bytes.subarray(0, length);
}

function endOfBlanks(body: Buffer, from: number): number {
  let at = from;
  while (at < body.length && (body[at] === SPACE || body[at] === TAB)) at++;
  return at;
}

const [EQUALS, CR, SPACE, TAB] = [0x3d, 0x0d, 0x20, 0x09];
const HEX = new Int8Array(256).fill(-1);
for (const [value, digit] of [..."0123456789abcdef"].entries()) {
  HEX[digit.charCodeAt(0)] = value;
  HEX[digit.toUpperCase().charCodeAt(0)] = value;
}
