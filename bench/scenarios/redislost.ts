/**
 * redis-lost: Redis is killed while batches arrive at an even rate, and comes back empty. How long nothing is
 * accepted and nothing delivered, when the rate is back, and whether everything that was accepted arrives.
 */

import { figure } from "../figure.ts";
import type { Bench } from "../machine.ts";
import { BATCH } from "../mails.ts";
import { openLoop } from "../openloop.ts";
import { bagsLeft } from "../prefill.ts";
import { recovery } from "../recovery.ts";
import type { Scenario } from "../scenario.ts";
import { after, until } from "../until.ts";

const BATCHES_PER_SECOND = 20;
const BEFORE_SECONDS = 3;
const AFTER_SECONDS_MIN = 10;
/** What has not arrived by then is counted as missing. */
const ARRIVAL_MS_MAX = 120_000;

const redisLost: Scenario = {
  name: "redis-lost",
  does: "Redis is killed under load and comes back empty",
  async run(bench, { seconds, tell }) {
    const { key } = await bench.workspace();
    const [api] = await Promise.all([bench.role("api"), bench.role("deliver"), bench.role("keeper")]);
    const shot = { url: `${api.url}/api/v1/emails/batch`, key, method: "POST" as const, body: BATCH };
    const meter = bench.meter();
    const began = performance.now();
    let lostAt = Number.POSITIVE_INFINITY;
    const accepted: string[] = [];
    let acceptedAgainAt: number | null = null;
    let wasRefused = false;
    const length = BEFORE_SECONDS + Math.max(AFTER_SECONDS_MIN, seconds);
    const firing = openLoop(
      { rate: BATCHES_PER_SECOND, count: BATCHES_PER_SECOND * length },
      () => shot,
      ({ status, body }) => {
        const now = performance.now();
        if (status === 200) {
          accepted.push(...(JSON.parse(body) as { data: { id: string }[] }).data.map(({ id }) => id));
          if (wasRefused) acceptedAgainAt ??= now;
        } else if (now > lostAt) wasRefused = true;
        tell(`${accepted.length} accepted`);
      },
    );
    await after(BEFORE_SECONDS * 1000);
    const rate = bench.sink.count() / ((performance.now() - began) / 1000);
    lostAt = performance.now();
    const { firstMail, rateBack } = await recovery(bench, rate, () => bench.loseRedis());
    const { failures } = await firing;
    const deadline = performance.now() + ARRIVAL_MS_MAX;
    await until(
      "the record holds no more mail",
      async () => performance.now() > deadline || !(await bagsLeft(bench)),
    );
    const { all, wanted } = await delivered(bench, accepted);
    return {
      figures: [
        figure("accepted again after", acceptedAgainAt === null ? 0 : (acceptedAgainAt - lostAt) / 1000, "s"),
        figure("first mail after", firstMail, "s", "within 10"),
        ...(rateBack === null ? [] : [figure("rate back after", rateBack, "s", "within 30")]),
        figure("batches refused", failures, ""),
        figure("accepted and not delivered", accepted.length - wanted, "", "0"),
        figure("delivered more than once", Math.max(0, bench.sink.count() - all), ""),
      ],
      courses: meter.stop().courses,
      skipped: rateBack === null ? ["rate back: not within a minute"] : [],
    };
  },
};

/** Of all e-mails, each of which should be in the sink once, and of those that were accepted with a 200. */
async function delivered({ sql }: Bench, accepted: string[]): Promise<{ all: number; wanted: number }> {
  const [row] = await sql<{ all: number; wanted: number }[]>`
    select count(*)::int as all, count(*) filter (where id = any(${accepted}::uuid[]))::int as wanted
    from email where delivered_at is not null`;
  return row ?? { all: 0, wanted: 0 };
}

export const scenarios = [redisLost];
