/** Another policy on what really was: a shadow beside the one in force, and a replay of the last days. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import type { CapTotals, ReplayedDay, ReplayedStep } from "../../src/capacity/replay.ts";
import { listCapChanges } from "../../src/record/workspaces/caps.ts";
import { saveShadow } from "../../src/record/workspaces/shadow.ts";
import { MovableClock } from "../rig/clock.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
/** Two days ago, at 01:00. */
const clock = new MovableClock((TODAY - 2) * DAY_MS + 60 * MINUTE_MS);
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
let line: CommandLine;
let folder: string;
let ws: TestWorkspace;
let blind: string;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
  line = commandLine(stage);
  folder = mkdtempSync(join(tmpdir(), "replay-"));
  blind = join(folder, "blind.json");
  writeFileSync(blind, JSON.stringify(BLIND));
  ws = await api.workspace();
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await hand.close();
  await api.stop();
  await stage.close();
});

/** Takes no step against anybody. */
const BLIND = {
  ...DEFAULT_POLICY,
  freeze: { bounce: 0.9, complaint: 0.9 },
  pause: { ...DEFAULT_POLICY.pause, bounce: 0.9, complaint: 0.9 },
  shrink: { ...DEFAULT_POLICY.shrink, bounce: 0.9, complaint: 0.9 },
};

type Replayed = {
  actual: CapTotals;
  totals: CapTotals;
  days: ReplayedDay[];
  steps: ReplayedStep[];
  summary: string[];
};
type Compared = {
  in_force: CapTotals;
  beside: CapTotals;
  steps: { level: string; reason: string }[];
  summary: string[];
};

test("a shadow is judged on live evidence and changes no cap", async () => {
  const none = await line.postrider("caps", "compare");
  expect(none).toMatchObject({ status: 1, err: expect.stringContaining("There is no shadow policy") });
  const strict = { ...DEFAULT_POLICY, evidence: { ...DEFAULT_POLICY.evidence, errors_per_month: 0.3 } };
  writeFileSync(join(folder, "strict.json"), JSON.stringify(strict));
  const set = await line.json("caps", "policy", "shadow", join(folder, "strict.json"), "--by", "Ada");
  expect(set).toMatchObject({ shadow: expect.any(String) });
  await api.sql`update shadow_policy set since = ${new Date(clock.now())}`;

  const early = await line.postrider("caps", "compare");
  expect(early.out).toMatch(/^Since .* no workspace has sent anything: nothing was seen yet\.\n/);
  expect(early.out).not.toContain("as many");

  await live({ sent: 20, bounced: 0 });
  await live({ sent: 30, bounced: 8 });
  // what a budget of 30% proves, one of 0.5% does not prove yet
  expect(await changes()).toEqual([]);
  const seen = await line.json<Compared>("caps", "compare", "--workspace", ws.id);
  expect(seen.beside.freezes + seen.beside.pauses).toBeGreaterThan(0);
  expect(seen.in_force).toMatchObject({ freezes: 0, pauses: 0 });
  expect(seen.steps[0]?.reason).toMatch(/Paused|Frozen|Shrunk/);
  await live({ sent: 40, bounced: 30 });
  expect((await changes())[0]?.level).toBe("paused");
  const { out } = await line.postrider("caps", "compare");
  expect(out).toMatch(/^Since .*, 1 workspace:\nThe policy in force: 90 recipients sent to, 38 bounced/);
  expect(out).toContain("What the shadow policy would have done:");
  // of a workspace whose mail is not compared no step is counted
  const idle = await api.workspace();
  const step = {
    dayBefore: 300,
    dayAfter: 300,
    levelBefore: "normal",
    level: "frozen",
    reason: "",
    counts: null,
  };
  const [{ digest }] = (await api.sql`select digest from shadow_policy`) as unknown as [{ digest: string }];
  await saveShadow(
    api.sql,
    digest,
    [{ workspaceId: idle.id, state: {}, change: step }],
    new Date(clock.now()),
  );
  const compared = await line.json<Compared>("caps", "compare");
  expect(compared.beside.freezes).toBe(seen.beside.freezes);
});

test("a replay of the policy in force takes the steps that were taken, and names what is assumed", async () => {
  const mine = join(folder, "mine.json");
  writeFileSync(mine, JSON.stringify(DEFAULT_POLICY));
  const same = await replayed(mine);
  const real = (await changes()).map(({ level, at }) => ({ level, at: at.toISOString() }));
  expect(same.steps.map(({ level, at }) => ({ level, at }))).toEqual(real);
  expect(same.totals.sent).toBe(same.actual.sent);
  expect(same.actual).toMatchObject({ sent: 90, bad: 38, pauses: 1 });
  expect(same.days.every(({ resolution }) => resolution === "5 minutes")).toBe(true);
});

test("a replay from the middle of a day counts what came after it, and takes no step again", async () => {
  const mine = join(folder, "mine.json");
  const last = await replayed(mine, new Date(clock.now() - 2 * MINUTE_MS));
  expect(last.actual).toMatchObject({ sent: 40, bad: 30, pauses: 1, waiting_hours: 0 });
  expect(last.totals).toMatchObject({ sent: 40, bad: 30, pauses: 1, waiting_hours: 0 });
  clock.advance(6 * MINUTE_MS);
  const after = await replayed(mine, new Date(clock.now() - 5 * MINUTE_MS));
  expect(after.totals).toEqual(after.actual);
  expect(after.totals).toMatchObject({ sent: 0, pauses: 0 });
});

test("another policy on the same days", async () => {
  const other = await replayed(blind);
  expect(other.totals).toMatchObject({ sent: 90, pauses: 0, freezes: 0 });
  expect(other.steps.filter(({ level }) => level !== "normal")).toEqual([]);
  expect(other.summary.join(" ")).toMatch(/The difference: (.*, )?1 fewer pause[,.]/);
  const all = await line.json<{ workspaces: { workspace: string }[] }>("caps", "replay", "--policy", blind);
  expect(all.workspaces.map(({ workspace }) => workspace)).toEqual([ws.id]);
  const { out } = await line.postrider("caps", "replay", "--policy", blind, "--workspace", ws.id);
  expect(out).toMatch(/day +resolution +cap/);
});

test("without the shadow nothing is compared, and what it did is forgotten", async () => {
  expect(await line.json("caps", "policy", "shadow", "off")).toEqual({ shadow: null, since: null });
  expect((await line.postrider("caps", "compare")).status).toBe(1);
  expect(await api.sql`select from shadow_change`).toHaveLength(0);
  const refused = await line.postrider("caps", "replay", "--policy", blind, "--from", "2020-01-01");
  expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("400 days") });
});

/** Five minutes in which so much was sent, and a look of the keeper. */
async function live({ sent, bounced }: { sent: number; bounced: number }): Promise<void> {
  clock.advance(5 * MINUTE_MS);
  const day = Math.floor(clock.now() / DAY_MS);
  await api.sql`
    insert into tally as t (workspace_id, day, worker, attempted, delivered, hard_bounced, fbl_delivered)
    values (${ws.id}, ${day}, 'test', ${sent}, ${sent - bounced}, ${bounced}, ${Math.floor((sent - bounced) / 3)})
    on conflict (workspace_id, day, worker) do update set attempted = t.attempted + excluded.attempted,
      delivered = t.delivered + excluded.delivered, hard_bounced = t.hard_bounced + excluded.hard_bounced,
      fbl_delivered = t.fbl_delivered + excluded.fbl_delivered`;
  await api.sql`
    insert into cap_use as u (workspace_id, day, used, delayed) values (${ws.id}, ${day}, ${sent}, 0)
    on conflict (workspace_id, day) do update set used = u.used + excluded.used`;
  while (await hand.keeper.caps()) {}
}

async function changes() {
  const levels = await listCapChanges(api.sql, ws.id, 10);
  return levels.filter(({ by }) => by === "policy");
}

function replayed(policy: string, since = new Date((TODAY - 2) * DAY_MS)): Promise<Replayed> {
  const from = since.toISOString();
  const to = new Date(clock.now()).toISOString();
  return line.json<Replayed>(
    "caps",
    "replay",
    "--policy",
    policy,
    "--workspace",
    ws.id,
    "--from",
    from,
    "--to",
    to,
  );
}
