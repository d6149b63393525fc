/**
 * Limits on what strangers may try: passwords, codes, and mails that they cause. Counted in Redis, for all
 * processes together. Without Redis nothing may be tried. What was tried is remembered, too, such as a change
 * in the console, which is made once.
 */
import { createHash } from "node:crypto";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";
import { Unavailable } from "./unavailable.ts";

type Remembered = { name: string; spanMs: number };
export type AttemptLimit = { name: string; most: number; spanMs: number };

const attemptScript = loadScript("attempt", ["attempts"], ["most", "span_ms"]);

export class Attempts {
  readonly #redis: RedisClient;

  constructor(redis: RedisClient) {
    this.#redis = redis;
  }

  /** Counts it. Hands back in how many seconds the next one may be made; null: this one may. */
  async count(limit: AttemptLimit, by: string): Promise<number | null> {
    const args = { most: limit.most, span_ms: limit.spanMs };
    const waitMs = Number(
      await this.#answer(attemptScript.run(this.#redis, { attempts: keyOf(limit, by) }, args)),
    );
    return waitMs === 0 ? null : Math.ceil(waitMs / 1000);
  }

  /** One that succeeded: those before it are forgotten. */
  async forget(limit: AttemptLimit, by: string): Promise<void> {
    await this.#answer(this.#redis.del(keyOf(limit, by)));
  }

  /** For so long. Lost with Redis: then it is as if it had not been. */
  async remember(what: Remembered, by: string): Promise<void> {
    await this.#answer(this.#redis.set(keyOf(what, by), "1", "PX", what.spanMs));
  }

  /** Remembers it for so long. false: it was remembered already. */
  async rememberFirst(what: Remembered, by: string): Promise<boolean> {
    return (await this.#answer(this.#redis.set(keyOf(what, by), "1", "PX", what.spanMs, "NX"))) === "OK";
  }

  async remembers(what: Remembered, by: string): Promise<boolean> {
    return (await this.#answer(this.#redis.exists(keyOf(what, by)))) === 1;
  }

  async #answer<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      throw new Unavailable("redis", "Redis did not answer", error);
    }
  }
}

/** Neither the length nor the letters of what strangers write reach Redis. */
function keyOf({ name }: Remembered, by: string): string {
  return keyspace.attempts(`${name}:${createHash("sha256").update(by).digest("base64url")}`);
}
