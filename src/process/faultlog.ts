/**
 * Faults in the log, without a flood: a store that is away fails every request, and to write each of them
 * down would take the processor and the disk that is left. The first of a kind is told at once; while more
 * come, one a second with how many there were since. Of one kind are faults with the same words and the same
 * cause.
 */
import type { Logger } from "pino";
import { messageOf } from "../caught.ts";

const AGAIN_MS = 1_000;
/** Words may hold a port or an id: who has so many kinds in a second is told of the rest as one. */
const KINDS_MAX = 50;

type FaultKind = { count: number; last: () => void };

export type FaultLog = (error: unknown, about?: { request_id?: string | undefined }) => void;

export function faultLog(log: Logger): FaultLog {
  const kinds = new Map<string, FaultKind>();
  const tellAgain = (name: string, kind: FaultKind): void => {
    if (kind.count === 0) {
      kinds.delete(name);
      return;
    }
    kind.last();
    kind.count = 0;
    wait(name, kind);
  };
  const wait = (name: string, kind: FaultKind): void => {
    setTimeout(() => tellAgain(name, kind), AGAIN_MS).unref();
  };
  return (error, about = {}) => {
    const own = kindOf(error);
    const name = kinds.has(own) || kinds.size < KINDS_MAX ? own : "";
    const known = kinds.get(name);
    if (known) {
      known.count++;
      known.last = () => log.error({ ...about, err: error, repeated: known.count }, "internal error");
      return;
    }
    log.error({ ...about, err: error }, "internal error");
    const kind: FaultKind = { count: 0, last: () => {} };
    kinds.set(name, kind);
    wait(name, kind);
  };
}

function kindOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : "";
  return `${messageOf(error)}\n${cause}`;
}
