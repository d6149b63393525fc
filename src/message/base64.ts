/**
 * Base64 as anybody may have written it (RFC 2045, 6.8): linear time, nothing throws.
 *
 * Padding in the middle ends a segment, not the data: some mailers encode a file piece by piece. All that is
 * no letter of base64 is passed over.
 */

export function bytesOfBase64(text: Buffer): Buffer {
  return isUsual(text) ? Buffer.from(text.toString("latin1"), "base64") : bytesOfSegments(text);
}

/**
 * As Buffer.from reads it, which is several times faster: it ends at the first padding, and `-` and `_` are
 * letters to it.
 */
function isUsual(text: Buffer): boolean {
  const padding = text.indexOf(EQUALS);
  for (let at = padding; at >= 0 && at < text.length; at++)
    if ((SIX_BITS[text[at] as number] as number) >= 0) return false;
  return !text.includes(HYPHEN) && !text.includes(UNDERSCORE);
}

function bytesOfSegments(text: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(Math.ceil(text.length / 4) * 3);
  let length = 0;
  let bits = 0;
  /** Letters of the group that has begun. */
  let held = 0;
  for (let at = 0; at <= text.length; at++) {
    const byte = at < text.length ? (text[at] as number) : EQUALS;
    const six = SIX_BITS[byte] as number;
    if (six >= 0) {
      bits = (bits << 6) | six;
      if (++held < 4) continue;
      bytes[length++] = bits >> 16;
      bytes[length++] = bits >> 8;
      bytes[length++] = bits;
      held = 0;
      // behind a single letter it is no padding
    } else if (byte === EQUALS && held >= 2) {
      bytes[length++] = bits >> (6 * held - 8);
      if (held === 3) bytes[length++] = bits >> 2;
      held = 0;
    }
  }
  return bytes.subarray(0, length);
}

const [EQUALS, HYPHEN, UNDERSCORE] = [0x3d, 0x2d, 0x5f];
const SIX_BITS = new Int8Array(256).fill(-1);
for (const [value, letter] of [
  ..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
].entries())
  SIX_BITS[letter.charCodeAt(0)] = value;
