/** A scenario that fails is reported, and takes nothing from the others. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import type { Results } from "../../bench/results.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** It takes ten seconds when nobody else uses the machine. */
const BENCH_MS_MAX = 240_000;
const folder = mkdtempSync(join(tmpdir(), "bench-fails-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test(
  "one fails in its first load, the next is measured and written, and the status says that something failed",
  async () => {
    // idle needs none
    writeFileSync(join(folder, "wrk"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });
    const json = join(folder, "out.json");
    const flags = ["admit", "idle", "--seconds", "1", "--json", json];
    const bench = spawn(process.execPath, ["--import", "tsx", "bench/bench.ts", ...flags], {
      cwd: ROOT,
      env: { ...process.env, PATH: `${folder}:${process.env.PATH}` },
      stdio: "ignore",
    });
    expect(await once(bench, "exit")).toEqual([1, null]);
    const { failed, rows } = JSON.parse(readFileSync(json, "utf8")) as Results;
    expect(failed).toEqual([expect.stringMatching(/^admit, run 1: wrk said nothing/)]);
    expect(rows.filter(({ scenario }) => scenario === "idle")).not.toEqual([]);
  },
  BENCH_MS_MAX,
);
