/**
 * Base64 as anybody may have written it (RFC 2045, 6.8): linear time, nothing throws.
 *
 * Padding in the middle ends a segment, not the data: some mailers encode a file piece by piece. Behind
 * padding a line with anything else than base64 ends it: a footer that a mailing list has added.
 */

const EQUALS = 0x3d;
/** Not of base64url: lines of dashes stand before a footer. */
const BASE64_LINE = /^[A-Za-z0-9+/=]*$/;

export function bytesOfBase64(text: Buffer): Buffer {
  const padding = text.indexOf(EQUALS);
  const all = text.toString("latin1");
  // it reads up to the first padding
  const first = Buffer.from(all, "base64");
  if (padding < 0) return first;
  const more = segmentsOf(all.slice(padding));
  return more.length === 0 ? first : Buffer.concat([first, ...more]);
}

function segmentsOf(text: string): Buffer[] {
  let letters = "";
  for (const line of text.split("\n")) {
    const written = line.trim();
    if (!BASE64_LINE.test(written)) break;
    letters += written;
  }
  return letters
    .split("=")
    .filter((segment) => segment !== "")
    .map((segment) => Buffer.from(segment, "base64"));
}
