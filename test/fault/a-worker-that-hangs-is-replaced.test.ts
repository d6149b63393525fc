// @module-tag one-redis: puts a proxy in front of its Redis
import { expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { PATIENCE_MS } from "../rig/ledger.ts";
import { openProxy } from "../rig/proxy.ts";
import { scrape } from "../rig/scrape.ts";
import { settled } from "../rig/settled.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

/**
 * Of the 10 s it takes 7 where nothing else goes on; a busy machine adds some. Its system would go on for 15
 * minutes.
 */
const BACK_MS_MAX = 20_000;

test("a worker whose connections lead nowhere takes bags again within 10 s", async () => {
  const stage = await openStage();
  const proxy = await openProxy({ port: stage.redis.port });
  const api = await startEngine(["api", "keeper"], stage);
  let worker: Engine | null = null;
  let endHalfOpen = () => {};
  try {
    worker = await startEngine(["deliver"], {
      ...stage,
      redisUrl: `redis://127.0.0.1:${proxy.port}`,
      settings: { METRICS_PORT: "0", STORE_TIMEOUT_MS: "2000" },
    });
    const ws = await api.workspace();
    await ws.client.post("/emails", mail());
    await settled(api.sql, ws.id, PATIENCE_MS);
    // it has nothing in hand, and waits for the next bag
    const info = () => api.redis.info("clients");
    await expect.poll(info, { timeout: PATIENCE_MS }).toContain("blocked_clients:1");
    endHalfOpen = proxy.halfOpen();
    const sentAt = performance.now();
    await ws.client.post("/emails", mail());
    await settled(api.sql, ws.id, 2 * BACK_MS_MAX);
    expect(performance.now() - sentAt).toBeLessThan(BACK_MS_MAX);
    const { value } = await scrape(`http://127.0.0.1:${worker.metricsPort}/metrics`);
    expect(value("postrider_queue_workers_replaced_total")).toBe(1);
  } finally {
    endHalfOpen();
    await worker?.stop();
    await api.stop();
    await proxy.close();
    await stage.close();
  }
});
