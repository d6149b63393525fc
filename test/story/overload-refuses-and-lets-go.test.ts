import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { freeBytesOf, type OverloadLimits, watchOverload } from "../../src/record/mail/overload.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { services } from "../rig/services.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

const NO_LIMITS: OverloadLimits = { backlogMax: 1_000_000, diskFreeMinBytes: 0, dataFolder: null };
const MINUTE_MS = 60_000;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
});
beforeEach(async () => {
  await engine.sql`delete from brake`;
  await engine.sql`delete from bag`;
  await vi.waitUntil(async () => (await send()) === 200, WAIT);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

/**
 * Statistics come up to ten seconds after the change (an idle backend's), and each api looks every second.
 */
const WAIT = { timeout: 25_000 };
const send = async () => (await ws.client.post("/emails", mail())).status;
const watch = (limits: Partial<OverloadLimits>, now = new Date()) =>
  freeBytesOf({ ...NO_LIMITS, ...limits }).then((free) =>
    engine.sql.begin((tx) => watchOverload(tx, { ...NO_LIMITS, ...limits }, free, now)),
  );
const reasons = async () =>
  (await engine.sql<{ reason: string }[]>`select reason from brake`).map((row) => row.reason);

test("beyond the backlog sends are 503, everything else is served; when it is gone sends go again", async () => {
  await ws.client.post("/emails/batch", Array(100).fill(mail()));
  await vi.waitUntil(async () => {
    await watch({ backlogMax: 100 });
    return (await reasons()).length > 0;
  }, WAIT);
  await vi.waitUntil(async () => (await send()) === 503, WAIT);
  const refused = await ws.client.post<Refusal>("/emails/batch", [mail()]);
  expect(refused.body).toEqual({
    statusCode: 503,
    name: "service_unavailable",
    message: "The sending backlog is full. Try again in 1 second.",
  });
  const listed = await ws.client.get<{ data: { id: string }[] }>("/emails");
  expect(listed.status).toBe(200);
  expect((await ws.client.get(`/emails/${listed.body.data[0]?.id}`)).status).toBe(200);
  const before = await used();
  await send();
  expect(await used(), "a refused send costs nothing").toBe(before);

  await engine.sql`delete from bag`;
  await vi.waitUntil(async () => {
    await watch({ backlogMax: 100 });
    return (await reasons()).length === 0;
  }, WAIT);
  await vi.waitUntil(async () => (await send()) === 200, WAIT);
});

test("the backlog is counted in e-mails: a hundred single sends are not a hundred full bags", async () => {
  for (let n = 0; n < 100; n++) expect(await send()).toBe(200);
  await vi.waitUntil(async () => {
    await watch({ backlogMax: 50 });
    return (await reasons()).length > 0;
  }, WAIT);
  const about = Number(/about (\d+) e-mails/.exec((await reasons())[0] as string)?.[1]);
  expect(about).toBeGreaterThan(50);
  expect(about).toBeLessThan(300);
});

test("a disk that fills refuses sends, and one with room lets them go", async () => {
  const dataFolder = services().folder;
  await watch({ dataFolder, diskFreeMinBytes: Number.MAX_SAFE_INTEGER });
  expect(await reasons()).toEqual([expect.stringMatching(/^only \d+ MB of disk are free$/)]);
  await vi.waitUntil(async () => (await send()) === 503, WAIT);
  expect((await ws.client.post<Refusal>("/emails", mail())).body).toMatchObject({
    name: "service_unavailable",
    message: "The disk of the database is nearly full. Try again in 1 second.",
  });
  await watch({ dataFolder, diskFreeMinBytes: 1 });
  await vi.waitUntil(async () => (await send()) === 200, WAIT);
});

test("a disk that nobody watches any more does not refuse for ever, nor is another's watch overruled", async () => {
  const now = Date.now();
  const watched = { dataFolder: services().folder, diskFreeMinBytes: Number.MAX_SAFE_INTEGER };
  await watch(watched, new Date(now));
  await watch(watched, new Date(now + MINUTE_MS));
  await watch({}, new Date(now + MINUTE_MS + 1_000));
  expect(await reasons(), "it was said again a second ago").toHaveLength(1);
  await watch({}, new Date(now + 2 * MINUTE_MS + 1_000));
  expect(await reasons()).toEqual([]);
});

async function used(): Promise<number> {
  const [row] = await engine.sql`select month_used from ledger where workspace_id = ${ws.id}`;
  return row?.month_used as number;
}
