/**
 * Histories for tests of the auditor: small ones in which nothing is wrong, to which each test adds what it
 * is about.
 */
import type {
  Aftermath,
  Answer,
  Copy,
  FinalEmail,
  History,
  Life,
  Operation,
  Spell,
  Tenant,
  Try,
} from "../fault/campaign/history.ts";

/** Seconds of the campaign, as times are written in its tests. */
export const second = (seconds: number): number => Date.UTC(2026, 10, 18, 12) + seconds * 1_000;

export const shop: Tenant = { id: "w1", name: "shop", quota: null, isCapped: false };

export function answered(status: number, body: unknown = {}, more: Partial<Try> = {}): Try {
  return tried({ kind: "answered", status, body }, more);
}

export function tried(answer: Answer, more: Partial<Try> = {}): Try {
  return { process: "api-1.1", askedAt: second(1), answeredAt: second(2), answer, ...more };
}

/** One e-mail to one recipient, accepted under the id `mail-N`. */
export function sent(n: number, more: Partial<Operation> = {}): Operation {
  return {
    n,
    kind: "single",
    workspaceId: shop.id,
    idempotencyKey: null,
    mails: [{ isValid: true, recipients: [recipientOf(n)], counted: 1, scheduledAt: null }],
    emailId: null,
    newTime: null,
    address: null,
    sets: null,
    event: null,
    tries: [answered(200, { id: `mail-${n}` })],
    open: 0,
    ...more,
  };
}

export function recipientOf(n: number): string {
  return `ok+${n}.0.0@receiver.test`;
}

export function copy(n: number, more: Partial<Copy> = {}): Copy {
  return {
    messageId: `mail-${n}@acme.test`,
    emailId: `mail-${n}`,
    origin: `${n}/0`,
    recipients: [recipientOf(n)],
    process: "deliver-1.1",
    connection: 1,
    begunAt: second(3),
    completeAt: second(3),
    answeredAt: second(3),
    closedAt: null,
    closedPolitely: false,
    ...more,
  };
}

export function life(name: string, more: Partial<Life> = {}): Life {
  const member = name.slice(0, name.lastIndexOf("."));
  const role = member.slice(0, member.lastIndexOf("-")) as Life["role"];
  const times = { startedAt: second(0), readyAt: second(0), told: null, ended: null };
  return { name, member, role, ...times, skewMs: 0, lastWords: [], ...more };
}

export function killed(name: string, at: number): Life {
  return life(name, {
    told: { at: second(at), signal: "SIGKILL" },
    ended: { at: second(at), status: null, signal: "SIGKILL" },
  });
}

export function spell(kind: Spell["kind"], member: string | null, from: number, to: number | null): Spell {
  return { kind, member, from: second(from), to: to === null ? null : second(to) };
}

export function delivered(n: number, more: Partial<FinalEmail> = {}): FinalEmail {
  return {
    id: `mail-${n}`,
    workspaceId: shop.id,
    status: "delivered",
    subject: `c ${n}/0`,
    to: [recipientOf(n)],
    scheduledAt: null,
    createdAt: second(2),
    isAutomated: false,
    marks: "d",
    weight: 1,
    attempts: 1,
    events: [{ type: "delivered", recipient: recipientOf(n) }],
    ...more,
  };
}

export function historyOf(more: Partial<History> = {}): History {
  const lives = [life("api-1.1"), life("deliver-1.1"), life("deliver-2.1")];
  return {
    beganAt: second(0),
    tenants: [shop],
    caps: [],
    operations: [],
    copies: [],
    named: new Map(),
    lives,
    spells: [],
    moves: [],
    ...more,
  };
}

export function aftermathOf(more: Partial<Aftermath> = {}): Aftermath {
  return {
    emails: [],
    runs: [],
    contacts: [],
    events: [],
    ledgers: [],
    tallies: [],
    leftBags: 0,
    leftDue: 0,
    inTwoCells: [],
    ...more,
  };
}

/** The operations of these numbers, each accepted, delivered once, and settled. */
export function perfect(...numbers: number[]): { history: History; after: Aftermath } {
  const recipients = numbers.map(recipientOf);
  const count = numbers.length;
  return {
    history: historyOf({
      operations: numbers.map((n) => sent(n)),
      copies: numbers.map((n) => copy(n)),
      named: new Map(recipients.map((recipient) => [recipient, { times: 1, replies: ["250 2.0.0 taken"] }])),
    }),
    after: aftermathOf({
      emails: numbers.map((n) => delivered(n)),
      ledgers: [{ workspaceId: shop.id, monthUsed: count, dayUsed: count, waiting: 0 }],
      tallies: [
        { workspaceId: shop.id, attempted: count, delivered: count, deferred: 0, bounced: 0, failed: 0 },
      ],
    }),
  };
}
