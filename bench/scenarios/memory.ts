/**
 * memory: what each process holds before any mail, at most under three equal loads one after the other, and
 * when all of it has left. What grows from the second load to the third would go on growing.
 */

import { type Course, figure } from "../figure.ts";
import { load } from "../load.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import { memoryMb } from "../meter.ts";
import { bagsLeft } from "../prefill.ts";
import type { Scenario } from "../scenario.ts";
import { after, until } from "../until.ts";

const LOADS = 3;
const REST_MS = 2_000;

const memory: Scenario = {
  name: "memory",
  does: "what each process holds idle, at most, and after three equal loads",
  async run(bench, { seconds, tell }) {
    const { key } = await bench.workspace();
    const roles = [await bench.role("api"), await bench.role("deliver"), await bench.role("keeper")];
    const url = `${roles[0]?.url}/api/v1/emails/batch`;
    const watched = [
      ...roles.map(({ name, pid }) => ({ name, pid })),
      { name: "postgres", pid: bench.postgres.pid },
      { name: "redis", pid: bench.redisServer.pid },
    ];
    await after(REST_MS);
    const idle = watched.map(({ pid }) => memoryMb(pid));
    const whole = bench.meter();
    const peaks: number[][] = [];
    let mails = 0;
    for (let n = 1; n <= LOADS; n++) {
      tell(`load ${n} of ${LOADS}`);
      const meter = bench.meter();
      const { requests, failures } = await load(bench, { url, key, body: BATCH, connections: 8, seconds });
      mails += (requests - failures) * BATCH_EMAILS;
      await until("the mail left", async () => !(await bagsLeft(bench)));
      const { courses } = meter.stop();
      peaks.push(watched.map(({ name }) => mostOf(courses, name)));
    }
    await after(REST_MS);
    const rested = watched.map(({ pid }) => memoryMb(pid));
    return {
      figures: [
        figure("e-mails", mails, ""),
        ...watched.flatMap(({ name }, n) => [
          figure(`${name}, idle`, idle[n] as number, "MB"),
          figure(`${name}, most`, Math.max(...peaks.map((peak) => peak[n] as number)), "MB"),
          figure(`${name}, after`, rested[n] as number, "MB"),
          figure(
            `${name}, grown from the second load to the third`,
            (peaks[2]?.[n] as number) - (peaks[1]?.[n] as number),
            "MB",
          ),
        ]),
      ],
      courses: whole.stop().courses,
    };
  },
};

/** Of what was sampled: the kernel's own peak would remember the loads before. */
function mostOf(courses: readonly Course[], name: string): number {
  const course = courses.find((one) => one.name === name);
  return Math.max(0, ...(course?.points ?? []).map(([, mb]) => mb));
}

export const scenarios = [memory];
