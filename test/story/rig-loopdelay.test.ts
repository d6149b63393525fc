/** The watch on a loop: tells time that was worked from time in which the process only stood still. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { LoopAnswer, LoopReport } from "../rig/preloads.ts";

const WATCH = fileURLToPath(new URL("../rig/loopdelay.mjs", import.meta.url));
const HELD_MS = 200;

/** Holds its loop as it is told, and says when it has. */
const HOLDER = `
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  process.on("message", ({ kind }) => {
    // in CPU: a busy machine gives this process a part of the time only
    const worked = (before) => process.cpuUsage(before).user / 1_000;
    const before = process.cpuUsage();
    if (kind === "work") while (worked(before) < ${HELD_MS});
    else if (kind === "stand") Atomics.wait(nothing, 0, 0, ${HELD_MS});
    else return;
    setImmediate(() => process.send({ kind: "held" }));
  });
  process.send({ kind: "ready" });`;

async function told(child: ChildProcess, kind: string): Promise<unknown> {
  const answered = once(child, "message");
  child.send({ kind });
  const [answer] = await answered;
  return answer;
}

async function loopAfter(child: ChildProcess, kind: "work" | "stand"): Promise<LoopReport> {
  await told(child, "loop?");
  await told(child, kind);
  return ((await told(child, "loop?")) as LoopAnswer).report;
}

test("work and standing still are told apart, each since the last question", async () => {
  const child = spawn(process.execPath, ["--import", WATCH, "-e", HOLDER], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  try {
    await once(child, "message");
    const worked = await loopAfter(child, "work");
    expect(worked.heldMsMax).toBeGreaterThanOrEqual(HELD_MS - 5);
    expect(worked.workedMsMax).toBeGreaterThan(HELD_MS / 4);
    const stood = await loopAfter(child, "stand");
    expect(stood.heldMsMax).toBeGreaterThanOrEqual(HELD_MS - 5);
    expect(stood.workedMsInLongest).toBeLessThan(HELD_MS / 4);
    expect(stood.workedMsMax).toBeLessThan(HELD_MS / 4);
    expect(stood.rssMbMax).toBeGreaterThan(10);
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});
