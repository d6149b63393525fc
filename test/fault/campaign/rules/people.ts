/**
 * Contacts: what was acknowledged is there, what was erased is not. The operations on one contact follow one
 * another, so that only those whose fate is unknown leave a choice.
 */
import {
  type Aftermath,
  type FinalContact,
  type FinalEmail,
  type History,
  isUnknown,
  mayBeDone,
  type Operation,
  originOf,
  type Violation,
  wasDone,
} from "../history.ts";
import { said } from "./fates.ts";
import { clockOf } from "./repeats.ts";

export function judgePeople(history: History, after: Aftermath): Violation[] {
  const contacts = new Map(after.contacts.map((contact) => [contact.address, contact]));
  const kept = keptAddresses(history, after);
  return [...byAddress(history.operations)].flatMap(([address, operations]) => {
    const contact = contacts.get(address) ?? null;
    return [
      ...judgeContact(address, operations, contact),
      ...judgeForgotten(address, operations),
      ...judgeErased(address, operations, kept),
    ];
  });
}

type Kept = { email: FinalEmail; askedAt: number };

/** Whom e-mails name, each with the first that was asked for; an automation's is asked for by nobody. */
function keptAddresses({ operations }: History, { emails }: Aftermath): Map<string, Kept> {
  const sends = new Map<string, Operation>(
    operations.flatMap((operation) =>
      operation.mails.map((_, index) => [`c ${originOf(operation, index)}`, operation] as const),
    ),
  );
  const kept = new Map<string, Kept>();
  for (const email of emails) {
    const askedAt = sends.get(email.subject)?.tries[0]?.askedAt ?? 0;
    for (const address of email.to)
      if (askedAt < (kept.get(address)?.askedAt ?? Number.POSITIVE_INFINITY))
        kept.set(address, { email, askedAt });
  }
  return kept;
}

/** A mail that was asked for after the erasure may name whom it likes. */
function judgeErased(
  address: string,
  operations: readonly Operation[],
  kept: ReadonlyMap<string, Kept>,
): Violation[] {
  const erased = operations.findLast((one) => one.kind === "erase" && wasDone(one));
  const still = kept.get(address);
  if (!isErased(operations) || !erased || !still) return [];
  const { id, subject, status, createdAt } = still.email;
  // a mail that came while the erasure was under way, or after it, is a new one
  if (still.askedAt > (erased.tries[0]?.askedAt ?? 0)) return [];
  if (createdAt > (erased.tries.at(-1)?.askedAt ?? 0)) return [];
  const what = `it was erased, and the e-mail ${id} (${subject}, ${status}, made at ${clockOf(createdAt)}) names it`;
  return [violation("still kept", address, what, [erased])];
}

const OF_CONTACTS = ["contact", "edit", "tag", "erase", "event"];

function byAddress(operations: readonly Operation[]): Map<string, Operation[]> {
  const found = new Map<string, Operation[]>();
  for (const operation of operations) {
    const { address, kind, tries } = operation;
    if (address === null || !OF_CONTACTS.includes(kind) || tries.length === 0) continue;
    const some = found.get(address);
    if (some) some.push(operation);
    else found.set(address, [operation]);
  }
  return found;
}

function judgeContact(
  address: string,
  operations: readonly Operation[],
  contact: FinalContact | null,
): Violation[] {
  if (isErased(operations))
    return contact ? [violation("not erased", address, "it was erased, and is there", operations)] : [];
  const life = sinceErasure(operations);
  if (!life.some((one) => one.kind === "contact" && wasDone(one))) return [];
  if (!contact) return [violation("lost", address, "it was added, and is not there", operations)];
  const wrong: Violation[] = [];
  const names = possible(life, ({ sets }) => sets?.firstName);
  if (names.length > 0 && !names.includes(contact.firstName ?? ""))
    wrong.push(
      violation("lost", address, `its name is ${contact.firstName}, and was set to ${names}`, operations),
    );
  for (const { sets } of life.filter(wasDone))
    if (sets?.tag !== undefined && !contact.tags.includes(sets.tag))
      wrong.push(violation("lost", address, `its tag ${sets.tag} is missing`, operations));
  if (life.some((one) => one.sets?.isUnsubscribed && wasDone(one)) && contact.status !== "unsubscribed")
    wrong.push(violation("lost", address, `it was unsubscribed, and is ${contact.status}`, operations));
  return wrong;
}

/** A contact that is surely there is not answered 404. */
function judgeForgotten(address: string, operations: readonly Operation[]): Violation[] {
  return operations.flatMap((operation, n) => {
    if (operation.kind === "contact") return [];
    const notFound = operation.tries.some(
      ({ answer }) => answer.kind === "answered" && answer.status === 404,
    );
    const life = sinceErasure(operations.slice(0, n));
    const isThere = life.some((one) => one.kind === "contact" && wasDone(one));
    const goesItself = operation.kind === "erase" && operation.tries.length > 1;
    return notFound && isThere && !goesItself
      ? [
          violation("forgotten", address, `operation ${operation.n} found no contact, and it was there`, [
            operation,
          ]),
        ]
      : [];
  });
}

/** The last word of callers is an erasure that was done. */
function isErased(operations: readonly Operation[]): boolean {
  const last = operations.findLastIndex((one) => one.kind === "erase" && wasDone(one));
  return last !== -1 && !operations.slice(last + 1).some((one) => one.kind === "contact" && mayBeDone(one));
}

/** An erasure whose caller hung up may still be on its way when the next call has been answered. */
const LATE_ERASURE_MS = 45_000;

/**
 * What was done to the contact that is there now: nothing before an erasure that may have been done counts,
 * nor what was answered while it may still have been under way.
 */
function sinceErasure(operations: readonly Operation[]): readonly Operation[] {
  const last = operations.findLastIndex((one) => one.kind === "erase" && mayBeDone(one));
  const lostAt = Math.max(...operations.slice(0, last + 1).flatMap(lostErasures)); // -Infinity for none
  return operations
    .slice(last + 1)
    .filter(({ tries }) => (tries.at(-1)?.answeredAt ?? 0) > lostAt + LATE_ERASURE_MS);
}

/** When each try was given up of which nobody knows the fate. */
function lostErasures({ kind, tries }: Operation): number[] {
  return kind === "erase"
    ? tries.flatMap(({ answer, answeredAt }) => (isUnknown(answer) ? [answeredAt] : []))
    : [];
}

/** The last value that was surely set, and those after it that may have been. */
function possible(operations: readonly Operation[], of: (one: Operation) => string | undefined): string[] {
  let values: string[] = [];
  for (const operation of operations) {
    const value = of(operation);
    if (value === undefined) continue;
    if (wasDone(operation)) values = [value];
    else if (mayBeDone(operation) && values.length > 0) values.push(value);
  }
  return values;
}

function violation(rule: string, subject: string, what: string, operations: readonly Operation[]): Violation {
  return {
    rule,
    subject,
    what,
    evidence: operations
      .slice(-5)
      .map(
        (one) =>
          `operation ${one.n} ${one.kind} at ${clockOf(one.tries[0]?.askedAt ?? 0)}: ${one.tries.map(said).join("; ")}`,
      ),
  };
}
