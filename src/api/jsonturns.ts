/**
 * JSON of long texts, written piece by piece: a text of control characters is six times as long in JSON, and
 * to escape and encode megabytes of it at once would hold up others.
 */
import { concatInTurns, turn } from "../turn.ts";

/** About 5 ms of work. */
const PIECE_CHARS = 128 * 1024;

/** The object with these texts as its last fields. */
export async function jsonInTurns(
  object: Record<string, unknown>,
  texts: Record<string, string | null>,
): Promise<Buffer> {
  const pieces = [Buffer.from(JSON.stringify(object).slice(0, -1))];
  for (const [name, text] of Object.entries(texts)) {
    pieces.push(Buffer.from(`,${JSON.stringify(name)}:`));
    for await (const piece of valueInTurns(text)) pieces.push(Buffer.from(piece));
  }
  pieces.push(Buffer.from("}"));
  return concatInTurns(pieces);
}

/** A character that is cut in two is written as two escapes, which are read as one character again. */
async function* valueInTurns(text: string | null): AsyncGenerator<string> {
  if (text === null || text.length <= PIECE_CHARS) {
    yield JSON.stringify(text);
    return;
  }
  yield '"';
  for (let at = 0; at < text.length; at += PIECE_CHARS) {
    yield JSON.stringify(text.slice(at, at + PIECE_CHARS)).slice(1, -1);
    await turn();
  }
  yield '"';
}
