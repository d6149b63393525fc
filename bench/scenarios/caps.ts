/**
 * caps: what caps cost. `--waiting` e-mails (100,000) that wait for a full cap are let go by raising it,
 * until the last one is delivered, beside as many that may go at once; and what one call of reserve.lua costs
 * Redis when every window and every slot of the hour is in use, by Redis' own count.
 */
import { Reservations } from "../../src/admission/reserve.ts";
import { newId } from "../../src/ids.ts";
import { expectReleaseNow } from "../../src/record/workspaces/ledgers.ts";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { TRANSACTIONAL_STREAM } from "../../src/rules/stream.ts";
import { figure } from "../figure.ts";
import type { Bench } from "../machine.ts";
import { BATCH_EMAILS } from "../mails.ts";
import { prefill } from "../prefill.ts";
import type { Run, Scenario } from "../scenario.ts";
import { until } from "../until.ts";
import { delivered, waitOfOne } from "./deliver.ts";

const FULL = { cap_hour: 50, cap_day: 50 };
const OPEN = { cap_hour: 2_000_000_000, cap_day: 2_000_000_000 };
const WINDOWS_IN_USE = { emails_per_day: 1_000_000_000, ...OPEN };
const WARMUP_EMAILS = 10_000;
const CALLS = 5_000;
const CALLS_AT_ONCE = 20;
const YEAR_MS = 365 * 86_400_000;

/** E-mails per second until the last one. */
async function rateUntil(bench: Bench, count: number, already: number, { tell }: Run): Promise<number> {
  const began = performance.now();
  await until("everything was delivered", async () => {
    const done = (await delivered(bench)) - already;
    tell(`${done} of ${count} delivered`);
    return done >= count;
  });
  return count / ((performance.now() - began) / 1000);
}

async function released(bench: Bench, run: Run, count: number): Promise<number> {
  const { id } = await bench.workspace(FULL);
  await prefill(bench, run, [id], count, "waiting");
  await bench.sql`
    update ledger set waiting = ${count}, next_release_at = ${new Date(Date.now() + YEAR_MS)} where workspace_id = ${id}`;
  const already = await delivered(bench);
  await bench.keyring.changeWorkspace(id, { limits: OPEN });
  await expectReleaseNow(bench.sql, id, new Date());
  return rateUntil(bench, count, already, run);
}

/**
 * What may go at once lies in the record until a keeper comes; the workers are warm, as they are in the other
 * case.
 */
async function plain(bench: Bench, run: Run, count: number): Promise<number> {
  const { id } = await bench.workspace();
  await bench.role("deliver");
  const warming = await bench.role("keeper");
  await prefill(bench, run, [id], WARMUP_EMAILS);
  await until("the warm-up was delivered", async () => (await delivered(bench)) >= WARMUP_EMAILS);
  await warming.stop();
  await prefill(bench, run, [id], count);
  const already = await delivered(bench);
  await bench.role("keeper");
  // a keeper's own start is nobody's rate
  await until("the first bag was delivered", async () => (await delivered(bench)) > already);
  return rateUntil(bench, count, already, run);
}

/** Microseconds of one call, with as many e-mails in it. */
async function reserveMicros(bench: Bench, emails: number): Promise<number> {
  const { id, handle, key } = await bench.workspace(WINDOWS_IN_USE);
  const now = Date.now();
  const [api] = [await bench.role("api")];
  await waitOfOne(bench, api.url, key); // its record is in Redis from here on
  await bench.sql`
    update ledger set bucket = ${Math.floor(now / BUCKET_MS)}, hour_used = array_fill(3, array[${HOUR_BUCKETS}::int]),
      hour_bulk = array_fill(1, array[${HOUR_BUCKETS}::int]) where workspace_id = ${id}`;
  const clock = { now: () => Date.now(), given: () => 0 };
  const reservations = new Reservations(bench.redis, bench.sql, clock);
  await reservations.forget(handle);
  const weights = new Array<number>(emails).fill(1);
  const call = async () => {
    const grant = await reservations.reserve(
      {
        reservationId: newId(Date.now()),
        handle,
        workspaceId: id,
        counted: emails,
        ...TRANSACTIONAL_STREAM,
        countsDay: true,
        isWhole: true,
        weights,
        claim: null,
      },
      async () => {},
    );
    if (grant.kind !== "granted" || grant.go !== emails) throw new Error(`reserve.lua said ${grant.kind}`);
  };
  await call();
  await bench.redis.config("RESETSTAT");
  await Promise.all(
    Array.from({ length: CALLS_AT_ONCE }, async () => {
      for (let n = 0; n < CALLS / CALLS_AT_ONCE; n++) await call();
    }),
  );
  const stats = await bench.redis.info("commandstats");
  await api.stop();
  return Number(/cmdstat_evalsha:.*?usec_per_call=([\d.]+)/.exec(stats)?.[1] ?? Number.NaN);
}

const caps: Scenario = {
  name: "caps",
  does: "letting go of 100,000 e-mails that wait for a cap, and what reserve.lua costs",
  async run(bench, run) {
    const count = run.sizes.waiting;
    const freely = await plain(bench, run, count);
    const after = await released(bench, run, count);
    const [one, hundred] = [await reserveMicros(bench, 1), await reserveMicros(bench, BATCH_EMAILS)];
    return {
      figures: [
        figure("e-mails that may go at once", freely, "/s"),
        figure("e-mails let go by a raised cap", after, "/s"),
        figure("let go against at once", after / freely, "x", "at least 0.7"),
        figure("reserve.lua, one e-mail", one, "us"),
        figure("reserve.lua, 100 e-mails", hundred, "us"),
      ],
    };
  },
};

export const scenarios = [caps];
