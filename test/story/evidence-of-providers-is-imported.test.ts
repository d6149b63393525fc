/**
 * `postrider caps evidence import`: what providers show senders counts as evidence for the caps of who owns
 * the domain.
 */
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
    `domain,day,complaint_rate,reputation,delivered\nknown.example,${YESTERDAY},0.02%,high,100\n`,
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

test.each([
  ["without the number that it was taken over", ""],
  ["of next to none of the mail", "3"],
])("a rate %s makes nothing known", async (_, delivered) => {
  const domain = `few${delivered}.example`;
  const ws = await lived(domain);
  const said = await takeInWords(
    `domain,day,complaint_rate,delivered\n${domain},${YESTERDAY},0.02%,${delivered}\n`,
  );
  if (delivered === "") expect(said).toContain("without `delivered`");
  await judge();
  expect(await changeOf(ws)).toMatchObject({ dayAfter: 360 });
});

test("two providers tell of one day, and neither hides the other", async () => {
  const ws = await lived("both.example");
  const head = "domain,day,provider,complaint_rate,reputation,delivered\n";
  await take(`${head}both.example,${YESTERDAY},google,,bad,\n`);
  await take(`${head}both.example,${YESTERDAY},Microsoft,0.01%,high,100\n`);
  await judge();
  expect(await changeOf(ws)).toBeUndefined();
  const { changes } = await line.json<{ changes: string[] }>("caps", "why", "--workspace", ws.id);
  expect(changes[0]).toContain("the reputation of both.example at google is bad");
});

test("a large file is imported whole or not at all", async () => {
  await lived("large.example");
  const row = (n: number) => `large.example,${YESTERDAY},p${n},high`;
  const rows = Array.from({ length: 5_001 }, (_, n) => row(n));
  await api.sql`alter table provider_day add constraint one_fails check (provider <> 'p999')`;
  writeFileSync(file, `domain,day,provider,reputation\n${rows.join("\n")}\n`);
  // in the order of the names, this one is in the second part
  expect((await line.postrider("caps", "evidence", "import", file)).status).toBe(1);
  expect(await api.sql`select from provider_day where domain = 'large.example'`).toHaveLength(0);
  await api.sql`alter table provider_day drop constraint one_fails`;
  expect(
    await take(`\ufeff[{"domain": "large.example", "day": "${YESTERDAY}", "reputation": "high"}]`),
  ).toEqual({
    imported: 1,
    skipped: 0,
    unknown_domains: [],
  });
});

test.each<readonly [string, RegExp]>([
  [
    `domain,day,complaint_rate\nwhole.example,${YESTERDAY},0.1\nwhole.example,soon,0.1\n`,
    /line 3: `day` must be a day/,
  ],
  [`domain,day,rate\n`, /line 1: there is no column `rate`/],
  [`domain,day,complaint_rate\nwhole.example,${YESTERDAY},7\n`, /line 2: `complaint_rate` must be a share/],
  [`domain,day,reputation\nwhole.example,${YESTERDAY},great\n`, /`reputation` must be one of high/],
  [`[{"domain": "whole.example"}]`, /item 1: `day` must be/],
  [`[1,\n {]`, /It is not JSON: .*line 2, column 3\)\. Nothing was imported/],
  [`{"domain": "whole.example"}`, /must be a JSON array/],
  [`[{"domain": "whole.example", "day": "${YESTERDAY}", "complaint_rate": ""}]`, /it needs `complaint_rate`/],
  [
    `[{"domain": "whole.example", "day": "${YESTERDAY}", "complaint_rate": []}]`,
    /must be a text or a number/,
  ],
  [`domain,day,complaint_rate\nwhole.example,2026-02-31,0.1\n`, /line 2: `day` must be a day/],
  [`domain,day,complaint_rate\nwhole.example,0001-01-01,0.1\n`, /more than 400 days ago/],
  [`domain,day,reputation,Day\n`, /two columns `day`/],
  [`[{"domain": "whole.example", "day": "${YESTERDAY}", "Day": "1"}]`, /two columns `day`/],
  [
    `domain,day,reputation\nwhole.example,${YESTERDAY},high\nWHOLE.example,${YESTERDAY},bad\n`,
    /line 3: .*line 2 has the same domain, day and provider/,
  ],
  ["", /has no rows\. Nothing was imported/],
  ["domain,day,reputation\n", /has no rows/],
  ["[]", /has no rows/],
])("a file with a fault is refused with the line, and nothing of it is imported: %j", async (text, said) => {
  const ws = await lived("whole.example");
  writeFileSync(file, text);
  const refused = await line.postrider("caps", "evidence", "import", file);
  expect(refused).toMatchObject({ status: 1, err: expect.stringMatching(said) });
  expect(await api.sql`select from postmaster_day where domain = 'whole.example'`).toHaveLength(0);
  await api.sql`delete from domain where workspace_id = ${ws.id}`;
});

test("a folder is refused", async () => {
  const refused = await line.postrider("caps", "evidence", "import", folder);
  expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("is a folder") });
});

test("domains that nobody has are named and skipped", async () => {
  const other = await take(`domain,day,reputation\nnobody.example,${YESTERDAY},high\n`);
  expect(other).toEqual({ imported: 0, skipped: 1, unknown_domains: ["nobody.example"] });
  const said = await takeInWords(`domain,day,reputation\nnobody.example,${YESTERDAY},high\n`);
  expect(said).toMatch(/^Nothing was imported\.\n1 row was skipped, since no workspace/);
});

function take(text: string): Promise<unknown> {
  writeFileSync(file, text);
  return line.json("caps", "evidence", "import", file);
}

async function takeInWords(text: string): Promise<string> {
  writeFileSync(file, text);
  return (await line.postrider("caps", "evidence", "import", file)).out;
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
