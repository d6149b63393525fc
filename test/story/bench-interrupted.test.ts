/**
 * A bench that is interrupted in the middle of a load leaves no process and no folder behind. Each takes some
 * seconds.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isInstalled } from "../../bench/installed.ts";
import { tree } from "../../bench/meter.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** What wrk's stand-in leaves where it is watched for. */
const WORD = "wrk-runs";
/** It takes six seconds when nobody else uses the machine. */
const BENCH_MS_MAX = 240_000;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "interrupted-"));
  chmodSync(folder, 0o755); // Postgres runs as a user of its own
  for (const one of ["programs", "words", "left"]) mkdirSync(join(folder, one), { mode: 0o755 });
  const wrk = spawnSync("which", ["wrk"], { encoding: "utf8" }).stdout.trim();
  const script = `#!/bin/sh\n[ "$1" = -v ] || : > ${join(folder, "words", WORD)}\nexec ${wrk} "$@"\n`;
  writeFileSync(join(folder, "programs/wrk"), script, { mode: 0o755 });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.runIf(isInstalled("wrk")).each(["SIGINT to all of its group", "SIGTERM to it alone"])(
  "%s ends everything",
  async (how) => {
    const giveUp = new AbortController();
    const words = watch(join(folder, "words"), { signal: giveUp.signal });
    const bench = spawn(process.execPath, ["--import", "tsx", "bench/bench.ts", "admit", "--seconds", "30"], {
      cwd: ROOT,
      env: {
        ...process.env,
        TMPDIR: join(folder, "left"),
        PATH: `${join(folder, "programs")}:${process.env.PATH}`,
      },
      stdio: "ignore",
      detached: true,
    });
    const pid = bench.pid as number;
    const ended = once(bench, "exit").finally(() => giveUp.abort());
    await words[Symbol.asyncIterator]().next();
    const processes = tree(pid);
    // Postgres with its sessions, Redis, the sink, two roles and wrk
    expect(processes.length).toBeGreaterThan(6);
    if (how.startsWith("SIGINT")) process.kill(-pid, "SIGINT");
    else bench.kill("SIGTERM");
    expect(await ended).toEqual([130, null]);
    expect(processes.filter((one) => existsSync(`/proc/${one}`))).toEqual([]);
    const left = readdirSync(join(folder, "left"));
    expect(left.filter((one) => !one.startsWith("tsx-"))).toEqual([]); // tsx caches what it compiled
  },
  BENCH_MS_MAX,
);
