/**
 * The load of a campaign: callers who do everything that the API offers, at even times, whether or not they
 * are answered. What the n-th arrival wants is drawn from the seed and n alone, so that it is the same
 * whatever the engine does; only those who change an e-mail pick one of those they know of.
 *
 * A caller with an Idempotency-Key repeats its request until it knows the outcome, as it is told to. One
 * without a key repeats only what was certainly not accepted.
 */
import { setMaxListeners } from "node:events";
import { type Random, randomOf } from "../../../src/capacity/random.ts";
import { pause } from "../../rig/pause.ts";
import type { Caller, Request } from "./caller.ts";
import type { Fleet, Member } from "./fleet.ts";
import {
  type Answer,
  idsIn,
  isUnknown,
  type Operation,
  type OperationKind,
  originOf,
  type Written,
} from "./history.ts";
import { type Account, QUOTA_MS, type Tenants } from "./tenants.ts";

const KEYED_SHARE = 0.6;
const HANGS_UP_SHARE = 0.02;
const HANGS_UP_MS_MAX = 40;
const TWICE_AT_ONCE_SHARE = 0.04;
const AGAIN_LATER_SHARE = 0.05;
const READS_BACK_SHARE = 0.2;
/** Of the e-mails of a batch: one of them refuses all of a strict one. */
const BROKEN_SHARE = { "batch strict": 0.01, "batch permissive": 0.1 };
const REPEAT_MS = 700;
/**
 * Twice as long after each try, as senders do: without that, those who wait are all that a busy machine has
 * time for.
 */
const REPEAT_MS_MAX = 12_000;
const UNKEYED_TRIES_MAX = 4;
const BATCH_MAX = 100;
const FULL_BATCH_SHARE = 0.1;
const USUAL_BATCH_MAX = 20;
const SMALL_BATCH_MAX = 4;
const SCHEDULED_MS = [1_000, 30_000] as const;
const CONTACTS = 60;
/** Who already has so much to do is left alone. */
const CONTACT_BACKLOG_MAX = 6;
/** Operations that follow from others have numbers of their own. */
const FOLLOWERS_FROM = 10_000_000;
const READY_EVERY_MS = 1_000;
/** What a store does to readiness is part of the campaign; anything else takes a process out of service. */
/** `west postgres` is that of another cell. */
const STORE_CHECKS = ["postgres", "redis", "migrations"];

/** How often each is wanted, of a hundred. */
const WANTED: readonly [share: number, what: Want][] = [
  [36, "single"],
  [10, "batch"],
  [8, "scheduled"],
  [5, "reschedule"],
  [5, "cancel"],
  [9, "contact"],
  [4, "edit"],
  [4, "tag"],
  [2, "erase"],
  [17, "event"],
];
type Want =
  | "single"
  | "batch"
  | "scheduled"
  | "reschedule"
  | "cancel"
  | "contact"
  | "edit"
  | "tag"
  | "erase"
  | "event";

export type LoadParts = {
  seed: number;
  perSecond: number;
  tenants: Tenants;
  fleet: Fleet;
  caller: Caller;
  operations: Operation[];
};

type Known = { id: string; account: Account };

export class Load {
  readonly #parts: LoadParts;
  readonly #end = new AbortController();
  readonly #givenUp = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #contacts = new Map<string, { queue: Promise<unknown>; length: number }>();
  readonly #out = new Set<Member>();
  #scheduled: Known[] = [];
  #waiting: Known[] = [];
  #followers = FOLLOWERS_FROM;
  #beganAt = 0;

  constructor(parts: LoadParts) {
    this.#parts = parts;
  }

  /** Until it is told to end. */
  async run(): Promise<void> {
    const { perSecond } = this.#parts;
    const { signal } = this.#end;
    setMaxListeners(0, signal, this.#givenUp.signal);
    this.#beganAt = Date.now();
    const watching = this.#watchReadiness();
    for (let n = 0; !signal.aborted; n++) {
      const due = this.#beganAt + (n * 1000) / perSecond;
      if (due > Date.now()) await pause(due - Date.now(), signal);
      if (!signal.aborted) this.#track(this.#arrive(n));
    }
    await watching;
  }

  /** Nobody comes any more; who is there repeats until the outcome is known, or for so long. */
  async finish(msMax: number): Promise<void> {
    this.#end.abort();
    const patience = setTimeout(() => this.#givenUp.abort(), msMax);
    while (this.#running.size > 0) await Promise.all(this.#running);
    clearTimeout(patience);
  }

  #track(work: Promise<unknown>): void {
    const tracked = work.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  async #arrive(n: number): Promise<void> {
    const random = randomOf(this.#parts.seed * 1_000_003 + n);
    const want = drawWant(random);
    switch (want) {
      case "single":
      case "scheduled":
      case "batch":
        return this.#send(n, want, random);
      case "reschedule":
      case "cancel":
        return this.#change(n, want, random);
      default:
        return this.#meetContact(n, want, random);
    }
  }

  async #send(n: number, want: "single" | "scheduled" | "batch", random: Random): Promise<void> {
    const account = this.#pickAccount(random);
    const kind: OperationKind =
      want !== "batch" ? "single" : random() < 0.5 ? "batch strict" : "batch permissive";
    const isKeyed = random() < KEYED_SHARE;
    const operation = this.#begin(n, kind, account, isKeyed ? `key-${this.#parts.seed}-${n}` : null);
    const size = want === "batch" ? sizeOf(account, random) : 1;
    const letters = Array.from({ length: size }, (_, index) =>
      writeLetter(operation, index, want === "scheduled", account === this.#parts.tenants.shop, random),
    );
    operation.mails = letters.map(({ written }) => written);
    const bodies = letters.map(({ body }) => body);
    const request: Request = {
      method: "POST",
      path: want === "batch" ? "/emails/batch" : "/emails",
      body: JSON.stringify(want === "batch" ? bodies : bodies[0]),
      headers: {
        ...(operation.idempotencyKey === null ? {} : { "idempotency-key": operation.idempotencyKey }),
        ...(kind === "batch permissive" ? { "x-batch-validation": "permissive" } : {}),
      },
    };
    if (isKeyed && random() < TWICE_AT_ONCE_SHARE)
      this.#track(this.#try(operation, account, request, random));
    const answer = await this.#perform(operation, account, request, random);
    if (answer.kind !== "answered" || answer.status !== 200) return;
    const ids = idsIn(answer.body);
    const isWaiting = account.isCapped && want !== "scheduled";
    for (const id of ids)
      if (want === "scheduled") this.#scheduled.push({ id, account });
      else if (isWaiting) this.#waiting.push({ id, account });
    if (ids[0] !== undefined && random() < READS_BACK_SHARE) await this.#read(ids[0], account, random);
    if (isKeyed && random() < AGAIN_LATER_SHARE) {
      await pause(random() * 5_000, this.#end.signal);
      await this.#perform(operation, account, request, random);
    }
  }

  async #read(emailId: string, account: Account, random: Random): Promise<void> {
    const operation = this.#begin(this.#followers++, "read", account, null);
    operation.emailId = emailId;
    await this.#perform(operation, account, { method: "GET", path: `/emails/${emailId}` }, random);
  }

  /** Another time for an e-mail that is scheduled, or its end; also for one that waits for a cap. */
  async #change(n: number, kind: "reschedule" | "cancel", random: Random): Promise<void> {
    const known = kind === "cancel" && random() < 0.3 ? this.#waiting : this.#scheduled;
    const at = Math.floor(random() * known.length);
    const [picked] = known.slice(at);
    if (!picked) return;
    known[at] = known.at(-1) as Known;
    known.pop();
    const { id, account } = picked;
    const newTime = Date.now() + Math.round(SCHEDULED_MS[0] + random() * SCHEDULED_MS[1]);
    const operation = this.#begin(n, kind, account, null);
    operation.emailId = id;
    if (kind === "cancel") {
      await this.#perform(operation, account, { method: "POST", path: `/emails/${id}/cancel` }, random);
      return;
    }
    operation.newTime = newTime;
    const body = JSON.stringify({ scheduled_at: new Date(newTime).toISOString() });
    const answer = await this.#perform(
      operation,
      account,
      { method: "PATCH", path: `/emails/${id}`, body },
      random,
    );
    if (answer.kind === "answered" && answer.status === 200) this.#scheduled.push({ id, account });
  }

  /** What is done to one contact is done in order, so that it is known what must come of it. */
  #meetContact(
    n: number,
    kind: "contact" | "edit" | "tag" | "erase" | "event",
    random: Random,
  ): Promise<void> {
    const address = addressOf(Math.floor(random() * CONTACTS));
    const { shop } = this.#parts.tenants;
    const key = kind === "event" && random() < KEYED_SHARE ? `key-${this.#parts.seed}-${n}` : null;
    const contact = this.#contacts.get(address) ?? { queue: Promise.resolve(), length: 0 };
    if (contact.length >= CONTACT_BACKLOG_MAX) return Promise.resolve();
    this.#contacts.set(address, contact);
    const operation = this.#begin(n, kind, shop, key);
    operation.address = address;
    const request = contactRequest(operation, shop.audienceId, random);
    contact.length++;
    const done = contact.queue.then(async () => {
      await this.#perform(operation, shop, request, random);
      contact.length--;
    });
    contact.queue = done;
    return done;
  }

  #begin(n: number, kind: OperationKind, account: Account, key: string | null): Operation {
    const operation = newOperation(n, kind, account, key);
    this.#parts.operations.push(operation);
    return operation;
  }

  /** Asks until the outcome is known, or until nobody asks again. */
  async #perform(operation: Operation, account: Account, request: Request, random: Random): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      const answer = await this.#try(operation, account, request, random);
      if (!isToBeRepeated(operation, answer, tries)) return answer;
      const ms = Math.min(REPEAT_MS * 2 ** (tries - 1), REPEAT_MS_MAX);
      await pause(ms * (0.5 + random()), this.#givenUp.signal);
      if (this.#givenUp.signal.aborted) return answer;
    }
  }

  async #try(operation: Operation, account: Account, request: Request, random: Random): Promise<Answer> {
    const member = this.#pickProcess(random);
    const abortMs = random() < HANGS_UP_SHARE ? random() * HANGS_UP_MS_MAX : null;
    const askedAt = Date.now();
    if (!member?.port || !member.life) return { kind: "refused" };
    const process = member.life.name;
    operation.open++;
    const answer = await this.#parts.caller.ask(member.port, account.key, request, abortMs);
    operation.open--;
    operation.tries.push({ process, askedAt, answeredAt: Date.now(), answer });
    return answer;
  }

  #pickProcess(random: Random): Member | undefined {
    const serving = this.#parts.fleet
      .of("api")
      .filter((member) => member.port !== null && !this.#out.has(member));
    return serving[Math.floor(random() * serving.length)];
  }

  #pickAccount(random: Random): Account {
    const { big, quotas, capped, shop } = this.#parts.tenants;
    const drawn = random();
    if (drawn < 0.15) return capped;
    if (drawn < 0.2) return shop;
    const now = quotas[Math.floor((Date.now() - this.#beganAt) / QUOTA_MS)];
    if (drawn < 0.45 && now) return now;
    return big[Math.floor(random() * big.length)] as Account;
  }

  /** As a balancer does: a process that says of itself that it is not fit gets no requests. */
  async #watchReadiness(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      await Promise.all(
        this.#parts.fleet.of("api").map(async (member) => {
          if (await isFit(member)) this.#out.delete(member);
          else this.#out.add(member);
        }),
      );
      await pause(READY_EVERY_MS, signal);
    }
    this.#out.clear();
  }
}

/** It answers at all, and finds nothing wrong with itself. */
async function isFit({ port }: Member): Promise<boolean> {
  if (port === null) return true;
  const ask = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(READY_EVERY_MS) });
  try {
    await ask("/healthz");
  } catch {
    return false;
  }
  try {
    const { checks = {} } = (await (await ask("/readyz")).json()) as { checks?: Record<string, string> };
    return Object.entries(checks).every(
      ([name, state]) => state === "ok" || STORE_CHECKS.includes(name.slice(name.indexOf(" ") + 1)),
    );
  } catch {
    return true; // it waits for a store
  }
}

function newOperation(n: number, kind: OperationKind, { id }: Account, key: string | null): Operation {
  return {
    n,
    kind,
    workspaceId: id,
    idempotencyKey: key,
    mails: [],
    emailId: null,
    newTime: null,
    address: null,
    sets: null,
    event: null,
    tries: [],
    open: 0,
  };
}

function drawWant(random: Random): Want {
  let drawn = random() * 100;
  for (const [share, what] of WANTED) {
    drawn -= share;
    if (drawn < 0) return what;
  }
  return "single";
}

/**
 * Recipients are nobody else's, so that the sink knows by the address alone which e-mail it is about. Only
 * the shop also writes to its contacts, who may be erased while the mail is on its way.
 */
function writeLetter(
  operation: Operation,
  index: number,
  isScheduled: boolean,
  isToPeople: boolean,
  random: Random,
): { written: Written; body: object } {
  const origin = originOf(operation, index);
  const { kind } = operation;
  const isValid = kind === "single" || random() >= BROKEN_SHARE[kind as keyof typeof BROKEN_SHARE];
  const address = (n: number) => `${drawManner(random)}+${operation.n}.${index}.${n}@receiver.test`;
  const first = isToPeople && random() < 0.5 ? addressOf(Math.floor(random() * CONTACTS)) : address(0);
  const to = random() < 0.85 ? [first] : [first, address(1)];
  const cc = random() < 0.05 ? [address(2)] : [];
  const scheduledAt = isScheduled
    ? Date.now() + Math.round(SCHEDULED_MS[0] + random() * SCHEDULED_MS[1])
    : null;
  return {
    written: { isValid, recipients: [...to, ...cc], counted: to.length, scheduledAt },
    body: {
      from: "Acme <orders@acme.test>",
      to: isValid ? to : "nobody",
      ...(cc.length > 0 && { cc }),
      subject: `c ${origin}`,
      html: `<p>Order ${origin}, thank you.</p>`,
      headers: { "X-Campaign": origin },
      ...(scheduledAt !== null && { scheduled_at: new Date(scheduledAt).toISOString() }),
    },
  };
}

function sizeOf({ isCapped }: Account, random: Random): number {
  if (isCapped) return 2 + Math.floor(random() * SMALL_BATCH_MAX);
  return random() < FULL_BATCH_SHARE ? BATCH_MAX : 2 + Math.floor(random() * USUAL_BATCH_MAX);
}

/** Most are taken at once; some later, some never, and some so late that their bag is kept for them. */
function drawManner(random: Random): string {
  const drawn = random();
  if (drawn < 0.06) return "once-451";
  if (drawn < 0.08) return "refuse-550";
  if (drawn < 0.1) return "slow-5000";
  return "ok";
}

function addressOf(contact: number): string {
  return `contact-${contact}@people.test`;
}

function contactRequest(operation: Operation, audienceId: string, random: Random): Request {
  const { n, kind, address, idempotencyKey } = operation;
  const all = `/audiences/${audienceId}/contacts`;
  const one = `${all}/${encodeURIComponent(address as string)}`;
  switch (kind) {
    case "contact":
      operation.sets = { firstName: `name-${n}` };
      return { method: "POST", path: all, body: JSON.stringify({ email: address, first_name: `name-${n}` }) };
    case "edit": {
      const isUnsubscribed = random() < 0.1;
      operation.sets = { firstName: `name-${n}`, ...(isUnsubscribed && { isUnsubscribed: true as const }) };
      const body = { first_name: `name-${n}`, ...(isUnsubscribed && { unsubscribed: true }) };
      return { method: "PATCH", path: one, body: JSON.stringify(body) };
    }
    case "tag":
      operation.sets = { tag: `tag-${n % 7}` };
      return { method: "POST", path: `${one}/tags`, body: JSON.stringify({ add: [`tag-${n % 7}`] }) };
    case "erase":
      return { method: "DELETE", path: `${one}?mode=erase` };
    default:
      operation.event = random() < 0.75 ? "signed.up" : "ordered";
      return {
        method: "POST",
        path: "/events",
        body: JSON.stringify({
          audience_id: audienceId,
          email: address,
          name: operation.event,
          properties: { operation: n },
        }),
        headers: idempotencyKey === null ? {} : { "idempotency-key": idempotencyKey },
      };
  }
}

function isToBeRepeated({ idempotencyKey }: Operation, answer: Answer, tries: number): boolean {
  const isRefused =
    answer.kind === "refused" || (answer.kind === "answered" && [503, 409].includes(answer.status));
  if (idempotencyKey !== null) return isRefused || isUnknown(answer);
  return isRefused && tries < UNKEYED_TRIES_MAX;
}
