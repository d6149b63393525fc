/** What is loaded before a process of a test or of the bench, and what is said to it there. */
import { fileURLToPath } from "node:url";

/** Of the time since the report before this one. */
export type LoopReport = {
  /** The longest time between two turns of the loop. */
  heldMsMax: number;
  /** What the main thread worked in that time. */
  workedMsInLongest: number;
  /**
   * The most that the main thread ever worked between two turns; equals the time where the system does not
   * tell.
   */
  workedMsMax: number;
  /** The most memory that the process ever had. */
  rssMbMax: number;
};

/** Of `loopdelay.mjs`. */
export type AskLoop = { kind: "loop?" };
export type LoopAnswer = { kind: "loop"; report: LoopReport };

/** Of `wrongclock.mjs`. */
export type SetClock = { kind: "set clock"; offsetMs: number };

/** What is handed to Node so that the wall clock of a process is wrong, or its loop is watched. */
export function preloads({ wrongByMs, watchesLoop }: { wrongByMs?: number; watchesLoop?: boolean }) {
  const names = [
    ...(wrongByMs === undefined ? [] : ["wrongclock.mjs"]),
    ...(watchesLoop ? ["loopdelay.mjs"] : []),
  ];
  return {
    execArgv: names.flatMap((name) => ["--import", fileURLToPath(new URL(name, import.meta.url))]),
    env: wrongByMs === undefined ? {} : { WRONG_CLOCK_MS: String(wrongByMs) },
  };
}
