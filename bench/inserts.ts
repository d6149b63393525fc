/**
 * The floor of acceptance: the rows of the engine's own inserts, 1,000 in each transaction, with nothing
 * around them.
 */
import { randomUUID } from "node:crypto";
import { newId } from "../src/ids.ts";
import { connectRecord, type Sql } from "../src/record/db/connect.ts";
import { insertBodies, insertEmails, type NewEmail } from "../src/record/mail/emails.ts";
import { LOOP_WARMUP_SECONDS } from "./load.ts";
import type { Bench } from "./machine.ts";
import { type Mail, mail } from "./mails.ts";

const ROWS = 1_000;

export async function unnestFloor(bench: Bench, seconds: number): Promise<number> {
  const sql = connectRecord(bench.postgres.url, "commits", 60_000);
  const end = bench.endings.add(() => sql.end());
  await insertFor(sql, LOOP_WARMUP_SECONDS);
  const perSecond = await insertFor(sql, seconds);
  await end();
  return perSecond;
}

async function insertFor(sql: Sql, seconds: number): Promise<number> {
  const workspaceId = randomUUID();
  const began = performance.now();
  let rows = 0;
  while (performance.now() - began < seconds * 1000) {
    const now = Date.now();
    const emails = Array.from({ length: ROWS }, () => emailRow(workspaceId, null, newId(now), mail(1)));
    const accepted = emails.map((email) => ({ email, standing: "accepted" as const }));
    await sql.begin((tx) => [insertEmails(tx, accepted, new Map(), new Date(now)), insertBodies(tx, emails)]);
    rows += ROWS;
  }
  return rows / ((performance.now() - began) / 1000);
}

/** The row that the api makes of such a mail. */
export function emailRow(workspaceId: string, keyId: string | null, id: string, one: Mail): NewEmail {
  const { from, to, subject, html } = one;
  return {
    workspaceId,
    id,
    keyId,
    bulk: false,
    stream: "",
    head: JSON.stringify({ from, to: [to], cc: [], bcc: [], reply_to: [], subject }),
    weight: 1,
    bytes: html.length + subject.length,
    html,
    plain: null,
    extra: null,
    scheduledAt: null,
  };
}
