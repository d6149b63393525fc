/**
 * lua/reserve.lua, refund.lua and restore.lua on a real Redis against the ledger model, and the ledger model
 * against a count of every grant by hand. Random clocks (also backwards, over days and months), limits,
 * batches, streams.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Asked, Reservations } from "../../src/admission/reserve.ts";
import type { Clock } from "../../src/clock.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import type { Account } from "../../src/record/workspaces/ledgers.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import {
  type Allowance,
  addWaiting,
  advance,
  bulkPart,
  charge,
  emptyLedger,
  HOUR_BUCKETS,
  judge,
  type Ledger,
  take,
  waitingStreams,
} from "../../src/rules/ledger.ts";
import {
  BULK_STREAM,
  limitsText,
  type MailStream,
  nameOfStream,
  type StreamLimits,
  TRANSACTIONAL_STREAM,
} from "../../src/rules/stream.ts";
import { services } from "../rig/services.ts";

const DAY_MS = 86_400_000;
const BUCKET_MS = 300_000;
const START = Date.UTC(2027, 11, 30, 22); // two nights before a year turns

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

type Random = ReturnType<typeof randomOf>;

/** Of each kind one that has a share of its own and may be held back; half of all workspaces have none. */
function someStreams(random: Random): StreamLimits | undefined {
  if (random(2) === 0) return undefined;
  const most = () => [1, 1, 0.4, 0][random(4)] as number;
  return {
    news: { bulk: true, reserved: random(3) / 10, most: most() },
    codes: { bulk: false, reserved: random(3) / 10, most: most() },
    ...(random(2) === 0 && { bulk: { bulk: true, reserved: 0, most: most() } }),
  };
}

const BUILT_IN: readonly MailStream[] = [TRANSACTIONAL_STREAM, TRANSACTIONAL_STREAM, BULK_STREAM];
const ALL_STREAMS: readonly MailStream[] = [
  ...BUILT_IN,
  { bulk: true, stream: "news" },
  { bulk: false, stream: "codes" },
];

function someStream(random: Random, { streams }: Allowance): MailStream {
  const all = streams === undefined ? BUILT_IN : ALL_STREAMS;
  return all[random(all.length)] as MailStream;
}

function someAllowance(random: Random): Allowance {
  return {
    streams: someStreams(random),
    dayLimit: random(3) === 0 ? null : 50 + random(400),
    monthLimit: 100 + random(1_500),
    capDay: 50 + random(400),
    capHour: 50 + random(150),
    reservedShare: random(2) === 0 ? 0.3 : 0.75,
  };
}

function step(random: Random, now: number): number {
  const kinds = [
    0,
    0,
    1_000,
    BUCKET_MS,
    random(2 * 3_600_000),
    -random(2 * BUCKET_MS),
    -random(2 * DAY_MS),
    random(DAY_MS),
    random(40 * DAY_MS),
  ];
  return now + (kinds[random(kinds.length)] as number);
}

const someWeights = (random: Random): number[] =>
  Array.from({ length: random(12) }, () => (random(4) === 0 ? 1 + random(50) : 1));

/** A workspace that Redis and a ledger of ours know alike. */
async function newWorkspace(random: Random, clock: Clock) {
  const handle = `fuzz${randomUUID().slice(0, 8)}`;
  const allowance = someAllowance(random);
  const reservations = new Reservations(redis, null as unknown as Sql, clock);
  const ledger: Ledger = emptyLedger();
  advance(ledger, clock.now());
  const account = { handle, ledger, allowance } as Account;
  await redis.hset(keyspace.workspace(handle), {
    until: START + 400 * DAY_MS,
    day_limit: allowance.dayLimit ?? "",
    month_limit: allowance.monthLimit,
    cap_day: allowance.capDay,
    cap_hour: allowance.capHour,
    reserved_share: allowance.reservedShare,
    streams: limitsText(allowance.streams),
  });
  let epoch = "";
  /** Tells Redis what the ledger says. */
  const restore = async () => {
    await reservations.restore(account, epoch);
    epoch = (await redis.hget(keyspace.use(handle), "epoch")) as string;
  };
  await restore();
  return { handle, allowance, ledger, reservations, restore };
}

let redis: Redis;
beforeAll(async () => {
  redis = connectRedis(services().redisUrl, "worker", 5_000) as Redis;
});
afterAll(() => redis.disconnect());

describe("the scripts and the ledger", () => {
  test.each(Array.from({ length: 60 }, (_, n) => n + 1))("decide the same, seed %i", async (seed) => {
    const random = randomOf(seed);
    let now = START;
    const clock = { now: () => now, given: () => now };
    const { handle, allowance, ledger, reservations, restore } = await newWorkspace(random, clock);

    for (let n = 0; n < 60; n++) {
      now = step(random, now);
      if (random(15) === 0) {
        await redis.del(keyspace.use(handle));
        await restore();
      }
      const stream = someStream(random, allowance);
      const countsDay = random(3) > 0;
      const weights = someWeights(random);
      const counted = weights.length + random(3);
      const asked: Asked = {
        ...stream,
        reservationId: `${seed}-${n}`,
        handle,
        workspaceId: "",
        counted,
        countsDay,
        weights,
        isWhole: true,
        claim: null,
      };
      const before = structuredClone(ledger);
      advance(ledger, now);
      // only the ledger comes back from the future; Redis hears of it when its counters are rebuilt
      if (ledger.bucket < before.bucket) await restore();
      const verdict = judge(ledger, allowance, { ...stream, counted, countsDay, weights });
      const grant = await reservations.reserve(asked, async () => {});
      const where = `seed ${seed}, step ${n}`;
      if (verdict.kind === "over") {
        expect(grant.kind, where).toBe("over");
        continue;
      }
      expect(grant, where).toMatchObject({ kind: "granted", go: verdict.go });
      expect(await reservations.reserve(asked, async () => {}), `${where}, again`).toEqual(grant);
      if (random(4) === 0) {
        // rolled back: the same windows are as they were before, and a second refund changes nothing
        await reservations.refund(asked, { isShared: false });
        await reservations.refund(asked, { isShared: false });
        Object.assign(ledger, before);
        advance(ledger, now);
      } else if (verdict.go < weights.length) {
        await restore(); // what waits now is told to Redis
      }
      if (random(10) === 0) {
        ledger.waiting = ledger.waitingBulk = 0;
        for (const use of Object.values(ledger.streams)) use.waiting = 0; // the keeper let everything out or it was canceled
        await restore();
      }
    }
    const stored = await redis.hgetall(keyspace.use(handle));
    for (const [field, value] of Object.entries(stored))
      if (field !== "epoch") expect(Number(value), field).toBeGreaterThanOrEqual(0);
  });

  test.each(Array.from({ length: 60 }, (_, n) => n + 1))(
    "decide the same of requests that come in one turn, seed %i",
    async (seed) => {
      const random = randomOf(seed);
      let now = START;
      const clock = { now: () => now, given: () => now };
      const { handle, allowance, ledger, reservations, restore } = await newWorkspace(random, clock);

      for (let n = 0; n < 30; n++) {
        now = step(random, now);
        advance(ledger, now);
        await restore();
        const group = Array.from({ length: 1 + random(5) }, (_, place): Asked => {
          const weights = someWeights(random);
          const counted = weights.length + random(3);
          const reservationId = `${seed}-${n}-${place}`;
          const asked = { reservationId, handle, workspaceId: "", counted, countsDay: true, weights };
          return { ...TRANSACTIONAL_STREAM, ...asked, isWhole: true, claim: null };
        });
        const grants = await Promise.all(
          group.map((asked) => reservations.reserveInTurn(asked, async () => {})),
        );
        const verdicts = group.map(({ counted, weights }) =>
          judge(ledger, allowance, { ...TRANSACTIONAL_STREAM, counted, countsDay: true, weights }),
        );
        const where = `seed ${seed}, step ${n}`;
        // when one has to wait, the ledger lets those after it wait too; Redis hears of that with the next
        // restore
        const isFull = verdicts.some((verdict) => verdict.kind === "over");
        for (const [place, grant] of grants.entries()) {
          const verdict = verdicts[place] as (typeof verdicts)[number];
          if (isFull) expect(grant.kind === "over", where).toBe(verdict.kind === "over");
          else
            expect(grant, where).toMatchObject({
              kind: "granted",
              go: (verdict as { go: number }).go,
              isShared: group.length > 1,
            });
        }
        const [first] = grants;
        if (first?.kind === "granted" && first.isShared && random(4) === 0) {
          await reservations.refund(group[0] as Asked, first);
          expect(await redis.exists(keyspace.use(handle)), `${where}: the counters are rebuilt`).toBe(0);
        }
        if (random(5) === 0) ledger.waiting = 0;
      }
    },
  );

  test.each([TRANSACTIONAL_STREAM, BULK_STREAM])("know nothing of a deleted stream: %o", async (stream) => {
    const clock = { now: () => START, given: () => START };
    const { handle, allowance, ledger, reservations, restore } = await newWorkspace(randomOf(1), clock);
    const streams = { bulk: { bulk: true, reserved: 0, most: 0.4 } };
    Object.assign(allowance, { dayLimit: null, monthLimit: 1_000, capDay: 200, capHour: 200, streams });
    await redis.hset(keyspace.workspace(handle), {
      ...{
        day_limit: "",
        month_limit: 1_000,
        cap_day: 200,
        cap_hour: 200,
        reserved_share: allowance.reservedShare,
      },
      streams: limitsText(streams),
    });
    const gone = { ...stream, stream: "gone" };
    charge(ledger, gone, 45);
    addWaiting(ledger, gone, 5);
    await restore();
    const weights = new Array<number>(50).fill(1);
    const asked = {
      ...stream,
      reservationId: "one",
      handle,
      workspaceId: "",
      counted: 50,
      countsDay: true,
      weights,
    };
    const verdict = judge(ledger, allowance, { ...stream, counted: 50, countsDay: true, weights });
    const grant = await reservations.reserve({ ...asked, isWhole: true, claim: null }, async () => {});
    expect(verdict).toMatchObject({ go: stream.bulk ? 5 : 50 });
    expect(grant).toMatchObject({ go: stream.bulk ? 5 : 50 });
  });

  test("know the same months, for every day of 130 years", async () => {
    const source = `local day = tonumber(ARGV[1]) ${(await import("node:fs")).readFileSync(
      new URL("../../lua/include/windows.lua", import.meta.url),
      "utf8",
    )}
      local months = {} for d = 0, tonumber(ARGV[1]) do months[#months + 1] = month_of(d) end return months`;
    const days = 130 * 366;
    const months = (await redis.eval(source, 0, days)) as number[];
    months.forEach((month, day) => {
      const date = new Date(day * DAY_MS);
      if (month !== date.getUTCFullYear() * 12 + date.getUTCMonth())
        throw new Error(`day ${day} is not in month ${month}`);
    });
    expect(months).toHaveLength(days + 1);
  });
});

type Given = MailStream & { bucket: number; day: number; weight: number };
type Mail = MailStream & { weight: number };
type Rules = { take: typeof take };

/**
 * A history of requests and releases; throws when a window held more than its cap, or mail waits beside free
 * room.
 */
function history(seed: number, rules: Rules): void {
  const random = randomOf(seed);
  const allowance = { ...someAllowance(random), dayLimit: null, monthLimit: 1_000_000 };
  const ledger = emptyLedger();
  let now = START;
  let newest = now;
  const given: Given[] = [];
  let waiting: Mail[] = [];
  const note = (mails: readonly Mail[]) => {
    for (const mail of mails) given.push({ ...mail, bucket: ledger.bucket, day: ledger.day });
  };
  const release = () => {
    for (const stream of waitingStreams(ledger)) {
      const isOf = (mail: Mail) => mail.bulk === stream.bulk && mail.stream === stream.stream;
      const queue = waiting.filter(isOf);
      const count = rules.take(
        ledger,
        allowance,
        stream,
        queue.map((mail) => mail.weight),
      );
      note(queue.slice(0, count));
      waiting = [...waiting.filter((mail) => !isOf(mail)), ...queue.slice(count)];
      addWaiting(ledger, stream, -count);
    }
  };
  for (let n = 0; n < 25; n++) {
    // further back, windows are no longer those of the clock, and cannot be counted by hand
    now = Math.max(step(random, now), newest - 2 * BUCKET_MS);
    newest = Math.max(newest, now);
    advance(ledger, now);
    if (random(3) === 0) release();
    else {
      const stream = someStream(random, allowance);
      const mails = someWeights(random).map((weight) => ({ ...stream, weight }));
      const verdict = judge(ledger, allowance, {
        ...stream,
        counted: 0,
        countsDay: false,
        weights: mails.map((mail) => mail.weight),
      });
      if (verdict.kind === "over") throw new Error("there is no quota to be over");
      note(mails.slice(0, verdict.go));
      waiting.push(...mails.slice(verdict.go));
    }
  }
  release();
  check(given, allowance, seed);
  for (const { bulk, stream } of ALL_STREAMS) {
    const first = waiting.find((mail) => mail.bulk === bulk && mail.stream === stream);
    if (first && rules.take(structuredClone(ledger), allowance, first, [first.weight]) === 1)
      throw new Error(`seed ${seed}: mail waits beside free room`);
  }
}

/** Every window that any grant lies in, counted from the grants alone. */
function check(
  given: readonly Given[],
  { capDay, capHour, reservedShare, streams }: Allowance,
  seed: number,
): void {
  const total = (some: readonly Given[]) => some.reduce((sum, one) => sum + one.weight, 0);
  for (const { bucket, day } of given) {
    const hour = given.filter((one) => one.bucket <= bucket && one.bucket > bucket - HOUR_BUCKETS);
    const whole = given.filter((one) => one.day === day);
    const windows: [string, readonly Given[], number][] = [
      ["hour", hour, capHour],
      ["day", whole, capDay],
      ["bulk hour", hour.filter((one) => one.bulk), bulkPart(capHour, reservedShare)],
      ["bulk day", whole.filter((one) => one.bulk), bulkPart(capDay, reservedShare)],
    ];
    for (const [name, { most }] of Object.entries(streams ?? {})) {
      const isOf = (one: Given) => nameOfStream(one) === name;
      windows.push([`hour of ${name}`, hour.filter(isOf), bulkPart(capHour, 1 - most)]);
      windows.push([`day of ${name}`, whole.filter(isOf), bulkPart(capDay, 1 - most)]);
    }
    for (const [name, some, cap] of windows)
      if (total(some) > cap)
        throw new Error(`seed ${seed}: ${total(some)} in the ${name} of a cap of ${cap}`);
  }
}

describe("the ledger, counted by hand", () => {
  test("never lets out more than a cap, nor leaves mail beside free room, in 10,000 histories", () => {
    for (let seed = 1; seed <= 10_000; seed++) history(seed, { take });
  });

  test("and a ledger that forgets the bucket before would be caught", () => {
    const forgetful: typeof take = (ledger, allowance, stream, weights) => {
      const slot = ledger.bucket % HOUR_BUCKETS;
      ledger.hourUsed = ledger.hourUsed.map((used, n) => (n === slot ? used : 0));
      return take(ledger, allowance, stream, weights);
    };
    expect(() => {
      for (let seed = 1; seed <= 10_000; seed++) history(seed, { take: forgetful });
    }).toThrow(/in the (bulk )?hour/);
  });

  test("a grant counts in its day and its bucket", () => {
    const ledger = emptyLedger();
    advance(ledger, START);
    charge(ledger, BULK_STREAM, 7);
    expect([ledger.capDayUsed, ledger.capDayBulk, ledger.hourUsed[ledger.bucket % HOUR_BUCKETS]]).toEqual([
      7, 7, 7,
    ]);
  });
});
