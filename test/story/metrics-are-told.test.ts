import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { mail } from "../rig/workspace.ts";

/** Of a shared one, only the workspaces where most waits would be told of. */
let database: OwnDatabase;
let engine: Engine;
let port: number;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine(["api"], {
    databaseUrl: database.url,
    settings: { METRICS_PORT: "0" },
  });
  port = engine.metricsPort as number;
});
afterAll(async () => {
  await engine.stop();
  await database.drop();
});

test("caps, what waits for them and the process, in the words of Prometheus", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 50, cap_day: 60 });
  await ws.client.post("/emails/batch", Array(70).fill(mail()));
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(response.headers.get("content-type")).toContain("text/plain");
  const text = await response.text();
  expect(text).toContain(`postrider_cap{workspace="${ws.id}",window="day"} 60`);
  expect(text).toContain(`postrider_cap{workspace="${ws.id}",window="hour"} 50`);
  expect(text).toContain(`postrider_cap_used{workspace="${ws.id}"} 50`);
  expect(text).toContain(`postrider_waiting{workspace="${ws.id}"} 20`);
  expect(text).toMatch(/postrider_waiting_total [1-9]/);
  expect(text).toMatch(/postrider_waiting_total_oldest_seconds \d/);
  for (const level of ["normal", "frozen", "shrunk", "paused", "probing"]) {
    expect(text).toMatch(new RegExp(`postrider_caps_level\\{level="${level}"\\} \\d`));
    expect(text).toMatch(new RegExp(`postrider_caps_changed_today\\{level="${level}"\\} \\d`));
  }
  expect(text).toMatch(/postrider_caps_policy_version \d/);
  expect(text).toContain("postrider_caps_policy_refused 0");
  expect(text).toContain("process_cpu_seconds_total");
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404);
});
