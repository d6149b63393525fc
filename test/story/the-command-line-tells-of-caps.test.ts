/** `postrider caps`: shown, set, forecast and replayed for a real workspace. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY, startState } from "../../src/capacity/policy.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const { postrider, json } = commandLine();
const hearing = commandLine({ settings: { BOUNCE_DOMAIN: "bounces.example.com" } });
let engine: Engine;
let ws: TestWorkspace;
let folder: string;
beforeAll(async () => {
  engine = await startEngine(["api"]);
  ws = await engine.workspace();
  folder = mkdtempSync(join(tmpdir(), "caps-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await engine.stop();
});

/** Of a test that runs ten commands, each a process of its own. */
const COMMANDS_MS_MAX = 90_000;
const COMMANDS = { timeout: COMMANDS_MS_MAX };

type Shown = {
  level: string;
  cap_day: { used: number; limit: number };
  cap_hour: { used: number; limit: number };
  waiting: { transactional: number };
  override: { by: string } | null;
};

test(
  "caps are shown, set by hand with author and reason, and taken back",
  async () => {
    for (let n = 0; n < 2; n++) await ws.client.post("/emails/batch", Array(60).fill(mail()));
    const before = await json<Shown>("caps", "show", "--workspace", ws.id);
    expect(before).toMatchObject({
      level: "normal",
      cap_day: { used: 100, limit: 300 },
      cap_hour: { used: 100, limit: 100 },
      waiting: { transactional: 20 },
      override: null,
      hears_reports: false,
    });
    const said = ["--reason", "a launch", "--by", "Ada"];
    const set = await postrider(
      "caps",
      "set",
      "--workspace",
      ws.id,
      "--fixed",
      "5000",
      "--until",
      "12h",
      ...said,
    );
    expect(set.out).toBe("Caps: 5000 a day, 1000 an hour.\n");
    expect(await json<Shown>("caps", "show", "--workspace", ws.id)).toMatchObject({
      override: { by: "Ada" },
    });
    await postrider("caps", "set", "--workspace", ws.id, "--clear", "--reason", "over", "--by", "Ada");
    await postrider("workspace", "set", ws.id, "--limit", "cap_day=700");
    const history = await json<{ reason: string; by: string; dayAfter: number }[]>(
      "caps",
      "history",
      "--workspace",
      ws.id,
    );
    expect(history.map(({ dayAfter, by }) => [dayAfter, by])).toEqual([
      [700, "operator"],
      [300, "Ada"],
      [5_000, "Ada"],
    ]);
    const idle = await postrider("caps", "set", "--workspace", ws.id, "--minimum", "5000", ...said);
    expect(idle.out).toContain("has no effect on the daily cap: the workspace has its own limit of cap_day.");
    expect(idle.out).toContain(`postrider workspace set ${ws.id} --limit cap_day=default`);
    const shown = await postrider("caps", "show", "--workspace", ws.id);
    expect(shown.out).toContain("override: 700 a day, by operator: a limit of the workspace\n");
    await postrider("workspace", "set", ws.id, "--limit", "cap_day=default", "--limit", "cap_hour=70");
    const half = await postrider("caps", "set", "--workspace", ws.id, "--fixed", "5000", ...said);
    expect(half.out).toMatch(/^Caps: 5000 a day, 70 an hour\.\n`caps set` has no effect on the hourly cap: /);
    expect(half.out).not.toContain("daily");
    const refused = await postrider("caps", "set", "--workspace", ws.id, "--fixed", "49", ...said);
    expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("from 50 to") });
  },
  COMMANDS_MS_MAX,
);

test("what the caps will be, and what they would have been under another policy", async () => {
  const other = await engine.workspace();
  const today = Math.floor(Date.now() / DAY_MS);
  for (let ago = 10; ago >= 0; ago--)
    await engine.sql`insert into tally (workspace_id, day, worker, attempted, delivered, fbl_delivered)
      values (${other.id}, ${today - ago}, 'test', 2000, 1990, 600)`;
  const ahead = await json<{ day: string; likely: { capDay: number } }[]>(
    "caps",
    "forecast",
    "--workspace",
    other.id,
    "--days",
    "5",
  );
  expect(ahead).toHaveLength(5);
  expect(ahead.at(-1)?.likely.capDay).toBeGreaterThan(300);
  const told = await postrider("caps", "forecast", "--workspace", other.id, "--days", "1");
  // from what it is today
  expect(told.out).toMatch(/the cap is likely to go from 300 to 360 a day in 1 day;/);
  const file = join(folder, "policy.json");
  writeFileSync(file, JSON.stringify({ ...DEFAULT_POLICY, growth: 2 }));
  const { days: replayed, summary } = await hearing.json<{ days: { capDay: number }[]; summary: string[] }>(
    "caps",
    "replay",
    "--workspace",
    other.id,
    "--from",
    new Date((today - 10) * DAY_MS).toISOString(),
    "--to",
    new Date(today * DAY_MS).toISOString(),
    "--policy",
    file,
  );
  expect(replayed).toHaveLength(10);
  expect(summary).toContain("10 days are known as a whole only: what waited is not compared.");
  expect(summary.filter((one) => /^The difference.*recipient-hours/.test(one))).toEqual([]);
  expect(replayed[3]?.capDay).toBe(2_400);
  writeFileSync(file, JSON.stringify({ ...DEFAULT_POLICY, growth: 0.5 }));
  const bad = await postrider("caps", "replay", "--workspace", other.id, "--policy", file);
  expect(bad).toMatchObject({ status: 1, err: expect.stringContaining("growth") });
});

test(
  "the simulator answers in sentences first, prints what an assertion saw, and gives all as JSON",
  async () => {
    const about = ["caps", "simulate", "--scenario", "bought-list", "--days", "24"];
    const told = await postrider(...about, "--runs", "3", "--explain", "--assert", "bad_before_freeze<2000");
    expect(told.out).toMatch(
      /^bought-list: 24 days, 3 workspaces from seed 1, under the built-in policy \(\w+\)\n\nUnder the built-in policy [\d,]+ bad e-mails/,
    );
    expect(told.out).toContain("bad_before_freeze<2000 holds: at worst");
    expect(told.out).toMatch(/day 20, 11:\d\d: paused, .* bounces .* are surely over/);
    const failed = await postrider(...about, "--assert", "bad_before_freeze<5");
    expect(failed).toMatchObject({ status: 1, err: expect.stringMatching(/does not hold: at worst \d+/) });
    const found = await json<{ summary: string[]; outcomes: { measures: Record<string, object> }[] }>(
      ...about,
      "--set",
      "growth=1.6",
    );
    expect(found.outcomes).toHaveLength(2);
    // the difference is what was asked
    expect(found.summary[0]).toMatch(/default.*growth=1\.6/);
    expect(found.summary.filter((sentence) => sentence.startsWith("Under default"))).toHaveLength(1);
    expect(Object.keys(found.outcomes[0]?.measures ?? {})).toEqual(
      expect.arrayContaining(["false_freezes_per_1000", "false_freezes_low", "false_freezes_high"]),
    );
    expect(found.outcomes[0]?.measures.bad_sent).toEqual({
      typical: expect.any(Number),
      low: expect.any(Number),
      high: expect.any(Number),
      worst: expect.any(Number),
    });
  },
  COMMANDS_MS_MAX,
);

test("priors and receivers are fitted to the counts of all workspaces", async () => {
  const fitted = await json<{ days: number; notes: string[] }>("caps", "fit");
  expect(fitted.days).toBeGreaterThan(0);
  expect(fitted.notes).toHaveLength(4);
});

type Why = { cap: { day: number; level: string }; is: string[]; why: string[]; changes: string[] };

test("why: the cap, the reason, and what would change it and when, in sentences", async () => {
  const asked = await engine.workspace();
  const today = Math.floor(Date.now() / DAY_MS);
  await engine.sql`insert into tally (workspace_id, day, worker, attempted, delivered, hard_bounced)
    values (${asked.id}, ${today}, 'test', 100, 97, 3)`;
  const fresh = await json<Why>("caps", "why", "--workspace", asked.id);
  expect(fresh.cap).toEqual({ day: 300, hour: 100, level: "normal" });
  expect(fresh.is[0]).toMatch(/^The cap is 300 recipients a day and 100 an hour; 0 of the day/);
  expect(fresh.why).toContain("It has not changed since the start, which is 300 a day.");
  expect(fresh.why.join(" ")).toContain("Complaints are unknown");
  expect(fresh.changes[0]).toMatch(/^As today is so far, the cap does not grow at .*growth needs 180/);
  expect(fresh.changes).toContainEqual(
    expect.stringContaining("A bounce rate that is surely over 5.00% freezes"),
  );

  await engine.sql`update tally set hard_bounced = 40, delivered = 60 where workspace_id = ${asked.id}`;
  // what the first look will find is known before it
  const ill = await json<Why>("caps", "why", "--workspace", asked.id);
  expect(ill.changes).toContain("A bounce rate that is surely over 5.00% freezes the cap: that is proven.");

  await engine.sql`insert into cap_change (workspace_id, id, at, day_before, day_after, hour_before, hour_after, level,
      reason, changed_by)
    values (${asked.id}, '019a9f3e-5b1c-7d2a-9e41-000000000001', ${new Date(Date.now() - DAY_MS)}, 300, 300, 100, 100,
      'paused', 'Paused: 40 bounces.', 'policy')`;
  const state = { ...STATE, level: "paused", cleanDays: 1, pausedAt: [Date.now()] };
  await engine.sql`insert into capacity (workspace_id, state, policy_version, is_troubled, evaluated_on)
    values (${asked.id}, ${JSON.stringify(state)}::text::jsonb, 'x', true, now()::date)`;
  await postrider(
    "caps",
    "set",
    "--workspace",
    asked.id,
    "--minimum",
    "500",
    "--until",
    "7d",
    "--reason",
    "launch",
    "--by",
    "Ada",
  );
  const { out } = await postrider("caps", "why", "--workspace", asked.id);
  expect(out).toContain("Only transactional mail goes.");
  expect(out).toMatch(/The level is paused since \S+Z: Paused: 40 bounces\.\n/);
  expect(out).toMatch(/Ada set it to at least 500 a day until .*: launch\./);
  expect(out).toMatch(/The override ends at /);
  expect(out).toMatch(/After 2 more clean days, at the earliest on \S+, a probe of 50 a day/);
});

test("a forecast goes on from the level and the quota there are", async () => {
  const asked = await engine.workspace("pro", { emails_per_month: 100 });
  const evaluatedOn = new Date().toISOString().slice(0, 10);
  const today = Math.floor(Date.now() / DAY_MS);
  for (let ago = 5; ago >= 1; ago--) {
    await engine.sql`insert into tally (workspace_id, day, worker, attempted, delivered, fbl_delivered)
      values (${asked.id}, ${today - ago}, 'test', 200, 200, 60)`;
    await engine.sql`insert into cap_use (workspace_id, day, used, used_bulk, delayed)
      values (${asked.id}, ${today - ago}, 200, 150, 0)`;
  }
  const state = { ...STATE, level: "paused", evaluatedOn, pausedAt: [Date.now()] };
  await engine.sql`insert into capacity (workspace_id, state, policy_version, is_troubled, evaluated_on)
    values (${asked.id}, ${JSON.stringify(state)}::text::jsonb, 'x', true, now()::date)`;
  type Ahead = { likely: { used: number; level: string; heldBy: string | null } };
  const ahead = await json<Ahead[]>("caps", "forecast", "--workspace", asked.id, "--days", "3");
  expect(ahead[0]?.likely).toMatchObject({ used: 50, level: "paused", heldBy: "level" });
  const turnsMonth = new Date(Date.now() + 3 * DAY_MS).getUTCDate() <= 3;
  if (!turnsMonth) expect(ahead[2]?.likely).toMatchObject({ used: 0, heldBy: "quota" });
});

test("history between two times names the numbers that decided", async () => {
  const asked = await engine.workspace();
  const counts = { measure: "bounce", events: 43, of: 120, limit: 0.06 };
  const changes = [
    ["2026-11-01", "normal", null],
    ["2026-11-05", "paused", counts],
    ["2026-11-09", "paused", { ...counts, part: "news" }],
  ] as const;
  for (const [n, [day, level, numbers]] of changes.entries())
    await engine.sql`insert into cap_change (workspace_id, id, at, day_before, day_after, hour_before, hour_after, level,
        reason, counts, policy_version, changed_by)
      values (${asked.id}, ${`019a9f3e-5b1c-7d2a-9e41-00000000000${n}`}, ${new Date(day)}, 1, 2, 1, 2, ${level}, 'x',
              ${numbers && JSON.stringify(numbers)}::text::jsonb, 'x', 'policy')`;
  const about = ["caps", "history", "--workspace", asked.id, "--from", "2026-11-02", "--to", "2026-11-09"];
  const rows = await json<{ at: string; counts: unknown }[]>(...about);
  expect(rows).toMatchObject([{ at: "2026-11-05T00:00:00.000Z", counts }]);
  expect((await postrider(...about)).out).toMatch(
    /paused +policy .*(?=.*measure=bounce)(?=.*events=43)(?=.*of=120)(?=.*limit=0\.06)/,
  );
  const refused = await postrider("caps", "history", "--workspace", asked.id, "--from", "soon");
  expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("--from") });
  expect((await postrider(...about)).out).toMatch(
    /^1 change from 2026-11-02T\S+ until 2026-11-09T\S+: the cap went from 1 to 2 a day; it was paused once; at the end it was paused\.\n\n/,
  );
  const later = await postrider("caps", "history", "--workspace", asked.id, "--from", "2026-11-06");
  expect(later.out).toContain(
    "the cap went from 1 to 2 a day; it was paused before; a part of its mail was held back once; at the end it was paused.\n",
  );
  const empty = await postrider("caps", "history", "--workspace", asked.id, "--from", "2026-12-01");
  expect(empty.out).toMatch(/^The caps did not change from 2026-12-01T\S+; the level was paused\.\n/);
  const turned = ["--from", "2026-11-09", "--to", "2026-11-02"];
  const refusals = [
    await postrider("caps", "history", "--workspace", asked.id, ...turned),
    await postrider("caps", "history", "--workspace", "019a9f3e-5b1c-7d2a-9e41-000000000009"),
  ];
  expect(refusals.map(({ status, err }) => [status, err])).toEqual([
    [1, expect.stringContaining("--from must be before --to")],
    [1, expect.stringContaining("There is no workspace")],
  ]);
});

test("a history that is cut says so, in words and beside the JSON", COMMANDS, async () => {
  const asked = await engine.workspace();
  await engine.sql`insert into cap_change (workspace_id, id, at, day_before, day_after, hour_before, hour_after, level,
      reason, changed_by)
    select ${asked.id}, gen_random_uuid(), timestamptz '2026-11-01 00:00Z' + n * interval '1 minute', 1, 2, 1, 2, 'normal', 'x', 'policy'
    from generate_series(1, 501) as n`;
  const { out } = await postrider("caps", "history", "--workspace", asked.id);
  expect(out).toContain("Only the newest 500 changes are listed. For older ones give --to ");
  const asJson = await postrider("caps", "history", "--workspace", asked.id, "--json");
  expect(JSON.parse(asJson.out)).toHaveLength(500);
  expect(asJson.err).toContain("Only the newest 500");
});

test("show and forecast begin with sentences", COMMANDS, async () => {
  const asked = await engine.workspace();
  const shown = await postrider("caps", "show", "--workspace", asked.id);
  expect(shown.out).toMatch(
    /^The cap is 300 recipients a day and 100 an hour; 0 of the day .* used\.\nThe level is normal, and nothing waits\.\n/,
  );
  const ahead = await postrider("caps", "forecast", "--workspace", asked.id);
  expect(ahead.out).toMatch(
    /^If traffic stays as in the last week, the cap is likely to go from 300 to 300 a day in 14 days/,
  );
});

const STATE = startState(DEFAULT_POLICY, "pro");
