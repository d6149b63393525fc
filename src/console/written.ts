/**
 * Answers of the console as JSON, written in turns of the event loop: twenty versions of a template, or a
 * mail of megabytes, would hold up others when they were written at once.
 */
import { concatInTurns, turn } from "../turn.ts";

/** About 5 ms of work at most. */
const PIECE_CHARS = 128 * 1024;

/** What `JSON.stringify` writes. */
export async function writtenInTurns(value: unknown): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let open = "";
  for (const piece of piecesOf(value)) {
    open += piece;
    if (open.length < PIECE_CHARS) continue;
    pieces.push(Buffer.from(open));
    open = "";
    await turn();
  }
  pieces.push(Buffer.from(open));
  return concatInTurns(pieces);
}

function* piecesOf(value: unknown): Generator<string> {
  if (typeof value === "string" && value.length > PIECE_CHARS) yield* piecesOfText(value);
  else if (Array.isArray(value)) {
    yield "[";
    for (const [n, one] of value.entries()) {
      if (n > 0) yield ",";
      yield* piecesOf(one);
    }
    yield "]";
  } else if (isPlain(value)) yield* piecesOfFields(value);
  else yield JSON.stringify(value) ?? "null";
}

function* piecesOfFields(value: object): Generator<string> {
  yield "{";
  let before = "";
  for (const [name, one] of Object.entries(value)) {
    if (one === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* piecesOf(one);
    before = ",";
  }
  yield "}";
}

/** A character that is cut in two is written as two escapes, which are read as one character again. */
function* piecesOfText(text: string): Generator<string> {
  yield '"';
  for (let at = 0; at < text.length; at += PIECE_CHARS)
    yield JSON.stringify(text.slice(at, at + PIECE_CHARS)).slice(1, -1);
  yield '"';
}

/** Dates and others say themselves how they are written. */
function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !("toJSON" in value);
}
