/**
 * Redis came back with a part of the queue: jobs that stand in no line, or a line of jobs that are gone. The
 * epoch is as it was, so that only a look at each bag finds them.
 */
import { expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import { startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const LINE = "bull:{bags-0}:prioritized";
const EMAILS = 5;

test.each([
  ["the line", () => [LINE]],
  ["the jobs", (ids: string[]) => ids.map((id) => `bull:{bags-0}:${id}`)],
  ["the line and its marker", () => [LINE, "bull:{bags-0}:pc", "bull:{bags-0}:marker"]],
])(
  "%s",
  async (_, lost) => {
    const stage = await openStage();
    const redis = connectRedis(stage.redisUrl, "command", 20_000);
    const api = await startEngine(["api", "keeper"], stage);
    try {
      const ws = await api.workspace();
      for (let n = 0; n < EMAILS; n++) await ws.client.post("/emails", mail());
      await expect.poll(() => redis.zcard(LINE)).toBe(EMAILS);
      await redis.del(lost(await redis.zrange(LINE, "0", "-1")));
      const worker = await startEngine(["deliver"], stage);
      expect(await settled(api.sql, ws.id, 30_000)).toEqual({ delivered: EMAILS });
      await worker.stop();
      expect([...worker.complaints, ...api.complaints]).toEqual([]);
      expect(stage.sink.ledger.mails.length).toBe(EMAILS);
    } finally {
      redis.disconnect();
      await api.stop();
      await stage.close();
    }
  },
  120_000,
);
