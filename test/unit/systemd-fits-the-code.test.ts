/**
 * The units of systemd name only settings and roles that exist, give a worker time to end, and give up no
 * process.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ENDS_WITHIN_S, ROOT, read } from "../rig/opsfiles.ts";

test("a worker has time to write what was delivered", () => {
  const unit = read("ops/systemd/postrider@.service");
  expect(Number(/TimeoutStopSec=(\d+)/.exec(unit)?.[1])).toBeGreaterThan(ENDS_WITHIN_S);
});

test("a process that ends is started again, however often", () => {
  const unit = read("ops/systemd/postrider@.service");
  expect(unit).toMatch(/^Restart=always$/m);
  // or systemd gives up for good after five ends in 10 s, and with a wrong password one takes half a second
  expect(unit.split("[Service]")[0]).toMatch(/^StartLimitIntervalSec=0$/m);
});

/** `systemd-analyze security`: from 0, safe, to 10. */
const EXPOSURE_MAX = 2.5;
const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;

test
  .skipIf(!hasSystemd)
  .each(["postrider-migrate.service", "postrider@api.service", "postrider@keeper.service"])(
  "systemd understands %s, and it may do little (skipped without systemd-analyze)",
  (unit) => {
    const folder = mkdtempSync(join(tmpdir(), "postrider-units-"));
    try {
      cpSync(join(ROOT, "ops/systemd"), folder, { recursive: true });
      const analyze = (...args: string[]) =>
        spawnSync("systemd-analyze", [...args, join(folder, unit)], { encoding: "utf8" });
      const verified = analyze("verify", "--man=no");
      // it speaks of other units of the machine, too, and looks for the program there
      const ofUnit = verified.stderr.split("\n").filter((line) => line.includes("postrider"));
      const faults = ofUnit.filter((line) => !line.includes("is not executable"));
      expect(faults).toEqual([]);
      const { stdout } = analyze("security", "--offline=true");
      expect(Number(/exposure level[^:]*: ([0-9.]+)/.exec(stdout)?.[1])).toBeLessThan(EXPOSURE_MAX);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
