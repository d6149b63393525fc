/**
 * deliver: from the first request to the last mail in the sink: batches of 100 with half a KB of html, unsigned, for some
 * seconds, with everything on this machine. idle: one mail on an engine with nothing else to do, again and again.
 */
import { BATCH, load, ONE } from "../load.ts";
import { type Bench, cpuSeconds, peakMb, type Role } from "../machine.ts";
import { figure, type Scenario } from "../scenario.ts";

const LOOK_EVERY_MS = 50;
const IDLE_MAILS = 200;

async function delivered(bench: Bench): Promise<number> {
  const [row] = await bench.sql<
    { count: number }[]
  >`select coalesce(sum(delivered), 0)::int as count from tally`;
  return row?.count ?? 0;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
}

export async function deliverRun(
  bench: Bench,
  seconds: number,
): Promise<{ perSecond: number; mails: number; cpu: [string, number][]; peak: [string, number][] }> {
  const { key } = await bench.workspace();
  const roles: Role[] = [await bench.role("api"), await bench.role("deliver"), await bench.role("keeper")];
  const url = `${(roles[0] as Role).url}/api/v1/emails/batch`;
  await load({ url, key, body: BATCH, connections: 4, seconds: 1 });
  await until(async () => (await bench.sql`select 1 from bag limit 1`).length === 0);
  const processes: [string, number][] = [
    ...roles.map((role): [string, number] => [role.name, role.pid]),
    ["postgres", bench.postgres.pid],
    ["redis", bench.redisServer.pid],
    ...(bench.sink.pid === null ? [] : ([["sink", bench.sink.pid]] as [string, number][])),
  ];
  const before = new Map(processes.map(([name, pid]) => [name, cpuSeconds(pid)]));
  const already = await delivered(bench);
  const began = performance.now();
  const sent = await load({ url, key, body: BATCH, connections: 8, seconds });
  const mails = (sent.requests - sent.failures) * 100;
  await until(async () => (await delivered(bench)) - already >= mails);
  const perSecond = mails / ((performance.now() - began) / 1000);
  const cpu = processes.map(([name, pid]): [string, number] => [
    name,
    cpuSeconds(pid) - (before.get(name) ?? 0),
  ]);
  const peak = processes.map(([name, pid]): [string, number] => [name, peakMb(pid)]);
  for (const role of roles) await role.stop();
  return { perSecond, mails, cpu, peak };
}

export const deliver: Scenario = {
  name: "deliver",
  does: "accept to sink, batches of 100, everything on this machine",
  async run(bench, seconds) {
    const { perSecond, mails, cpu, peak } = await deliverRun(bench, seconds);
    const total = cpu.reduce((sum, [, used]) => sum + used, 0);
    return {
      figures: [
        figure("e-mails", perSecond, "/s", "at least 8,000"),
        figure("CPU per thousand e-mails", (total * 1000) / mails, "s"),
        ...cpu.map(([name, used]) => figure(`of which ${name}`, (used * 1000) / mails, "s")),
        ...peak.map(([name, mb]) => figure(`most memory of ${name}`, mb, "MB")),
      ],
    };
  },
};

export const idle: Scenario = {
  name: "idle",
  does: "one single send on an idle engine, from the request to the note of its delivery",
  async run(bench) {
    const { key } = await bench.workspace();
    const roles = [await bench.role("api"), await bench.role("deliver"), await bench.role("keeper")];
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const url = `${(roles[0] as Role).url}/api/v1/emails`;
    const waits: number[] = [];
    for (let n = 0; n < IDLE_MAILS; n++) {
      const began = Date.now();
      const response = await fetch(url, { method: "POST", headers, body: ONE });
      const { id } = (await response.json()) as { id: string };
      for (;;) {
        const [row] = await bench.sql<
          { at: Date | null }[]
        >`select delivered_at as at from email where id = ${id}`;
        if (!row?.at) continue;
        waits.push(row.at.getTime() - began);
        break;
      }
    }
    for (const role of roles) await role.stop();
    waits.sort((a, b) => a - b);
    const at = (part: number) => waits[Math.floor(waits.length * part)] as number;
    return { figures: [figure("p50", at(0.5), "ms"), figure("p99", at(0.99), "ms")] };
  },
};
