/**
 * Committing events: the event, the runs it starts and its idempotency claim, those of many requests in one
 * transaction of the group commit.
 *
 * Promises: what is answered was written together with every run it starts. Whether a contact may enter is
 * the condition of one upsert per automation and contact, so two events at the same time start no more runs
 * than one after the other would. An event whose contact is not in the audience leaves nothing behind, not
 * even its claim.
 */

import { newId } from "../../ids.ts";
import {
  ComparingBudget,
  type Filter,
  type Happening,
  holdsAll,
  type Person,
  TooMuchCompared,
  type Value,
} from "../../rules/filters.ts";
import { turnIfLate } from "../../turn.ts";
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql, Statement } from "../db/connect.ts";
import { GroupCommit, type GroupCommitOptions, settled, type Transaction } from "../db/groupcommit.ts";
import { arrayOf, json, oneOf, orNull, type RowOf, type ShapeFor, text, typed } from "../db/rowshape.ts";
import { nowIn } from "../db/time.ts";
import { answerClaims, CLAIM_HOURS, type Claim, dropClaims, takeClaims } from "../mail/idempotency.ts";
import { beginStarting, type EventListener, findListeners, readListeners } from "./automations.ts";
import { FilterCache } from "./filtercache.ts";

export const personRow = {
  id: text,
  email: text,
  first_name: orNull(text),
  last_name: orNull(text),
  status: oneOf("pending", "subscribed", "unsubscribed"),
  tags: arrayOf(text),
  properties: json<{ readonly [key: string]: Value }>(),
} satisfies ShapeFor<Person>;

/** Of the claims of an audience, before its id. */
const SCOPE = "event ";

/** Where every run begins. */
const FIRST_STEP = "0";

export type EventEntry = {
  workspaceId: string;
  audienceId: string;
  identity: string;
  id: string;
  name: string;
  /** Compact JSON, or null. */
  properties: string | null;
  /** The time that a test gives, in ms; 0: that of the transaction. */
  given: number;
  bytes: number;
  claim: { key: string; digest: string } | null;
  answer(contactId: string): string;
};

export type EventVerdict =
  | { kind: "accepted"; answer: string }
  /** The idempotency key was used before: with what digest, and what was answered. */
  | { kind: "claimed"; claim: Claim }
  | { kind: "no contact" }
  /** The filters of the automations that it may start compare too much with it. */
  | { kind: "too much" };
export type EventCommit = GroupCommit<EventEntry, EventVerdict>;

const addressedEventRow = { ...personRow, workspaceId: text, audienceId: text, identity: text };
type AddressedEvent = RowOf<typeof addressedEventRow>;
type FilteringListener = EventListener & { filters: readonly Filter[] };

/**
 * A run that starts if its entry finds the place free; one that `follows` another of its group needs none.
 */
type NewRun = {
  workspaceId: string;
  automationId: string;
  contactId: string;
  audienceId: string;
  id: string;
  version: number;
  eventId: string;
  at: string;
  enteredBy: string | null;
  follows: boolean;
};

export function eventCommit(options: GroupCommitOptions): EventCommit {
  const filters = new FilterCache();
  return new GroupCommit(
    {
      what: "events",
      open: (group) => new EventTransaction(group, filters),
      rowsOf: () => 1,
      bytesOf: ({ bytes }) => bytes,
      nameOf: ({ claim, workspaceId, audienceId }) => claim && `${workspaceId} ${audienceId} ${claim.key}`,
    },
    options,
  );
}

/** What was answered to these bytes under this key, in any of the audiences (null: of all). */
export async function answeredBefore(
  sql: Sql,
  workspaceId: string,
  audienceIds: readonly string[] | null,
  { key, digest }: NonNullable<EventEntry["claim"]>,
  given: number,
): Promise<string | null> {
  // of a deleted audience too: its row stays
  const [held] = await typed(sql, { answer: text })`
    select c.answer::text from audience a
    join claim c on c.workspace_id = a.workspace_id and c.scope = ${SCOPE} || a.id and c.key = ${key}
    where a.workspace_id = ${workspaceId}
      ${audienceIds === null ? sql`` : sql`and a.id = any(${[...audienceIds]}::uuid[])`}
      and c.created_at > ${nowIn(sql, given)} - make_interval(hours => ${CLAIM_HOURS})
      and c.digest = decode(${digest}, 'hex')
    limit 1`;
  return held?.answer ?? null;
}

class EventTransaction implements Transaction<EventEntry, EventVerdict> {
  readonly #group: readonly EventEntry[];
  readonly #given: number;
  readonly #verdicts = new Map<EventEntry, EventVerdict>();
  readonly #contacts = new Map<string, AddressedEvent>();
  readonly #listeners = new Map<string, FilteringListener[]>();
  readonly #filters: FilterCache;
  readonly #accepted: { event: EventEntry; contactId: string }[] = [];
  readonly #runs: NewRun[] = [];
  #held = new Map<string, Claim>();

  constructor(group: readonly EventEntry[], filters: FilterCache) {
    this.#group = group;
    this.#filters = filters;
    this.#given = Math.max(...group.map(({ given }) => given));
  }

  async read(tx: Sql): Promise<void> {
    const claims = this.#group.flatMap((event) => claimOf(event) ?? []);
    const listened = distinct(this.#group, listenerKey);
    const [, contacts, found, held] = await settled([
      beginStarting(
        tx,
        this.#group.map(({ workspaceId }) => workspaceId),
      ).execute(),
      keepContacts(tx, distinct(this.#group, contactKey)),
      findListeners(tx, listened),
      claims.length > 0 ? takeClaims(tx, claims, this.#given) : Promise.resolve([]),
    ]);
    for (const contact of contacts) this.#contacts.set(contactKey(contact), contact);
    for (const one of await this.#withFilters(tx, listened, found)) {
      const key = listenerKey({ workspaceId: one.workspaceId, audienceId: one.audienceId, name: one.event });
      this.#listeners.set(key, [...(this.#listeners.get(key) ?? []), one]);
    }
    this.#held = new Map(held.map((claim) => [claimKey(claim), claim]));
  }

  /** One whose filters are not kept is read as a whole: it may have changed since it was found. */
  async #withFilters(
    tx: Sql,
    listened: readonly EventEntry[],
    found: readonly EventListener[],
  ): Promise<FilteringListener[]> {
    const known = found.flatMap((one): FilteringListener[] => {
      const filters = this.#filters.get(one);
      return filters ? [{ filters, ...one }] : [];
    });
    if (known.length === found.length) return known;
    const ids = new Set(known.map(({ id }) => id));
    const missing = found.filter(({ id }) => !ids.has(id));
    const read = await readListeners(
      tx,
      listened,
      missing.map(({ id }) => id),
    );
    for (const one of read) this.#filters.keep(one, one.filters, one.filterChars);
    return [...known, ...read].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async write(tx: Sql, transactionTime: number): Promise<Statement[]> {
    const now = this.#given || transactionTime;
    const untaken = await this.#decide(now);
    const writes: Statement[] = [];
    if (untaken.length > 0) writes.push(dropClaims(tx, untaken));
    if (this.#accepted.length === 0) return writes;
    writes.push(insertEvents(tx, this.#accepted, new Date(now)));
    if (this.#runs.length > 0) writes.push(insertRuns(tx, this.#runs));
    const answered = this.#accepted.flatMap(({ event, contactId }) => {
      const claim = claimOf(event);
      return claim ? [{ ...claim, answer: event.answer(contactId) }] : [];
    });
    if (answered.length > 0) writes.push(answerClaims(tx, answered));
    return writes;
  }

  verdictOf(event: EventEntry): EventVerdict {
    return this.#verdicts.get(event) as EventVerdict;
  }

  committed(): void {}

  /** Fills in every verdict; hands back the claims that were taken in vain. */
  async #decide(now: number): Promise<Claim[]> {
    const untaken: Claim[] = [];
    const entering = new Map<string, NewRun>();
    for (const event of this.#group) {
      const claim = claimOf(event);
      const holder = claim && this.#held.get(claimKey(claim));
      const contact = this.#contacts.get(contactKey(event));
      if (holder) this.#verdicts.set(event, { kind: "claimed", claim: holder });
      else if (!contact) {
        this.#verdicts.set(event, { kind: "no contact" });
        if (claim) untaken.push(claim);
      } else {
        const started = await this.#startedBy(event, contact);
        if (started) {
          this.#verdicts.set(event, { kind: "accepted", answer: event.answer(contact.id) });
          this.#accepted.push({ event, contactId: contact.id });
          this.#start(event, contact, started, { entering, now });
        } else {
          this.#verdicts.set(event, { kind: "too much" });
          if (claim) untaken.push(claim);
        }
      }
    }
    return untaken;
  }

  /** The automations whose filters hold; null: these compare too much. */
  async #startedBy(event: EventEntry, contact: AddressedEvent): Promise<FilteringListener[] | null> {
    const listeners = this.#listeners.get(listenerKey(event)) ?? [];
    if (listeners.length === 0) return [];
    const properties =
      event.properties === null ? {} : (JSON.parse(event.properties) as { [key: string]: Value });
    const happening: Happening = { name: event.name, properties };
    const budget = new ComparingBudget();
    const started: FilteringListener[] = [];
    for (const listener of listeners) {
      const late = turnIfLate();
      if (late) await late;
      try {
        if (holdsAll(listener.filters, contact, happening, budget)) started.push(listener);
      } catch (error) {
        if (error instanceof TooMuchCompared) return null;
        throw error;
      }
    }
    return started;
  }

  /** `entering`: who of this group already asks for the place of an automation and contact. */
  #start(
    event: EventEntry,
    contact: AddressedEvent,
    started: readonly EventListener[],
    { entering, now }: { entering: Map<string, NewRun>; now: number },
  ): void {
    for (const listener of started) {
      const place = `${contact.workspaceId} ${listener.id} ${contact.id}`;
      const first = entering.get(place);
      // whoever comes second in one group comes too early for every other policy
      if (first && listener.entry !== "every") continue;
      const run: NewRun = {
        workspaceId: event.workspaceId,
        automationId: listener.id,
        contactId: contact.id,
        audienceId: event.audienceId,
        id: newId(now),
        version: listener.version,
        eventId: event.id,
        at: new Date(now).toISOString(),
        enteredBy: enteredBy(listener, now),
        follows: first !== undefined,
      };
      if (!first) entering.set(place, run);
      this.#runs.push(run);
    }
  }
}

/**
 * What a newcomer asks of the last entry: that it was made by this time, or (null) that its run has ended.
 */
function enteredBy({ entry, cooldownMs }: EventListener, now: number): string | null {
  switch (entry) {
    case "every":
      return "infinity";
    case "once":
      return "-infinity";
    case "cooldown":
      return new Date(now - (cooldownMs as number)).toISOString();
    case "one_active":
      return null;
  }
}

/** Found by address, and kept from being erased until the commit. */
async function keepContacts(
  tx: Sql,
  wanted: readonly Pick<EventEntry, "workspaceId" | "audienceId" | "identity">[],
): Promise<AddressedEvent[]> {
  return typed(tx, addressedEventRow)`
    select c.workspace_id as "workspaceId", c.audience_id as "audienceId", c.identity, c.id, c.email,
      c.first_name,
           c.last_name, c.status, c.tags, c.properties
    from unnest(${wanted.map((w) => w.workspaceId)}::uuid[], ${wanted.map((w) => w.audienceId)}::uuid[],
                ${wanted.map((w) => w.identity)}::text[]) as w(workspace_id, audience_id, identity)
    join contact c using (workspace_id, audience_id, identity)
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id
    where c.archived_at is null and a.deleted_at is null
    order by c.workspace_id, c.id for key share of c`.execute();
}

function insertEvents(
  tx: Sql,
  accepted: readonly { event: EventEntry; contactId: string }[],
  at: Date,
): Statement {
  const of = (pick: (event: EventEntry) => string): string =>
    plainArray(accepted.map(({ event }) => pick(event)));
  const textsOf = (pick: (event: EventEntry) => string | null) =>
    texts(
      tx,
      accepted.map(({ event }) => pick(event)),
    );
  return tx`
    insert into event (workspace_id, contact_id, id, audience_id, name, properties, created_at)
    select workspace_id, contact_id, id, audience_id, name, properties::json, ${at}
    from unnest(${of((e) => e.workspaceId)}::uuid[],
      ${plainArray(accepted.map(({ contactId }) => contactId))}::uuid[],
                ${textsOf((e) => e.id)}, ${of((e) => e.audienceId)}::uuid[], ${textsOf((e) => e.name)},
                ${textsOf((e) => e.properties)})
      as e(workspace_id, contact_id, id, audience_id, name, properties)`;
}

function insertRuns(tx: Sql, runs: readonly NewRun[]): Statement {
  const of = (pick: (run: NewRun) => string | number | boolean | null): string => plainArray(runs.map(pick));
  return tx`
    with wanted as (
      select * from unnest(${of((r) => r.workspaceId)}::uuid[], ${of((r) => r.automationId)}::uuid[],
        ${of((r) => r.contactId)}::uuid[], ${of((r) => r.audienceId)}::uuid[], ${of((r) => r.id)}::uuid[],
        ${of((r) => r.version)}::int[], ${texts(
          tx,
          runs.map((r) => r.eventId),
        )}, ${of((r) => r.at)}::timestamptz[],
        ${of((r) => r.enteredBy)}::text[]::timestamptz[], ${of((r) => r.follows)}::bool[])
        as w(workspace_id, automation_id, contact_id, audience_id, id, version, event_id, at, entered_by,
          follows)
    ), entered as (
      insert into entry as last (workspace_id, automation_id, contact_id, run_id, entered_at, is_open,
        entered_by)
      select workspace_id, automation_id, contact_id, id, at, true, entered_by from wanted where not follows
      order by workspace_id, automation_id, contact_id
      on conflict (workspace_id, automation_id, contact_id) do update
        set run_id = excluded.run_id, entered_at = excluded.entered_at, is_open = true,
          entered_by = excluded.entered_by
        where coalesce(last.entered_at <= excluded.entered_by, not last.is_open)
      returning run_id
    )
    insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position,
      wake_at, created_at)
    select workspace_id, id, automation_id, version, audience_id, contact_id, event_id, ${FIRST_STEP}, at, at
    from wanted where follows or id in (select run_id from entered)`;
}

function claimOf({ workspaceId, audienceId, claim }: EventEntry): Claim | null {
  return claim && { workspaceId, scope: scopeOf(audienceId), ...claim, answer: "null" };
}

function scopeOf(audienceId: string): string {
  return `${SCOPE}${audienceId}`;
}

function claimKey({ workspaceId, scope, key }: Claim): string {
  return `${workspaceId} ${scope} ${key}`;
}

function contactKey({
  workspaceId,
  audienceId,
  identity,
}: Pick<EventEntry, "workspaceId" | "audienceId" | "identity">) {
  return `${workspaceId} ${audienceId} ${identity}`;
}

function listenerKey({
  workspaceId,
  audienceId,
  name,
}: Pick<EventEntry, "workspaceId" | "audienceId" | "name">) {
  return `${workspaceId} ${audienceId} ${name}`;
}

function distinct(group: readonly EventEntry[], keyOf: (event: EventEntry) => string): EventEntry[] {
  return [...new Map(group.map((event) => [keyOf(event), event])).values()];
}
