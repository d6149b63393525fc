/**
 * lua/admit.lua, remember.lua, revoke.lua, suspend.lua and forget.lua on a real Redis against a plain model
 * of what the contract says: several keys of one workspace, plans and limits that change, suspensions, loads
 * that are in flight while keys are revoked, news that arrive in any order, records that Redis loses, clocks
 * that also step back. A failure names its seed.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { admitScript, rememberScript } from "../../src/admission/admit.ts";
import { forgetScript, revokeScript, suspendScript } from "../../src/admission/keyring.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { services } from "../rig/services.ts";

const SEEDS = 300;
/** The clock steps back over a change of plan: the second ends after the minute. */
const SEED_OF_LATE_SECOND = 3_664;
const STEPS = 120;
const KEYS = 3;
const LIVES_MS = 60_000;
const START = Date.UTC(2026, 11, 31, 23, 58, 30);

/** mulberry32: the same history for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

type Terms = {
  version: number;
  scope: "key" | "workspace";
  perSecond: number;
  perMinute: number;
  isSuspended: boolean;
};
/** What a load has read from the record, on its way to Redis. */
type Load = { key: number; isRevoked: boolean; terms: Terms };
type Window = { start: number; used: number };
type Rates = { s?: Window; m?: Window };
type KeyHeld = { revoked: boolean; until: number };

type Answer =
  | { kind: "miss" | "revoked" }
  | {
      kind: "ok" | "limited";
      version: number;
      limit: number;
      per: string;
      left: number;
      reset: number;
      retry: number;
      isSuspended: boolean;
    };

/** What Redis holds of one workspace, and what it must answer: the contract in a few plain lines. */
class Model {
  bar = 0;
  /** Copies of up to this version are of before a suspension. */
  marked = 0;
  terms: (Terms & { until: number }) | null = null;
  readonly keys = new Map<number, KeyHeld>();
  readonly rates = new Map<number | "workspace", Rates>();

  remember(load: Load, now: number): number {
    if (this.keys.get(load.key)?.revoked) {
      this.#keepTerms(load.terms, now);
      return 0;
    }
    const isOlder = load.terms.version < this.bar;
    this.#keepTerms(load.terms, now);
    if (isOlder && !load.isRevoked) return 2;
    this.keys.set(load.key, { revoked: load.isRevoked, until: now + LIVES_MS });
    return 1;
  }

  #keepTerms(terms: Terms, now: number): void {
    if (terms.version < this.bar) return;
    this.bar = terms.version;
    const isSuspended = terms.isSuspended || terms.version <= this.marked;
    this.terms = { ...terms, isSuspended, until: now + LIVES_MS };
  }

  suspend(version: number): void {
    this.marked = version;
    if (this.terms) this.terms.isSuspended = true;
  }

  revoke(key: number): void {
    this.keys.set(key, { revoked: true, until: 0 });
  }

  forget(version: number): void {
    if (this.bar > version) return;
    this.bar = version;
    this.marked = 0;
    this.terms = null;
  }

  admit(key: number, now: number): Answer {
    const held = this.keys.get(key);
    if (held?.revoked) return { kind: "revoked" };
    const terms = this.terms;
    if (!held || held.until < now || !terms || terms.until < now) return { kind: "miss" };
    const second = this.#window(key, "s", 1_000, now);
    const minute = this.#window(terms.scope === "workspace" ? "workspace" : key, "m", 60_000, now);
    const windows = [
      {
        window: minute.window,
        per: "minute",
        limit: terms.perMinute,
        ends: (minute.window.start + 1) * 60_000,
      },
      {
        window: second.window,
        per: "second",
        limit: terms.perSecond,
        ends: (second.window.start + 1) * 1_000,
      },
    ];
    const full = windows.filter(({ window, limit }) => window.used >= limit);
    if (full.length === 0) {
      second.count();
      minute.count();
    }
    const left = (one: (typeof windows)[number]) => Math.max(0, one.limit - one.window.used);
    const [nearest] = windows.sort((a, b) => left(a) - left(b) || b.ends - a.ends);
    if (!nearest) throw new Error("there are two windows");
    const seconds = (ends: number) => Math.max(1, Math.ceil((ends - now) / 1_000));
    return {
      kind: full.length === 0 ? "ok" : "limited",
      version: terms.version,
      limit: nearest.limit,
      per: nearest.per,
      left: left(nearest),
      reset: seconds(nearest.ends),
      retry: full.length === 0 ? 0 : seconds(Math.max(...full.map(({ ends }) => ends))),
      isSuspended: terms.isSuspended,
    };
  }

  /**
   * The newest window seen, if that is the present or the next one; what was counted in a later one counts in
   * the present. An admitted request counts in it, a refused one leaves no trace.
   */
  #window(owner: number | "workspace", name: "s" | "m", width: number, now: number) {
    const rates = this.rates.get(owner) ?? {};
    this.rates.set(owner, rates);
    const start = Math.floor(now / width);
    const held = rates[name];
    const newest = held && held.start >= start ? held : { start, used: 0 };
    const window = newest.start > start + 1 ? { start, used: newest.used } : newest;
    const count = () => {
      window.used++;
      rates[name] = window;
    };
    return { window, count };
  }
}

const scripts = {
  admit: admitScript,
  remember: rememberScript,
  revoke: revokeScript,
  suspend: suspendScript,
  forget: forgetScript,
};

type Scripts = typeof scripts;
/**
 * What Redis may lose on the way: with its keys alone gone, a revocation still holds; with everything, the
 * record decides.
 */
type Loss = "nothing" | "keys" | "everything";

let redis: Redis;
beforeAll(() => {
  redis = connectRedis(services().redisUrl, "worker", 5_000) as Redis;
});
afterAll(() => redis.disconnect());

/** One history; throws where Redis and the model part, and where something held that had been taken back. */
async function history(
  seed: number,
  loss: Loss,
  { admit, remember, revoke, suspend, forget }: Scripts,
): Promise<void> {
  const random = randomOf(seed);
  const handle = `fuzz${randomUUID().slice(0, 8)}`;
  const hash = (key: number) => `key${key}`;
  const names = (key: number) => ({
    key_record: keyspace.apiKey(handle, hash(key)),
    workspace_record: keyspace.workspace(handle),
  });
  const model = new Model();
  let now = START + random(120_000);
  let terms = someTerms(random, 1);
  /** Every process has been told of this version. */
  let told = 0;
  const revoked = new Set<number>();
  const ended = new Set<number>();
  const loads: Load[] = [];
  /** Steps of changes under way, each list in its own order. */
  const news: (() => Promise<void>)[][] = [];
  const where = (n: number) => `seed ${seed}, ${loss} lost, step ${n}`;

  const tell = (version: number) => async () => {
    await forget.run(redis, names(0), { lives_ms: LIVES_MS, version });
    model.forget(version);
    told = Math.max(told, version);
  };
  const mark = (key: number) => async () => {
    await revoke.run(redis, names(key), { lives_ms: 2 * LIVES_MS });
    model.revoke(key);
  };
  const change = (isSuspended = terms.isSuspended) => {
    terms = { ...someTerms(random, terms.version + 1), isSuspended };
    return terms.version;
  };

  const suspension = () => {
    let version = 0;
    return [
      async () => {
        const marked = { lives_ms: 2 * LIVES_MS, version: terms.version };
        await suspend.run(redis, names(0), marked);
        model.suspend(marked.version);
      },
      async () => {
        version = change(true);
      },
      () => tell(version)(),
    ];
  };

  for (let n = 0; n < STEPS; n++) {
    now += someStep(random);
    const key = random(KEYS);
    switch (random(12)) {
      case 0:
        loads.push({ key, isRevoked: revoked.has(key), terms });
        break;
      case 1:
      case 2: {
        // a miss is followed by a load, and loads land in any order
        const load = loads.splice(random(loads.length), 1)[0] ?? { key, isRevoked: revoked.has(key), terms };
        const reply = await remember.run(redis, names(load.key), {
          now,
          lives_ms: LIVES_MS,
          version: load.terms.version,
          key_state: load.isRevoked ? "revoked" : "active",
          key_id: hash(load.key),
          permissions: 1,
          audiences: "",
          key_stream: "transactional",
          workspace_id: handle,
          plan: load.terms.scope === "workspace" ? "free" : "pro",
          minute_scope: load.terms.scope,
          per_second: load.terms.perSecond,
          per_minute: load.terms.perMinute,
          day_limit: "",
          month_limit: 1,
          cap_day: 1,
          cap_hour: 1,
          streams: "",
          reserved_share: 0.3,
          suspended: load.terms.isSuspended ? "1" : "",
        });
        if (reply !== model.remember(load, now)) throw new Error(`${where(n)}: remember answered ${reply}`);
        break;
      }
      case 3:
        switch (random(6)) {
          case 0:
          case 1:
            news.push([tell(change())]);
            break;
          case 2:
            if (terms.isSuspended) news.push([tell(change(false))]);
            else news.push(suspension());
        }
        break;
      case 4: {
        if (revoked.has(key) || random(4) > 0) break;
        let version = 0;
        news.push([
          mark(key),
          async () => {
            revoked.add(key);
            version = change();
          },
          () => tell(version)(),
          mark(key),
          async () => void ended.add(key),
        ]);
        break;
      }
      case 5: {
        const steps = news[random(news.length)];
        await steps?.shift()?.();
        break;
      }
      case 6:
        if (loss === "nothing" || random(2) === 0) break;
        if (loss === "keys" || random(2) === 0) {
          await redis.del(names(key).key_record);
          model.keys.delete(key);
        } else {
          await redis.del(names(key).workspace_record);
          model.terms = null;
          model.bar = 0;
          model.marked = 0;
        }
        break;
      default: {
        const requests = random(2) === 0 ? 1 : 1 + random(5);
        const reply = await admit.run(
          redis,
          {
            ...names(key),
            key_rates: keyspace.keyRates(handle, hash(key)),
            workspace_rates: keyspace.workspaceRates(handle),
          },
          { now, requests },
        );
        const expected = Array.from({ length: requests }, () => model.admit(key, now));
        const answers = read(reply as AdmitReply, requests);
        if (JSON.stringify(answers) !== JSON.stringify(expected))
          throw new Error(`${where(n)}: ${JSON.stringify(answers)} instead of ${JSON.stringify(expected)}`);
        const [answer] = answers;
        if (loss === "everything" || !answer || !("version" in answer)) break;
        if (ended.has(key)) throw new Error(`${where(n)}: a revoked key was admitted`);
        if (answer.version < told) throw new Error(`${where(n)}: version ${answer.version} after ${told}`);
      }
    }
  }
}

type AdmitReply = ["miss" | "revoked"] | ["known", ...(string | number)[]];

/** What each of the requests is told, in their order. */
function read([kind, ...rest]: AdmitReply, requests: number): Answer[] {
  if (kind !== "known") return Array.from({ length: requests }, () => ({ kind }));
  type Numbers = [number, number, number, number, number, number];
  const [version, admitted, limit, left, reset, retry] = rest.slice(5, 11).map(Number) as Numbers;
  const isSuspended = rest[11] === "1";
  const per = String(rest[14]);
  return Array.from({ length: requests }, (_, place) =>
    place < admitted
      ? { kind: "ok", version, limit, per, left: left + admitted - place - 1, reset, retry: 0, isSuspended }
      : { kind: "limited", version, limit, per, left, reset, retry, isSuspended },
  );
}

function someTerms(random: (below: number) => number, version: number): Terms {
  return {
    version,
    scope: random(3) === 0 ? "workspace" : "key",
    perSecond: 1 + random(6),
    perMinute: 1 + random(20),
    isSuspended: false,
  };
}

function someStep(random: (below: number) => number): number {
  const steps = [
    0,
    0,
    0,
    random(300),
    random(1_500),
    -random(2_000),
    random(20_000),
    random(90) === 0 ? 100_000 : 0,
    random(40) === 0 ? -random(300_000) : 0,
  ];
  return steps[random(steps.length)] as number;
}

describe("admission on Redis is what the contract says", () => {
  const seeds = [...Array.from({ length: SEEDS }, (_, n) => n + 1), SEED_OF_LATE_SECOND];

  test.each<Loss>(["nothing", "keys", "everything"])("with %s lost", async (loss) => {
    for (const seed of seeds) await history(seed, loss, scripts);
  });

  /** The same script with one line of it left out. */
  const without = (name: keyof Scripts, line: string): Scripts => {
    const { source } = scripts[name];
    expect(source).toContain(line);
    const maimed = source.replace(line, "");
    const script = {
      ...scripts[name],
      run: (
        client: RedisClient,
        keys: Record<string, string>,
        args: Record<string, string | number | Buffer>,
      ) => client.eval(maimed, Object.keys(keys).length, ...Object.values(keys), ...Object.values(args)),
    };
    return { ...scripts, [name]: script };
  };

  test.each([
    ["admit", "    used = tonumber(stored[2])"],
    ["admit", "  count(second, admitted)"],
    ["remember", "if held[1] and tonumber(held[1]) > version and key_state ~= 'revoked' then return 2 end"],
    ["remember", "if redis.call('HGET', key_record, 'state') == 'revoked' then return 0 end"],
    ["remember", "if held[2] and tonumber(held[2]) >= version then suspended = '1' end"],
    ["forget", "redis.call('HSET', workspace_record, 'version', version)"],
  ] as const)("and a %s without `%s` is caught", async (name, line) => {
    const run = async () => {
      for (const seed of seeds) await history(seed, "keys", without(name, line));
    };
    await expect(run()).rejects.toThrow(/seed/);
  });
});
