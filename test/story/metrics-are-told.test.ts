import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { mail } from "../rig/workspace.ts";

let engine: Engine;
let port: number;
beforeAll(async () => {
  port = await freePort("127.0.0.1");
  engine = await startEngine(["api"], { settings: { METRICS_PORT: String(port) } });
});
afterAll(() => engine.stop());

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
  expect(text).toContain("process_cpu_seconds_total");
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404);
});
