/**
 * A document of 512 KB may hold 100 e-mails, which took 100 MB once they were parsed, and each version of it
 * as much again. An e-mail is parsed when it is sent, and few are kept.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkDocument, DocumentError } from "../../src/automation/document.ts";
import { Plans } from "../../src/automation/plans.ts";
import { checkOwn } from "../../src/automation/stepemail.ts";
import { newId } from "../../src/ids.ts";
import { type Flows, startFlows } from "../rig/flows.ts";

const VERSIONS = 100;
/** That many documents are 50 MB. */
const HEAP_BYTES_MAX = 200 * 1024 * 1024;
const STEPS = 100;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** What is still there when nothing is left to be collected. */
function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());

function longDocument(piece: string, audienceId: string) {
  const html = piece.repeat(Math.floor(5_000 / piece.length));
  const send = { from: "shop@example.com", subject: "Hello", html };
  return {
    name: "Long",
    audience_id: audienceId,
    event: "signup",
    entry: "every",
    steps: Array.from({ length: STEPS }, () => ({ send })),
  };
}

test("many versions of one are followed, as far as they fit", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ steps: [{ wait: "2d" }] });
  const document = JSON.stringify(longDocument("{{a}}", shop.audienceId));
  await flows.sql`
    insert into automation_version (workspace_id, automation_id, version, document, created_at)
    select ${shop.id}, ${id}, n, ${document}::text::json, now() from generate_series(2, ${VERSIONS + 1}) n`;
  const versions = Array.from({ length: VERSIONS }, (_, n) => ({
    ...{ workspaceId: shop.id, automationId: id, version: n + 2 },
  }));
  const before = heapUsed();
  const planOf = await new Plans(flows.sql).of([
    ...versions,
    { ...versions[0], automationId: newId(0) } as never,
  ]);
  expect(heapUsed() - before).toBeLessThan(HEAP_BYTES_MAX);
  const found = versions.filter((version) => planOf(version) !== null);
  expect(found.length).toBeGreaterThan(VERSIONS / 2);
  expect(found.length).toBeLessThan(VERSIONS);
});

test("runs that had no room go on with the next", async () => {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const id = await shop.automate({ steps: [{ tag: { add: ["a"] } }] });
  const long = { ...longDocument("a", shop.audienceId), steps: [{ tag: { add: ["a"] } }] };
  const padded = JSON.stringify({ ...long, filters: [], name: "x" }) + " ".repeat(500_000);
  await flows.sql`
    insert into automation_version (workspace_id, automation_id, version, document, created_at)
    select ${shop.id}, ${id}, n, ${padded}::text::json, now() from generate_series(2, ${VERSIONS + 1}) n`;
  for (let n = 0; n < VERSIONS; n++) await shop.track("ann@example.net");
  await flows.sql`
    update run r set version = n.version from (
      select id, row_number() over (order by id) + 1 as version from run where workspace_id = ${shop.id}) n
    where r.workspace_id = ${shop.id} and r.id = n.id`;
  await flows.go();
  await flows.go();
  const states = (await shop.runs(id)).map(({ state }) => state);
  expect(states).toEqual(Array(VERSIONS).fill("finished"));
});

test("e-mails that are dear to parse are refused all together", async () => {
  const document = (piece: string) => checkDocument(longDocument(piece, newId(0)));
  await expect(checkOwn(document("{{a}}"))).rejects.toThrow(DocumentError);
  await expect(
    checkOwn(document(`<p>Hello {{ first_name }}, here is what is new.</p>`)),
  ).resolves.toBeUndefined();
});
