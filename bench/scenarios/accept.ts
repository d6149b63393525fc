/**
 * accept: batches of 100 with half a KB of html, accepted and committed, beside the same rows written by bare `unnest`
 * inserts, 1,000 in each transaction; then single sends over 50 connections.
 */
import { randomUUID } from "node:crypto";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/connect.ts";
import { insertBodies, insertEmails, type NewEmail } from "../../src/record/emails.ts";
import { BATCH, load, mail, ONE } from "../load.ts";
import { type Bench, cpuSeconds } from "../machine.ts";
import { figure, type Scenario } from "../scenario.ts";

const FLOOR_ROWS = 1_000;

export async function unnestFloor(bench: Bench, seconds: number): Promise<number> {
  const sql = connectRecord(bench.postgres.url, "commits", 60_000);
  const workspaceId = randomUUID();
  const { from, to, subject, html } = mail(1) as { from: string; to: string; subject: string; html: string };
  const head = JSON.stringify({ from, to: [to], cc: [], bcc: [], reply_to: [], subject });
  const one = {
    workspaceId,
    keyId: workspaceId,
    bulk: false,
    head,
    weight: 1,
    bytes: 700,
    html,
    plain: null,
    extra: null,
  };
  const began = performance.now();
  let rows = 0;
  while (performance.now() - began < seconds * 1000) {
    const now = Date.now();
    const emails: NewEmail[] = Array.from({ length: FLOOR_ROWS }, () => ({
      ...one,
      id: newId(now),
      scheduledAt: null,
    }));
    const accepted = emails.map((email) => ({ email, standing: "accepted" as const }));
    await sql.begin((tx) => [insertEmails(tx, accepted, new Date(now)), insertBodies(tx, emails)]);
    rows += FLOOR_ROWS;
  }
  const perSecond = rows / ((performance.now() - began) / 1000);
  await sql.end();
  return perSecond;
}

export const accept: Scenario = {
  name: "accept",
  does: "batches of 100 and single sends, accepted and committed, against bare unnest inserts of the same rows",
  async run(bench, seconds) {
    const { key } = await bench.workspace();
    const api = await bench.role("api");
    const url = `${api.url}/api/v1/emails`;
    await load({ url: `${url}/batch`, key, body: BATCH, connections: 16, seconds: 2 });
    const before = cpuSeconds(api.pid);
    const batches = await load({ url: `${url}/batch`, key, body: BATCH, connections: 16, seconds });
    const cpu = cpuSeconds(api.pid) - before;
    const floor = await unnestFloor(bench, seconds);
    const singles = await load({ url, key, body: ONE, connections: 50, seconds });
    await api.stop();
    const perSecond = ((batches.requests - batches.failures) * 100) / seconds;
    return {
      figures: [
        figure("e-mails in batches", perSecond, "/s"),
        figure("rows of the floor", floor, "/s"),
        figure("against the floor", perSecond / floor, "x", "at least 0.5"),
        figure("api CPU per thousand e-mails", (cpu * 1000) / (batches.requests * 100), "s"),
        figure("single sends", singles.perSecond, "/s", "at least 5,000"),
        figure("single sends p50", singles.p50Ms, "ms"),
        figure("single sends p99", singles.p99Ms, "ms", "under 50"),
        figure("refused", batches.failures + singles.failures, ""),
      ],
    };
  },
};
