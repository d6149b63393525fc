/**
 * connections: single sends of a neighbour beside 10,000 connections that are silent and 2,000 that send a
 * byte of a body now and then, and beside none. overload: batches at three times the rate that the engine
 * takes at best, from callers that do not wait for each other's answers.
 */
import { figure } from "../figure.ts";
import { load, quantile, quantilesOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench, Role } from "../machine.ts";
import { BATCH, BATCH_EMAILS, ONE } from "../mails.ts";
import { cpuSeconds } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import type { Scenario } from "../scenario.ts";
import { until } from "../until.ts";

const SILENT = 10_000;
const SLOW = 2_000;
const NEIGHBOUR_RATE = 200;
const OVERLOAD = 3;
const CLOSED_LOOP_CONNECTIONS = 16;
/** More than are ever used: nobody waits for a connection. */
const OPEN_LOOP_CONNECTIONS = 10_000;
const REFUSED = [429, 503];

const connections: Scenario = {
  name: "connections",
  does: "single sends of a neighbour, without and with 10,000 silent connections and 2,000 slow ones",
  async run(bench, run) {
    const { tell } = run;
    const [own, other] = [await bench.workspace(), await bench.workspace()];
    const [api] = await Promise.all([bench.role("api"), bench.role("deliver"), bench.role("keeper")]);
    await neighbour(api, own.key, WARMUP_SECONDS);
    tell("the neighbour alone");
    const alone = await neighbour(api, own.key, run.seconds);
    tell("opens connections");
    const crowd = await bench.program("crowd", "crowd.mjs", {
      ...{ TARGET: api.url, KEY: other.key, SILENT: String(SILENT), SLOW: String(SLOW) },
    });
    tell("the neighbour beside them");
    const beside = await neighbour(api, own.key, run.seconds);
    const { open, reopened } = (await (await fetch(crowd.url)).json()) as { open: number; reopened: number };
    return {
      figures: [
        figure("connections open at the end", open, "", `of ${SILENT + SLOW}`),
        figure("opened again, since the server had ended them", reopened, ""),
        figure("alone, p50", alone.p50, "ms"),
        figure("beside them, p50", beside.p50, "ms"),
        figure("alone, p99", alone.p99, "ms"),
        figure("beside them, p99", beside.p99, "ms"),
        figure("CPU of api, alone", alone.busy, "of a core"),
        figure("CPU of api, beside them", beside.busy, "of a core"),
        figure("sends of the neighbour that failed", alone.failures + beside.failures, "", "0"),
      ],
      distributions: [
        { name: "a single send, alone", unit: "ms", points: quantilesOf(alone.waits) },
        { name: "a single send, beside the connections", unit: "ms", points: quantilesOf(beside.waits) },
      ],
    };
  },
};

async function neighbour(api: Role, key: string, seconds: number) {
  const shot = { url: `${api.url}/api/v1/emails`, key, method: "POST" as const, body: ONE };
  const before = cpuSeconds(api.pid);
  const { waits, failures } = await openLoop(
    { rate: NEIGHBOUR_RATE, count: NEIGHBOUR_RATE * seconds },
    () => shot,
  );
  waits.sort((a, b) => a - b);
  const busy = (cpuSeconds(api.pid) - before) / seconds;
  return { waits, failures, busy, p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
}

const overload: Scenario = {
  name: "overload",
  does: "batches at three times the best rate, from callers that do not wait for each other",
  async run(bench, run) {
    const { seconds, tell } = run;
    const { key } = await bench.workspace();
    const [api] = await Promise.all([bench.role("api"), bench.role("deliver"), bench.role("keeper")]);
    const url = `${api.url}/api/v1/emails/batch`;
    const best = async (forSeconds: number) => {
      const how = { url, key, body: BATCH, connections: CLOSED_LOOP_CONNECTIONS, seconds: forSeconds };
      const { requests, failures, perSecond } = await load(bench, how);
      await emptied(bench);
      return (perSecond * (requests - failures)) / requests;
    };
    await best(WARMUP_SECONDS);
    tell("the best rate");
    const takes = await best(seconds);
    const rate = Math.ceil(OVERLOAD * takes);
    tell(`${rate} batches a second`);
    const meter = bench.meter();
    const taken: number[] = [];
    const refused: number[] = [];
    const others = new Map<number, number>();
    const began = performance.now();
    await openLoop(
      { rate, count: rate * seconds, connections: OPEN_LOOP_CONNECTIONS },
      () => ({ url, key, method: "POST", body: BATCH }),
      ({ status, waitMs }) => {
        if (status === 200) taken.push(waitMs);
        else if (REFUSED.includes(status)) refused.push(waitMs);
        else others.set(status, (others.get(status) ?? 0) + 1);
      },
    );
    const took = (performance.now() - began) / 1000;
    const { peaks } = meter.stop();
    await emptied(bench);
    for (const waits of [taken, refused]) waits.sort((a, b) => a - b);
    const otherwise = [...others.values()].reduce((sum, count) => sum + count, 0);
    const perSecond = taken.length / took;
    return {
      figures: [
        figure("accepted at best", takes * BATCH_EMAILS, "/s"),
        figure("offered", rate * BATCH_EMAILS, "/s"),
        figure("accepted under three times that", perSecond * BATCH_EMAILS, "/s"),
        figure("accepted against the best", perSecond / takes, "x", "at least 0.8"),
        figure("accepted, p50", quantile(taken, 0.5), "ms"),
        figure("accepted, p99", quantile(taken, 0.99), "ms", "below 1,000"),
        figure("refused with 429 or 503, p50", quantile(refused, 0.5), "ms"),
        figure("refused with 429 or 503, p99", quantile(refused, 0.99), "ms"),
        figure("batches refused", refused.length, ""),
        figure("batches answered otherwise, or not", otherwise, "", "0"),
        ...peaks.map(({ name, mb }) => figure(`most memory of ${name}`, mb, "MB")),
      ],
      distributions: [
        { name: "a batch that is accepted", unit: "ms", points: quantilesOf(taken) },
        { name: "a batch that is refused", unit: "ms", points: quantilesOf(refused) },
      ],
    };
  },
};

function emptied({ sql }: Bench): Promise<void> {
  return until("everything was delivered", async () => (await sql`select 1 from bag limit 1`).length === 0);
}

export const scenarios = [connections, overload];
