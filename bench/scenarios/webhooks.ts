/**
 * webhooks: as deliver, and every event is told to an endpoint that answers in 5 ms: compare its e-mails and
 * its CPU with those of `deliver` in the same run. Then half of that load, and how late events arrive.
 * replay: a receiver that was away is sent what it has missed.
 */
import { newId } from "../../src/ids.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { newSecret, SecretSealer } from "../../src/webhooks/secret.ts";
import { figure } from "../figure.ts";
import { type Bench, type Role, SECRET, type Workspace } from "../machine.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import { openLoop } from "../openloop.ts";
import { prefill } from "../prefill.ts";
import type { Scenario } from "../scenario.ts";
import { until } from "../until.ts";
import { deliverRun, resultOf } from "./deliver.ts";

/** Accepted, sent, delivered. */
const EVENTS_PER_EMAIL = 3;
const LOOPBACK = { WEBHOOK_NETWORKS_ALLOWED: "127.0.0.0/8" };

type Told = { events: number; repeated: number; p50: number; p99: number; most: number };

async function toldBy(receiver: Role): Promise<Told> {
  return (await (await fetch(receiver.url)).json()) as Told;
}

async function listen({ sql }: Bench, { id: workspaceId }: Workspace, receiver: Role): Promise<void> {
  const id = newId(Date.now());
  const secrets = new SecretSealer(SECRET).seal({ workspaceId, id }, [{ secret: newSecret(), until: null }]);
  const webhook = { workspaceId, id, endpoint: receiver.url, events: null, publicKey: null, secrets };
  await insertWebhook(sql, webhook, 1, new Date());
}

const webhooks: Scenario = {
  name: "webhooks",
  does: "as deliver, with every event told to a receiver that answers in 5 ms; then how late at half the load",
  async run(bench, run) {
    const receiver = await bench.program("receiver", "hookreceiver.mjs");
    let workspace: Workspace | null = null;
    const prepare = async (fresh: Workspace) => {
      workspace = fresh;
      await listen(bench, fresh, receiver);
      await bench.role("webhooks", LOOPBACK);
    };
    const began = performance.now();
    const delivered = await deliverRun(bench, run, { prepare });
    const meanwhile = await toldBy(receiver);
    const secondsBeside = (performance.now() - began) / 1_000;
    let forgotten = 0;
    const all = async () => {
      const [row] = await bench.sql<
        { count: number }[]
      >`select (select coalesce(max(last), 0) from event_sequence)::int
          + (select count(*) from outbox where sequence is null)::int
          + (select coalesce(sum(events), 0) from outbox_batch)::int as count`;
      const told = forgotten + (await toldBy(receiver)).events;
      run.tell(`${told} of ${row?.count} events told`);
      return told >= (row?.count ?? 0);
    };
    await until("every event was told", all);
    const seconds = (performance.now() - began) / 1_000;
    const drained = await toldBy(receiver);
    await fetch(receiver.url, { method: "DELETE" });
    forgotten = drained.events;
    const rate = drained.events / seconds / EVENTS_PER_EMAIL / 2 / BATCH_EMAILS;
    const { key } = workspace as unknown as Workspace;
    const url = `${delivered.url}/api/v1/emails/batch`;
    await openLoop({ rate, count: Math.ceil(rate * run.seconds) }, () => ({
      url,
      key,
      method: "POST",
      body: BATCH,
    }));
    await until("every event of the half load was told", all);
    const half = await toldBy(receiver);
    const result = resultOf(delivered);
    return {
      ...result,
      figures: [
        ...result.figures,
        figure("events told beside them", meanwhile.events / secondsBeside, "/s"),
        figure("events told, to the last", drained.events / seconds, "/s"),
        figure("told twice", drained.repeated + half.repeated, ""),
        figure("e-mails at half the load", rate * BATCH_EMAILS, "/s"),
        figure("lag at half the load, p50", half.p50, "ms"),
        figure("lag at half the load, p99", half.p99, "ms", "under 1,000"),
      ],
    };
  },
};

const replay: Scenario = {
  name: "replay",
  does: "a receiver that answers in 5 ms is back, and is sent a backlog of events",
  async run(bench, { sizes, tell }) {
    const count = sizes.backlog;
    const workspace = await bench.workspace();
    const receiver = await bench.program("receiver", "hookreceiver.mjs");
    await prefill(bench, { tell }, [workspace.id], count, "waiting");
    await bench.sql`
      insert into outbox (workspace_id, sequence, at, type, subject_id)
      select workspace_id, row_number() over (order by id), now(), 'email.accepted', id from email
      where workspace_id = ${workspace.id}`;
    await listen(bench, workspace, receiver);
    await bench.sql`insert into event_sequence (workspace_id, last) values (${workspace.id}, ${count})`;
    await bench.sql`analyze outbox`;
    await bench.role("webhooks", LOOPBACK);
    const meter = bench.meter();
    const began = performance.now();
    await until("the backlog was told", async () => {
      const { events } = await toldBy(receiver);
      tell(`${events} of ${count} events told`);
      return events >= count;
    });
    const seconds = (performance.now() - began) / 1_000;
    const { cpu } = meter.stop();
    const { repeated } = await toldBy(receiver);
    const perEvent = cpu.reduce((sum, one) => sum + one.seconds, 0) / count;
    return {
      figures: [
        figure("events", count / seconds, "/s", "at least 3,334"),
        figure("a million", 1_000_000 / (count / seconds), "s", "under 300"),
        figure("told twice", repeated, ""),
        figure("CPU per event, receiver included", perEvent * 1e6, "us"),
        ...cpu.map((one) => figure(`of which ${one.name}`, (one.seconds * 1e6) / count, "us")),
      ],
    };
  },
};

export const scenarios = [webhooks, replay];
