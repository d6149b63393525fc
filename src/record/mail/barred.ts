/**
 * Who of an e-mail's recipients must not be written to. Asked when mail is accepted and again when it is to
 * leave, and only of workspaces that suppress anybody: the addresses of all others are not even hashed.
 */
import { identity, parseMailbox } from "../../address.ts";
import type { Head, HistoryEntry } from "../../rules/email.ts";
import { advance, giveBack } from "../../rules/ledger.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { text, timestamp, typed } from "../db/rowshape.ts";
import { transactionTime } from "../db/time.ts";
import { lockAccounts, saveLedgers } from "../workspaces/ledgers.ts";
import type { HeldBag } from "./bagleases.ts";
import { lockEmails, type MarkedEmail, markRecipients, recipientsOf } from "./emails.ts";
import { mailStreamRow } from "./mailstream.ts";
import { type Barrier, barrierName, findBarriers } from "./suppressions.ts";

/** The keyed hash of an address. */
export type HashOf = (identity: string) => Buffer;
export type AddressedEmail = { workspaceId: string; id: string; head: Head };
/** The place of a recipient among the marks, and why they are written to no more. */
export type Barred = { place: number; address: string; why: string };

/** By the id of the e-mail; one that has nobody barred is not in it. */
export async function findBarred(
  tx: Tx | Sql,
  hashOf: HashOf,
  mails: readonly AddressedEmail[],
): Promise<ReadonlyMap<string, readonly Barred[]>> {
  const asked = mails.map(({ workspaceId, id, head }) => ({
    id,
    sender: parseMailbox(head.from)?.domain ?? "",
    recipients: recipientsOf(head).map(({ address }) => ({
      workspaceId,
      address,
      hash: hashOf(identity(address)),
    })),
  }));
  const barriers = await findBarriers(
    tx,
    asked.flatMap(({ recipients }) => recipients),
  );
  const barred = new Map<string, readonly Barred[]>();
  if (barriers.size === 0) return barred;
  for (const { id, sender, recipients } of asked) {
    const some = recipients.flatMap(({ workspaceId, address, hash }, place) => {
      const barrier = barriers
        .get(barrierName(workspaceId, hash))
        ?.find(({ scope }) => isWithin(sender, scope));
      return barrier ? [{ place, address, why: wordsOf(barrier) }] : [];
    });
    if (some.length > 0) barred.set(id, some);
  }
  return barred;
}

/** The marks and the history of an e-mail of which these recipients get none. */
export function markBarred(
  marks: string,
  barred: readonly Barred[],
  at: string,
): { marks: string; events: HistoryEntry[] } {
  const letters = [...marks];
  const open = barred.filter(({ place }) => letters[place] === "o");
  for (const { place } of open) letters[place] = "s";
  return {
    marks: letters.join(""),
    events: open.map(({ address, why }) => ({ type: "suppressed", at, recipient: address, detail: why })),
  };
}

/**
 * Ends what is open to barred recipients in the e-mails of a bag that is held, and gives back their places in
 * the caps, once. Hands back the marks of each e-mail that is still in the bag.
 */
export async function barOpen(
  sql: Sql,
  { workspaceId, id: bagId, token }: HeldBag,
  barred: ReadonlyMap<string, readonly Barred[]>,
  given: number,
): Promise<ReadonlyMap<string, string>> {
  return sql.begin(async (tx) => {
    const accounts = await lockAccounts(tx, [workspaceId]);
    const keys = [...barred.keys()].map((emailId) => ({ workspaceId, emailId }));
    await lockEmails(tx, keys);
    const mails = await typed(tx, { ...mailStreamRow, id: text, marks: text, grantedAt: timestamp })`
      select e.id, coalesce(e.marks, repeat('o', e.weight)) as marks, e.bulk, e.stream,
        b.granted_at as "grantedAt"
      from email e join bag b on b.workspace_id = e.workspace_id and b.id = e.bag_id
      where e.workspace_id = ${workspaceId} and e.id = any(${[...barred.keys()]}::uuid[])
        and e.status in ('accepted', 'deferred') and b.id = ${bagId} and b.token = ${token}`;
    const now = await transactionTime(tx, given);
    for (const { ledger } of accounts) advance(ledger, now);
    const marksOf = new Map<string, string>();
    const changed: (MarkedEmail & { status: string | null })[] = [];
    for (const { id, marks: before, grantedAt, ...stream } of mails) {
      const { marks, events } = markBarred(before, barred.get(id) ?? [], new Date(now).toISOString());
      marksOf.set(id, marks);
      if (events.length === 0) continue;
      changed.push({ workspaceId, id, marks, events, status: marks.includes("o") ? null : statusOf(marks) });
      for (const { ledger } of accounts) giveBack(ledger, stream, events.length, grantedAt.getTime());
    }
    if (changed.length === 0) return marksOf;
    await markRecipients(tx, changed);
    const over = changed.filter(({ status }) => status !== null);
    await tx`
      update email e set status = o.status, updated_at = ${new Date(now)}, bag_id = null,
        bounced_at = case when o.status = 'bounced' then coalesce(e.bounced_at, ${new Date(now)})
          else e.bounced_at end
      from unnest(${over.map(({ id }) => id)}::uuid[], ${over.map(({ status }) => status)}::text[]) as o(id,
        status)
      where e.workspace_id = ${workspaceId} and e.id = o.id
        and e.id = any(${over.map(({ id }) => id)}::uuid[])`;
    await saveLedgers(tx, accounts);
    return marksOf;
  });
}

/** Of an e-mail with nobody open any more, of whom somebody was suppressed. */
function statusOf(marks: string): string {
  if (marks.includes("c")) return "complained";
  if (marks.includes("b")) return "bounced";
  return marks.includes("f") ? "failed" : "suppressed";
}

function isWithin(domain: string, scope: string): boolean {
  return scope === "" || domain === scope || domain.endsWith(`.${scope}`);
}

const AFTER = { bounce: "after a bounce", complaint: "after a complaint", manual: "by hand" } as const;

function wordsOf({ reason, evidence, createdAt }: Barrier): string {
  const since = `The address is suppressed since ${createdAt.toISOString()} ${AFTER[reason]}`;
  return evidence ? `${since}: ${evidence}` : `${since}.`;
}
