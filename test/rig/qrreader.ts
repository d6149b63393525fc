/** What somebody else's reader sees in pixels. */
import jsqr from "jsqr";

export type ReadCode = { text: string; version: number };

/** `pixels`: red, green, blue and alpha by turns. */
export function readQrCode(pixels: Uint8ClampedArray, width: number): ReadCode | null {
  const found = jsqr.default(pixels, width, pixels.length / 4 / width);
  return found && { text: found.data, version: found.version };
}
