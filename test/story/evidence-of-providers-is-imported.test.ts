/** `postrider caps evidence import`: what providers show senders counts as evidence for the caps of who owns the domain. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listCapChanges } from "../../src/record/workspaces/caps.ts";
import { MovableClock } from "../rig/clock.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const YESTERDAY = new Date((TODAY - 1) * DAY_MS).toISOString().slice(0, 10);
const clock = new MovableClock(TODAY * DAY_MS + DAY_MS / 4);
let stage: Stage;
let api: TestApi;
let line: CommandLine;
let folder: string;
let file: string;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  line = commandLine(stage);
  folder = mkdtempSync(join(tmpdir(), "evidence-"));
  file = join(folder, "postmaster.csv");
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.stop();
  await stage.close();
});

test("complaints that a provider counts make them known, and growth is no longer slow", async () => {
  const ws = await lived("known.example");
  const imported = await take(
    `domain,day,complaint_rate,reputation\nknown.example,${YESTERDAY},0.02%,high\n`,
  );
  expect(imported).toEqual({ imported: 1, skipped: 0, unknown_domains: [] });
  await judge();
  expect(await changeOf(ws)).toMatchObject({ dayAfter: 420 });
});

test.each([
  ["a rate over the healthy one", "0.3%", ""],
  ["a bad reputation", "", "bad"],
])("%s stops growth", async (_, rate, reputation) => {
  const domain = `${reputation || "rate"}.example`;
  const ws = await lived(domain);
  await take(`domain,day,complaint_rate,reputation\n${domain},${YESTERDAY},${rate},${reputation}\n`);
  await judge();
  expect(await changeOf(ws)).toBeUndefined();
  const { changes } = await line.json<{ changes: string[] }>("caps", "why", "--workspace", ws.id);
  expect(changes[0]).toContain(domain);
});

test("a rate with the number that it was taken over proves harm, imported once or twice, as JSON", async () => {
  const ws = await lived("harm.example");
  const day = { domain: "harm.example", day: YESTERDAY, complaint_rate: 0.01, delivered: 20_000 };
  for (let n = 0; n < 2; n++) await take(JSON.stringify([day]));
  await judge();
  expect(await changeOf(ws)).toMatchObject({
    level: "paused",
    counts: { measure: "complaint", events: 200, of: 20_000 },
  });
});

test("a file with a fault is refused with the line, and nothing of it is imported; unknown domains are named", async () => {
  await lived("whole.example");
  for (const [text, said] of [
    [
      `domain,day,complaint_rate\nwhole.example,${YESTERDAY},0.1\nwhole.example,soon,0.1\n`,
      /line 3: `day` must be a day/,
    ],
    [`domain,day,rate\n`, /line 1: there is no column `rate`/],
    [`domain,day,complaint_rate\nwhole.example,${YESTERDAY},7\n`, /line 2: `complaint_rate` must be a share/],
    [`domain,day,reputation\nwhole.example,${YESTERDAY},great\n`, /`reputation` must be one of high/],
    [`[{"domain": "whole.example"}]`, /item 1: `day` must be/],
    [`[1`, /is not JSON/],
  ] as const) {
    writeFileSync(file, text);
    const refused = await line.postrider("caps", "evidence", "import", file);
    expect(refused).toMatchObject({ status: 1, err: expect.stringMatching(said) });
  }
  expect(await api.sql`select from postmaster_day where domain = 'whole.example'`).toHaveLength(0);
  const other = await take(`domain,day,reputation\nnobody.example,${YESTERDAY},high\n`);
  expect(other).toEqual({ imported: 0, skipped: 1, unknown_domains: ["nobody.example"] });
});

function take(text: string): Promise<unknown> {
  writeFileSync(file, text);
  return line.json("caps", "evidence", "import", file);
}

/** A workspace with a domain of its own that used its cap yesterday; nobody reported complaints. */
async function lived(domain: string): Promise<TestWorkspace> {
  const ws = await api.workspace();
  await api.sql`
    insert into domain (workspace_id, domain, token, verified_at, created_at)
    values (${ws.id}, ${domain}, 'x', now(), now())`;
  await api.sql`
    insert into tally (workspace_id, day, worker, attempted, delivered)
    values (${ws.id}, ${TODAY - 1}, 'test', 300, 300)`;
  return ws;
}

async function judge(): Promise<void> {
  const hand = handKeeper(stage, clock);
  while (await hand.keeper.caps()) {}
  await hand.close();
}

async function changeOf(ws: TestWorkspace) {
  return (await listCapChanges(api.sql, ws.id, 1))[0];
}
