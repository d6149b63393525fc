/**
 * redis-lost: Redis is killed while batches arrive at an even rate, and comes back empty. How long nothing is accepted
 * and nothing delivered, when the rate is back, and whether everything that was accepted arrives.
 */
import { BATCH, BATCH_EMAILS } from "../load.ts";
import { openLoop } from "../openloop.ts";
import { recovery } from "../recovery.ts";
import { figure, type Scenario } from "../scenario.ts";
import { after, until } from "../until.ts";
import { delivered } from "./deliver.ts";

const BATCHES_PER_SECOND = 20;
const BEFORE_SECONDS = 3;
const AFTER_SECONDS_MIN = 10;

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
    let accepted = 0;
    let acceptedAgainAt: number | null = null;
    let wasRefused = false;
    const length = BEFORE_SECONDS + Math.max(AFTER_SECONDS_MIN, seconds);
    const firing = openLoop(
      { rate: BATCHES_PER_SECOND, count: BATCHES_PER_SECOND * length },
      () => shot,
      ({ status }) => {
        const now = performance.now();
        if (status === 200) {
          accepted += BATCH_EMAILS;
          if (wasRefused) acceptedAgainAt ??= now;
        } else if (now > lostAt) wasRefused = true;
        tell(`${accepted} accepted`);
      },
    );
    await after(BEFORE_SECONDS * 1000);
    const rate = bench.sink.count() / ((performance.now() - began) / 1000);
    lostAt = performance.now();
    const { firstMail, rateBack } = await recovery(bench, rate, () => bench.loseRedis());
    const { failures } = await firing;
    let missing = accepted;
    await until("all that was accepted arrived", async () => {
      missing = accepted - (await delivered(bench));
      return missing <= 0;
    });
    return {
      figures: [
        figure("accepted again after", acceptedAgainAt === null ? 0 : (acceptedAgainAt - lostAt) / 1000, "s"),
        figure("first mail after", firstMail, "s", "within 10"),
        ...(rateBack === null ? [] : [figure("rate back after", rateBack, "s", "within 30")]),
        figure("batches refused", failures, ""),
        figure("accepted and not delivered", Math.max(0, missing), "", "0"),
        figure("delivered twice", Math.max(0, bench.sink.count() - accepted), ""),
      ],
      courses: meter.stop().courses,
      skipped: rateBack === null ? ["rate back: not within a minute"] : [],
    };
  },
};

export const scenarios = [redisLost];
