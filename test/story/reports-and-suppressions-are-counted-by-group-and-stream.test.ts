/**
 * Metrics tell complaints, later bounces and suppressed recipients by the provider that took the mail and by
 * its stream.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ShapingRules } from "../../src/shaping/file.ts";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { scrape } from "../rig/scrape.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const RULES: ShapingRules = { providers: { big: { mx: ["mx.big.test"] } }, rules: [] };
const PATIENCE = { timeout: 20_000 };
const REPORTS = "postrider_reports_total";
const SUPPRESSED = "postrider_recipients_suppressed_total";

let stage: Stage;
let world: World;
let folder: string;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  world = await openWorld();
  world.name({
    "big.example": { mx: [[10, "mx.big.test"]] },
    "small.example": { mx: [[10, "mx.small.test"]] },
    "mx.big.test": { addresses: ["127.1.0.1"] },
    "mx.small.test": { addresses: ["127.1.0.2"] },
  });
  await Promise.all([world.sinkAt("127.1.0.1"), world.sinkAt("127.1.0.2")]);
  folder = mkdtempSync(join(tmpdir(), "shaping-"));
  const file = join(folder, "shaping.json");
  writeFileSync(file, JSON.stringify(RULES));
  const settings = { ...world.settings, SHAPING_FILE: file, METRICS_PORT: "0" };
  engine = await startEngine(["api", "keeper", "deliver"], { ...stage, smtpUrl: "", settings });
  ws = await engine.workspace("pro");
});
afterAll(async () => {
  expect(engine.complaints).toEqual([]);
  await engine.stop();
  await world.end();
  await stage.close();
  rmSync(folder, { recursive: true });
});

async function send(to: string, stream: string, more = {}): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ to, stream, ...more }));
  expect(status).toBe(200);
  return body.id;
}

async function comesTo(id: string, wanted: string): Promise<void> {
  const status = async () => (await ws.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(status, PATIENCE).toBe(wanted);
}

/** How often each was counted, as the metrics tell when they tell all of it. */
async function counted(name: string, wanted: [labels: Record<string, string>, n: number][]): Promise<void> {
  const told = async () => {
    const { value } = await scrape(`http://127.0.0.1:${engine.metricsPort}/metrics`);
    return wanted.map(([labels]) => value(name, labels));
  };
  await expect.poll(told, PATIENCE).toEqual(wanted.map(([, n]) => n));
}

test("reports, by who had taken the mail; one that changes nothing has no group", async () => {
  const [big, other] = [await send("a@big.example", "bulk"), await send("b@small.example", "transactional")];
  await Promise.all([comesTo(big, "delivered"), comesTo(other, "delivered")]);
  const complaint = { email_id: big, type: "complaint" };
  for (let n = 0; n < 2; n++) {
    await ws.client.post("/feedback", [complaint]);
    await comesTo(big, "complained");
  }
  await ws.client.post("/feedback", [{ email_id: other, type: "bounce", category: "block" }]);
  await comesTo(other, "bounced");
  await counted(REPORTS, [
    [{ group: "big", stream: "bulk", result: "complained" }, 1],
    [{ group: "other", stream: "transactional", result: "bounced" }, 1],
    [{ group: "none", stream: "none", result: "ignored" }, 1],
    [{}, 3],
  ]);
});

test("suppressed recipients, by where their mail was to go", async () => {
  for (const email of ["gone@big.example", "gone@small.example"])
    expect((await ws.client.post("/suppressions", { email })).status).toBe(201);
  await comesTo(await send("gone@big.example", "bulk"), "suppressed");
  await comesTo(await send("gone@small.example", "transactional"), "suppressed");
  const later = await send("later@big.example", "bulk", { scheduled_at: "in 1 hour" });
  expect((await ws.client.post("/suppressions", { email: "later@big.example" })).status).toBe(201);
  await ws.client.call("PATCH", `/emails/${later}`, { scheduled_at: "in 1 second" });
  await comesTo(later, "suppressed");
  await counted(SUPPRESSED, [
    [{ group: "none", stream: "bulk", when: "accepted" }, 1],
    [{ group: "none", stream: "transactional", when: "accepted" }, 1],
    [{ group: "big", stream: "bulk", when: "sent" }, 1],
    [{}, 3],
  ]);
});
