/**
 * backlog: does a deep backlog cost anything? The rate at which mail leaves with a shallow one and with
 * `--backlog` e-mails (a million) of ten workspaces already accepted; what Redis holds for each bag in line;
 * how long a single mail of another workspace takes meanwhile; and how the engine comes back when Redis is
 * emptied at that moment.
 */

import { type Course, figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { Bench } from "../machine.ts";
import { bagsLeft, inLine, prefill } from "../prefill.ts";
import { flow, recovery } from "../recovery.ts";
import type { Result, Run, Scenario } from "../scenario.ts";
import { waitsOfSingles } from "../singles.ts";
import { until } from "../until.ts";

const WORKSPACES = 10;
/** More than the engine sends in the time that is measured, so that it never runs dry. */
const SHALLOW_PER_SECOND = 15_000;
const RAMP_SECONDS = 4;
const SINGLES = 10;
const SINGLES_PER_SECOND = 2;
const BAG_EMAILS = 100;
const WORKSPACE_BAGS_MAX = 1_000;

type Depth = { perSecond: number; bytesPerBag: number; stop(): Promise<void> };

/** Fills, waits until everything that may is in line, and lets it go. */
async function atDepth(bench: Bench, run: Run, workspaceIds: string[], count: number): Promise<Depth> {
  const before = await redisBytes(bench);
  await prefill(bench, run, workspaceIds, count);
  const wanted = Math.floor(Math.min(count / BAG_EMAILS, WORKSPACES * WORKSPACE_BAGS_MAX) * 0.95);
  await until("the bags were in line", async () => (await inLine(bench)) >= wanted);
  const bytesPerBag = ((await redisBytes(bench)) - before) / (await inLine(bench));
  run.tell(`${count} e-mails in the record, delivering`);
  const { stop } = await bench.role("deliver");
  return { perSecond: await flow(bench, run.seconds), bytesPerBag, stop };
}

async function redisBytes({ redis }: Bench): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1] ?? 0);
}

const backlog: Scenario = {
  name: "backlog",
  does: "delivery beside a million e-mails already accepted, and an emptied Redis at that moment",
  async run(bench, run): Promise<Result> {
    const { seconds, sizes, tell } = run;
    const workspaces = await Promise.all(Array.from({ length: WORKSPACES }, () => bench.workspace()));
    const ids = workspaces.map(({ id }) => id);
    const [api] = [await bench.role("api"), await bench.role("keeper")];
    const shallowCount = Math.min(sizes.backlog, SHALLOW_PER_SECOND * (seconds + RAMP_SECONDS));
    const meter = bench.meter();
    const shallow = await atDepth(bench, run, ids, shallowCount);
    await until("the shallow backlog was gone", async () => !(await bagsLeft(bench)));
    await shallow.stop();

    const deep = await atDepth(bench, run, ids, sizes.backlog);
    const other = await bench.workspace();
    const waits = await waitsOfSingles(bench, api.url, other, { rate: SINGLES_PER_SECOND, count: SINGLES });
    tell("Redis is emptied");
    const { firstMail, rateBack } = await recovery(bench, deep.perSecond, () => bench.redis.flushall());
    const isDry = !(await bagsLeft(bench));
    const { courses } = meter.stop();
    return {
      figures: [
        figure("e-mails, shallow", shallow.perSecond, "/s"),
        figure("e-mails, deep", deep.perSecond, "/s"),
        figure("deep against shallow", deep.perSecond / shallow.perSecond, "x", "at least 0.9"),
        figure("Redis memory per bag in line", deep.bytesPerBag, "bytes", "about 1,000"),
        figure("a single mail of another workspace, median", quantile(waits, 0.5), "ms"),
        figure("a single mail of another workspace, slowest", waits.at(-1) as number, "ms", "at most 1,000"),
        figure("first mail after FLUSHALL", firstMail, "s", "within 10"),
        ...(rateBack === null ? [] : [figure("rate back after FLUSHALL", rateBack, "s", "within 30")]),
      ],
      courses: courses.map(
        (course): Course => ({ ...course, name: course.name.replace("e-mails in the sink", "delivered") }),
      ),
      skipped:
        rateBack === null
          ? [
              isDry
                ? "rate back after FLUSHALL: the backlog was gone before; take a larger --backlog"
                : "rate back after FLUSHALL: not within a minute",
            ]
          : [],
    };
  },
};

export const scenarios = [backlog];
