/**
 * Who of an e-mail's recipients must not be written to. Asked when mail is accepted and again when it is to leave, and
 * only of workspaces that suppress anybody: the addresses of all others are not even hashed.
 */
import { identity, parseMailbox } from "../address.ts";
import type { Sql, Tx } from "./connect.ts";
import { type Head, recipientsOf } from "./emails.ts";
import type { HistoryEntry } from "./readmail.ts";
import { type Barrier, barrierName, findBarriers } from "./suppressions.ts";

/** The keyed hash of an address. */
export type HashOf = (identity: string) => Buffer;
export type Addressed = { workspaceId: string; id: string; head: Head };
/** The place of a recipient among the marks, and why they are written to no more. */
export type Barred = { place: number; address: string; why: string };

/** By the id of the e-mail; one that has nobody barred is not in it. */
export async function findBarred(
  tx: Tx | Sql,
  hashOf: HashOf,
  mails: readonly Addressed[],
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
): { marks: string; events: HistoryEntry[]; places: number[] } {
  const letters = [...marks];
  const open = barred.filter(({ place }) => letters[place] === "o");
  for (const { place } of open) letters[place] = "s";
  return {
    marks: letters.join(""),
    events: open.map(({ address, why }) => ({ type: "suppressed", at, recipient: address, detail: why })),
    places: open.map(({ place }) => place),
  };
}

function isWithin(domain: string, scope: string): boolean {
  return scope === "" || domain === scope || domain.endsWith(`.${scope}`);
}

const AFTER = { bounce: "after a bounce", complaint: "after a complaint", manual: "by hand" } as const;

function wordsOf({ reason, evidence, createdAt }: Barrier): string {
  const since = `The address is suppressed since ${createdAt.toISOString()} ${AFTER[reason]}`;
  return evidence ? `${since}: ${evidence}` : `${since}.`;
}
