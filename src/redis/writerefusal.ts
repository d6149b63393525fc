/**
 * A Redis that answers and refuses to write, in words. Needs no client of Redis: commands that do not use one
 * know what to say.
 */
import { messageOf } from "../caught.ts";

const REASONS = {
  OOM: "its maxmemory is used up",
  READONLY: "it is a replica",
  MISCONF: "it cannot write to its disk",
  NOREPLICAS: "fewer replicas than its min-replicas-to-write are connected and keep up",
} as const;
export type WriteRefusal = keyof typeof REASONS;

/** null: the error is about something else. */
export function writeRefusal(error: unknown): WriteRefusal | null {
  const code = /^[A-Z]+/.exec(messageOf(error))?.[0] ?? "";
  return code in REASONS ? (code as WriteRefusal) : null;
}

export function writeRefusalWords(refusal: WriteRefusal): string {
  return `it accepts no writes (${refusal}): ${REASONS[refusal]}`;
}
