import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const COMMAND = fileURLToPath(new URL("../../dist/cli/postrider.js", import.meta.url));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "postrider-simulate-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

type Ran = { status: number | null; out: string; err: string };

function simulate(...args: string[]): Promise<Ran> {
  const child = spawn(process.execPath, [COMMAND, "caps", "simulate", ...args], {
    env: { PATH: process.env.PATH, HOME: folder },
    cwd: folder,
  });
  const ran: Ran = { status: null, out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    ran.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    ran.err += chunk;
  });
  return new Promise((resolve) => child.once("close", (status) => resolve({ ...ran, status })));
}

test("a table, and assertions that decide the exit status", async () => {
  const shop = ["--scenario", "bought-list", "--seed", "3", "--runs", "2"];
  const holds = await simulate(...shop, "--assert", "bad_before_pause<2000", "--assert", "p99_delay_hours<6");
  expect(holds).toMatchObject({ status: 0, err: "" });
  expect(holds.out).toMatch(
    /^bought-list: 60 days, 2 workspaces from seed 3, under the built-in policy \(\w+\)\n/,
  );
  expect(holds.out).toMatch(
    /\nbad_before_pause +\d+ +\d+\.\.\d+ +\d+ +bad mail sent before automation is paused\n/,
  );
  const fails = await simulate(...shop, "--assert", "bad_sent<1");
  expect(fails).toMatchObject({
    status: 1,
    err: expect.stringMatching(/^bad_sent<1 does not hold: at worst/),
  });
});

test("JSON and a report that loads nothing, of two policies, one parameter swept", async () => {
  const policy = JSON.parse(readFileSync(new URL("../../caps/policy.json", import.meta.url), "utf8"));
  writeFileSync(join(folder, "fast.json"), JSON.stringify({ ...policy, growth: 1.8 }));
  const files = ["--json", "out.json", "--html", "out.html"];
  const both = ["--versus", "fast.json", "--sweep", "growth=1.1..2.0/4"];
  const { status, err } = await simulate("--scenario", "clean-start", "--days", "15", ...both, ...files);
  expect(status, err).toBe(0);

  const found = JSON.parse(readFileSync(join(folder, "out.json"), "utf8"));
  expect(found.outcomes.map((one: { name: string }) => one.name)).toEqual(["default", "fast"]);
  const days = found.outcomes.map((one: { measures: { days_to_target: { worst: number } } }) => {
    return one.measures.days_to_target.worst;
  });
  expect(days[1]).toBeLessThan(days[0]);
  expect(found.sweep.points).toHaveLength(4);
  expect(found.tradeOff).toHaveLength(2);
  const [{ points }] = found.tradeOff as [{ points: { badSent: number }[] }];
  // the strictest and the loosest policy let different amounts through
  expect(points.at(-1)?.badSent).toBeGreaterThan(2 * (points[0]?.badSent ?? 0));

  const html = readFileSync(join(folder, "out.html"), "utf8");
  expect(html.match(/<svg /g)?.length).toBeGreaterThan(10);
  for (const heading of ["In numbers", "Under “default”", "Under “fast”", "Trade-off", "Sensitivity to"])
    expect(html).toContain(heading);
  expect(html).not.toMatch(/\b(src|href)=|@import|url\((?!#)|<script|NaN|undefined/);
});

test("a scenario of one's own, and refusals that name what is wrong", async () => {
  const mine = {
    description: "one list a day",
    plan: "pro",
    days: 3,
    streams: [{ name: "list", class: "automation", list: 100, every_day: true, bounce: 0.01, complaint: 0 }],
  };
  writeFileSync(join(folder, "mine.json"), JSON.stringify(mine));
  expect((await simulate("--scenario", "mine.json")).out).toMatch(/^mine: 3 days/);

  writeFileSync(join(folder, "broken.json"), JSON.stringify({ ...mine, plan: "gold" }));
  const refused = async (...args: string[]) => {
    const { status, err } = await simulate(...args);
    expect(status).toBe(1);
    return err;
  };
  expect(await refused("--scenario", "broken.json")).toContain("`plan` ");
  expect(await refused("--scenario", "nowhere")).toContain("There is no scenario and no file nowhere.");
  expect(await refused("--scenario", "mine.json", "--policy", "mine.json")).toContain("The policy ");
  expect(await refused("--scenario", "mine.json", "--sweep", "growth=0.5..2/4")).toContain("With growth=0.5");
});

test("a report that cannot be written is refused before the simulation", async () => {
  const nowhere = join(folder, "none", "report.html");
  expect(await simulate("--scenario", "steady-shop", "--runs", "100000", "--html", nowhere)).toMatchObject({
    status: 1,
    err: `There is no folder ${join(folder, "none")} to write report.html to.\n`,
  });
  expect(await simulate("--scenario", "steady-shop", "--runs", "100000", "--json", folder)).toMatchObject({
    status: 1,
    err: `${folder} is a folder.\n`,
  });
});
