/**
 * E-mails that were accepted earlier, put straight into the record as the commit writes them: in bags that
 * are not in line yet, or waiting for a cap. A million take half a minute this way.
 */
import { newId } from "../src/ids.ts";
import { bagOfEach, insertBags, pack } from "../src/record/mail/bags.ts";
import { insertDue } from "../src/record/mail/due.ts";
import { insertBodies, insertEmails } from "../src/record/mail/emails.ts";
import { emailRow } from "./inserts.ts";
import type { Bench } from "./machine.ts";
import { type Mail, mail } from "./mails.ts";
import type { Run } from "./scenario.ts";

const ROWS = 5_000;
const YEAR_MS = 365 * 86_400_000;

export type Standing = "accepted" | "waiting";

export async function prefill(
  { sql }: Bench,
  { tell }: Pick<Run, "tell">,
  workspaceIds: readonly string[],
  count: number,
  standing: Standing = "accepted",
  mailOf: (n: number) => Mail = mail,
): Promise<void> {
  const each = Math.ceil(count / workspaceIds.length);
  let written = 0;
  for (const workspaceId of workspaceIds) {
    const own = Math.min(each, count - written);
    for (let at = 0; at < own; at += ROWS) {
      const now = Date.now();
      const rows = Math.min(ROWS, own - at);
      const emails = Array.from({ length: rows }, (_, n) =>
        emailRow(workspaceId, null, newId(now), mailOf(written + n)),
      );
      const packable = emails.map(({ id, bytes }) => ({ id, bytes, grantedAt: now }));
      const bags =
        standing === "accepted" ? pack(workspaceId, packable, { newId: () => newId(now), shards: 1 }) : [];
      const due = emails.map(({ id, weight, bytes }) => ({
        workspaceId,
        emailId: id,
        at: now + YEAR_MS,
        why: "cap_hour" as const,
        bulk: false,
        stream: "",
        weight,
        bytes,
      }));
      const accepted = emails.map((email) => ({ email, standing }));
      await sql.begin((tx) => [
        insertEmails(tx, accepted, bagOfEach(bags), new Date(now)),
        insertBodies(tx, emails),
        standing === "accepted" ? insertBags(tx, bags, new Date(now)) : insertDue(tx, due),
      ]);
      written += rows;
      tell(`${written} e-mails put into the record`);
    }
  }
  // as the autovacuum of an engine that got there by itself would have
  await sql`analyze email, body, bag, due`;
}

/** Until as many bags as may be are in line. */
export async function inLine({ sql }: Bench): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int from bag where epoch is not null and token is null`;
  return row?.count ?? 0;
}

export async function bagsLeft({ sql }: Bench): Promise<boolean> {
  return (await sql`select 1 from bag limit 1`).length > 0;
}
