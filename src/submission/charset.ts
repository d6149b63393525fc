/** Bytes as text: in the charset they claim, unless that is unknown or cannot be. */
import { isUtf8 } from "node:buffer";

/** Labels under which senders also write UTF-8. */
const VAGUE = new Set(["", "us-ascii", "ascii", "utf-8", "utf8", "unknown-8bit", "8bit", "binary"]);
const FALLBACK = "windows-1252";

export function textOfBytes(bytes: Buffer, charset: string): string {
  const label = charset.toLowerCase();
  if (VAGUE.has(label)) return vague(bytes);
  try {
    return new TextDecoder(label).decode(bytes);
  } catch {
    return vague(bytes);
  }
}

function vague(bytes: Buffer): string {
  return isUtf8(bytes) ? bytes.toString("utf8") : new TextDecoder(FALLBACK).decode(bytes);
}
