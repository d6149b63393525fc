// @module-tag one-redis: puts a proxy in front of its Redis
import { expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { openProxy } from "../rig/proxy.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

test("an api whose connections to Redis lead nowhere answers 503, and sends again within 10 s", async () => {
  const stage = await openStage();
  const proxy = await openProxy({ port: stage.redis.port });
  const api = await startEngine(["api"], {
    ...stage,
    redisUrl: `redis://127.0.0.1:${proxy.port}`,
    settings: { STORE_TIMEOUT_MS: "2000" },
  });
  let endHalfOpen = () => {};
  try {
    const ws = await api.workspace();
    const send = async () => (await ws.client.post("/emails", mail())).status;
    await expect.poll(send).toBe(200);
    endHalfOpen = proxy.halfOpen();
    expect(await send()).toBe(503);
    await expect.poll(send, { timeout: 10_000 }).toBe(200);
  } finally {
    endHalfOpen();
    await api.stop();
    await proxy.close();
    await stage.close();
  }
});
