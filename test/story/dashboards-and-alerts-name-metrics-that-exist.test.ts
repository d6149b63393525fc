/**
 * What operators are shown, told and woken by is in a real scrape, and what is in a scrape is explained to
 * them.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { scrape } from "../rig/scrape.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const RULES = `${ROOT}/ops/prometheus/postrider.yml`;
const ROLES = `${ROOT}/dist/process/roles`;
const read = (path: string): string => readFileSync(`${ROOT}/${path}`, "utf8");
const hasPromtool = (() => {
  try {
    execFileSync("promtool", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    console.warn("promtool is not installed (Debian: prometheus): the rules are not checked by it");
    return false;
  }
})();

let engine: Engine;
let families: ReadonlySet<string>;
beforeAll(async () => {
  engine = await startEngine(["api"], { settings: { METRICS_PORT: "0" } });
  // what the other roles count is told when they are loaded
  const roles = readdirSync(ROLES).filter((file) => file.endsWith(".js"));
  await Promise.all(roles.map((file) => import(join(ROLES, file))));
  families = (await scrape(`http://127.0.0.1:${engine.metricsPort}/metrics`)).families;
});
afterAll(() => engine.stop());

function unknownIn(text: string): string[] {
  const named = [...text.matchAll(/\bpostrider_[a-z0-9_]+/g)].map(([name]) => name);
  expect(named.length).toBeGreaterThan(3);
  return [...new Set(named)].filter(
    (name) => !families.has(name) && !families.has(name.replace(/_(?:bucket|sum|count)$/, "")),
  );
}

test("the dashboard", () => {
  const dashboard = read("ops/grafana/postrider.json");
  expect(unknownIn(dashboard)).toEqual([]);
  const { panels } = JSON.parse(dashboard) as { panels: { type: string; targets?: { expr: string }[] }[] };
  const empty = panels.filter(({ type, targets }) => type !== "row" && !targets?.every(({ expr }) => expr));
  expect(empty).toEqual([]);
});

test("the alerts, each with a sentence that says what to do", () => {
  const rules = read("ops/prometheus/postrider.yml");
  expect(unknownIn(rules)).toEqual([]);
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  expect(alerts.length).toBeGreaterThan(10);
  for (const alert of alerts) expect(alert).toMatch(/\n {10}runbook: "?\S+ .{20,}\."?\n/);
  const cases = read("ops/prometheus/postrider.test.yml");
  const untested = alerts
    .map((alert) => alert.slice(0, alert.indexOf("\n")))
    .filter((name) => !cases.includes(name));
  expect(untested).toEqual([]);
});

test("the docs name what exists, and explain all of it", () => {
  const pages = readdirSync(`${ROOT}/docs`).filter((file) => file.endsWith(".md"));
  const docs = pages.map((file) => read(`docs/${file}`)).join("\n");
  // a role of Postgres is named as metrics are
  const roles = read("ops/postgres-roles.sql");
  expect(unknownIn(docs).filter((name) => !roles.includes(`-- ${name} `))).toEqual([]);
  const own = [...families].filter((name) => !/^postrider_(?:process|nodejs)_/.test(name));
  expect(own.filter((name) => !docs.includes(`\`${name}\``))).toEqual([]);
});

test.runIf(hasPromtool)("promtool takes the rules, and they wake nobody for nothing", () => {
  const run = (...args: string[]) => execFileSync("promtool", args, { encoding: "utf8", stdio: "pipe" });
  expect(run("check", "rules", RULES)).toContain("SUCCESS");
  expect(run("test", "rules", RULES.replace(/\.yml$/, ".test.yml"))).toContain("SUCCESS");
});

test.runIf(hasPromtool)("promtool finds nothing to mend in a scrape", async () => {
  const { text } = await scrape(`http://127.0.0.1:${engine.metricsPort}/metrics`);
  // Node's own names are prom-client's; the other ends in what promtool keeps for counters, and has been told
  // for long
  const own = text
    .split(/\n(?=# HELP )/)
    .filter((family) => !/^# HELP postrider_(?:nodejs_|process_|waiting_total )/.test(family));
  const found = (() => {
    try {
      return execFileSync("promtool", ["check", "metrics"], {
        input: `${own.join("\n")}\n`,
        encoding: "utf8",
      });
    } catch (error) {
      return String((error as { stderr: string }).stderr);
    }
  })();
  expect(found).toBe("");
});
