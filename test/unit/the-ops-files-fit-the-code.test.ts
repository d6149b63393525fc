/** Compose, systemd and Kubernetes name only settings and roles that exist, and give a worker time to end. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { SETTINGS } from "../../src/config.ts";
import { ROLES } from "../../src/rules/roles.ts";

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
const COMPOSE = read("docker-compose.yml");
const KUBERNETES = read("ops/kubernetes/postrider.yaml");
const UNIT = read("ops/systemd/postrider@.service");

/** Of Node, of OpenTelemetry, of the images of Postgres and Redis, and what Compose puts into URLs. */
const NOT_OURS =
  /^(?:NODE_\w+|OTEL_\w+|PG\w+|POSTGRES_(?!DATA_FOLDER)\w+|OWNER_PASSWORD|SERVING_PASSWORD|REDIS_PASSWORD)$/;
const WORKER_ENDS_WITHIN_S = 30;

function settingsNamed(text: string): string[] {
  return [...text.matchAll(/^\s+(?:- )?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*): /gm)].map(
    ([, name]) => name as string,
  );
}

test.each([
  ["docker-compose.yml", COMPOSE],
  ["ops/kubernetes/postrider.yaml", KUBERNETES],
])("%s names only settings", (_, text) => {
  const known: string[] = Object.values(SETTINGS).map(({ env }) => env);
  const named = settingsNamed(text);
  expect(named.length).toBeGreaterThan(4);
  expect(named.filter((name) => !known.includes(name) && !NOT_OURS.test(name))).toEqual([]);
});

test("every setting can be given to Compose in .env", () => {
  const named = settingsNamed(COMPOSE);
  const fixed = ["POSTRIDER_HOME", "PORT"]; // a container keeps nothing, and listens where Compose expects it
  const missing = Object.values(SETTINGS).filter(({ env }) => !named.includes(env) && !fixed.includes(env));
  expect(missing.map(({ env }) => env)).toEqual([]);
});

test.each([
  ["docker-compose.yml", COMPOSE],
  ["ops/kubernetes/postrider.yaml", KUBERNETES],
])("%s starts only roles that exist", (_, text) => {
  const started = [...text.matchAll(/--role, (\w+)\]/g)].map(([, role]) => role);
  expect(started).toEqual(expect.arrayContaining(["api", "deliver", "automate", "webhooks", "keeper"]));
  expect(started.filter((role) => !(ROLES as readonly unknown[]).includes(role))).toEqual([]);
});

test("a worker has time to write what was delivered", () => {
  const engine = COMPOSE.slice(COMPOSE.indexOf("x-engine"), COMPOSE.indexOf("x-owner"));
  const deliver = KUBERNETES.slice(KUBERNETES.indexOf("name: postrider-deliver"));
  expect(Number(/stop_grace_period: (\d+)s/.exec(engine)?.[1])).toBeGreaterThan(WORKER_ENDS_WITHIN_S);
  expect(Number(/terminationGracePeriodSeconds: (\d+)/.exec(deliver)?.[1])).toBeGreaterThan(
    WORKER_ENDS_WITHIN_S,
  );
  expect(Number(/TimeoutStopSec=(\d+)/.exec(UNIT)?.[1])).toBeGreaterThan(WORKER_ENDS_WITHIN_S);
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
      cpSync(fileURLToPath(new URL("../../ops/systemd", import.meta.url)), folder, { recursive: true });
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
