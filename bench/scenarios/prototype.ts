/**
 * prototype: `deliver` beside the same path with nothing around it (prototype.mjs), one after the other: what
 * keys, quotas, caps, retries, checks and metrics cost in all.
 */
import { figure } from "../figure.ts";
import { load, WARMUP_SECONDS } from "../load.ts";
import type { Bench } from "../machine.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import type { Metered } from "../meter.ts";
import type { Scenario } from "../scenario.ts";
import { telling } from "../telling.ts";
import { until } from "../until.ts";
import { delivered, deliverRun } from "./deliver.ts";

const PROGRAM = "./prototype.mjs";

const prototype: Scenario = {
  name: "prototype",
  does: "as deliver, beside a bare program with the same rows, commits and SMTP, and nothing else",
  async run(bench, run) {
    const bare = await bareRun(bench, run.seconds, run.tell);
    const engine = await deliverRun(bench, run);
    const cpuOf = (seconds: number, mails: number) => (seconds * 1000) / mails;
    return {
      figures: [
        figure("e-mails of the bare program", bare.perSecond, "/s"),
        figure("e-mails of the engine", engine.perSecond, "/s"),
        figure("the engine against it", engine.perSecond / bare.perSecond, "x", "at least 0.75"),
        figure("CPU of the bare program per thousand", cpuOf(bare.cpu, bare.mails), "s"),
        figure("CPU of the engine per thousand", cpuOf(sumOf(engine.metered.cpu), engine.mails), "s"),
      ],
    };
  },
};

async function bareRun(bench: Bench, seconds: number, tell: (line: string) => void) {
  const { id } = await bench.workspace();
  const [api, worker] = await Promise.all(
    ["api", "deliver"].map((part) => bench.program(part, PROGRAM, { PART: part, WORKSPACE: id })),
  );
  const url = `${api?.url}/batch`;
  const request = { url, key: "none", body: BATCH };
  const isEmpty = async () => (await bench.sql`select 1 from bag limit 1`).length === 0;
  await load(bench, { ...request, connections: 4, seconds: WARMUP_SECONDS });
  await until("the mail of the warm-up left", isEmpty);
  const already = await delivered(bench);
  const meter = bench.meter();
  const began = performance.now();
  const endTelling = telling(bench.endings, () => tell(`${bench.sink.count()} e-mails in the sink`));
  const sent = await load(bench, { ...request, connections: 8, seconds });
  const mails = (sent.requests - sent.failures) * BATCH_EMAILS;
  await until("everything was delivered", async () => (await delivered(bench)) - already >= mails);
  const perSecond = mails / ((performance.now() - began) / 1000);
  await endTelling();
  const cpu = sumOf(meter.stop().cpu);
  await Promise.all([api?.stop(), worker?.stop()]);
  return { perSecond, mails, cpu };
}

function sumOf(cpu: Metered["cpu"]): number {
  return cpu.reduce((sum, { seconds }) => sum + seconds, 0);
}

export const scenarios = [prototype];
