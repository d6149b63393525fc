/**
 * A verified domain is asked about once a day; one that DNS no longer shows lapses after a week, and mail
 * tells.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ownershipName, ownershipText } from "../../src/domain/ownership.ts";
import { findDomain, giveDomain, nameDomain } from "../../src/record/workspaces/domains.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const POLL = { timeout: 20_000, interval: 50 };

let stage: Stage;
let engine: Engine;
let hand: HandKeeper;
const clock = new MovableClock(Date.now());
const records = new Map<string, string[]>();
let asked = 0;
let isSilent = false;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    // nobody answers there: only the keeper at hand asks of a DNS that knows something
    settings: { REQUIRE_VERIFIED_DOMAINS: "true", DNS_SERVERS: "127.0.0.1:9" },
  });
  hand = handKeeper(stage, clock, undefined, {
    askTxt: async (name) => {
      asked++;
      if (isSilent) throw Object.assign(new Error("no answer"), { code: "ETIMEOUT" });
      return (records.get(name) ?? []).map((text) => [text]);
    },
  });
});
afterAll(async () => {
  await Promise.all([engine.stop(), hand.close()]);
  await stage.close();
});
beforeEach(() => {
  isSilent = false;
});

async function give(ws: TestWorkspace, domain: string, from: TestWorkspace | null = null): Promise<void> {
  const now = new Date(clock.now());
  await nameDomain(engine.sql, ws.id, domain, new Date()); // ids of one process only rise
  const change = { to: ws.id, from: from?.id ?? null };
  for (const { handle, version } of (await giveDomain(engine.sql, domain, change, { now, checkAt: now })) ??
    [])
    await engine.keyring.forget(handle, version);
}

const claimOf = async (ws: TestWorkspace, domain: string) =>
  (await findDomain(engine.sql, ws.id, domain)) as NonNullable<Awaited<ReturnType<typeof findDomain>>>;
const sendAs = (ws: TestWorkspace, domain: string, more: object = {}) =>
  ws.client.post<{ id: string } & Refusal>("/emails", mail({ from: `a@${domain}`, ...more }));

test("it holds while DNS shows it or is silent, and lapses when it has shown nothing for a week", async () => {
  const ws = await engine.workspace();
  await give(ws, "again.example");
  const claim = await claimOf(ws, "again.example");
  records.set(ownershipName("again.example"), [ownershipText(claim)]);
  await hand.keeper.domains();
  const before = asked;
  await hand.keeper.domains(); // not due
  expect(asked).toBe(before);

  isSilent = true;
  clock.advance(20 * DAY_MS);
  await hand.keeper.domains();
  expect((await claimOf(ws, "again.example")).missingSince).toBeNull();

  isSilent = false;
  records.clear();
  clock.advance(2 * HOUR_MS);
  await hand.keeper.domains();
  expect((await claimOf(ws, "again.example")).missingSince).not.toBeNull();
  records.set(ownershipName("again.example"), [ownershipText(claim)]);
  clock.advance(2 * HOUR_MS);
  await hand.keeper.domains(); // it was only being moved
  expect((await claimOf(ws, "again.example")).missingSince).toBeNull();

  records.clear();
  clock.advance(2 * DAY_MS);
  await hand.keeper.domains();
  clock.advance(6 * DAY_MS);
  await hand.keeper.domains();
  expect((await sendAs(ws, "again.example")).status).toBe(200);
  clock.advance(2 * DAY_MS);
  await hand.keeper.domains();
  expect((await claimOf(ws, "again.example")).verifiedAt).toBeNull();
  expect((await sendAs(ws, "again.example")).status).toBe(403);
});

test("mail accepted before goes when its domain lapsed, and fails when it is another's", async () => {
  const [ws, next] = [await engine.workspace(), await engine.workspace()];
  for (const domain of ["lapsed.example", "sold.example"]) await give(ws, domain);
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const [lapsed, sold] = [
    (await sendAs(ws, "lapsed.example", { scheduled_at })).body.id,
    (await sendAs(ws, "sold.example", { scheduled_at })).body.id,
  ];
  await engine.sql`update domain set verified_at = null where domain = 'lapsed.example'`;
  await give(next, "sold.example", ws);
  await engine.sql`update due set at = now() where workspace_id = ${ws.id}`;
  const rowOf = async (id: string) =>
    (
      await engine.sql<{ status: string; history: { detail?: string }[] }[]>`
        select status, history from email where id = ${id}`
    )[0];
  await expect.poll(async () => (await rowOf(lapsed))?.status, POLL).toBe("delivered");
  await expect.poll(async () => (await rowOf(sold))?.status, POLL).toBe("failed");
  expect((await rowOf(sold))?.history.at(-1)?.detail).toBe(
    "The domain sold.example belongs to another workspace now.",
  );
});
