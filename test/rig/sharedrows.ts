/**
 * Rows of every table that several writers share: two workspaces with e-mails in every state, bags, contacts,
 * runs and all the rest. `refill` puts every row back as it was, whatever the writers made of them.
 */
import { randomOf } from "../../src/capacity/random.ts";
import { floorId, newId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import type { WaitReason } from "../../src/rules/reason.ts";

const SETUP_MS_MAX = 30_000;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/**
 * How statements find their rows: as they are planned while tables are small, or row by row in the order in
 * which they were asked for, as they are planned when tables are large.
 */
export type Plans = "small tables" | "large tables";

/**
 * How long a row that was changed keeps others waiting: without it, transactions of a few rows hardly ever
 * meet.
 */
const LINGER_SECONDS = 0.0004;

export type SharedEmail = {
  id: string;
  bulk: boolean;
  status: string;
  why: WaitReason | null;
  bagId: string | null;
};
export type SharedBag = { id: string; token: string | null; epoch: string | null; emailIds: string[] };
export type SharedContact = { id: string; audienceId: string; identity: string; eventIds: string[] };
export type SharedRun = { id: string; automationId: string; contact: SharedContact; eventId: string };

export type SharedWorkspace = {
  id: string;
  handle: string;
  /** Two that are in use, and one that was deleted. */
  audiences: { id: string; isDeleted: boolean }[];
  contacts: SharedContact[];
  /** One for each audience that is in use. */
  automations: { id: string; audienceId: string; name: string }[];
  runs: SharedRun[];
  emails: SharedEmail[];
  bags: SharedBag[];
  keys: string[];
  templates: { id: string; externalId: string }[];
  erasureId: string;
  /** One that a worker holds, and one that nobody holds. */
  webhooks: string[];
};

export const CLAIM_KEYS = ["k0", "k1", "k2"];
export const ATTACHMENT_HASHES = ["a1".repeat(32), "b2".repeat(32)];
export const DOMAIN = "mail.example";
export const SELECTORS = ["s0", "s1", "s2"];
export const EVENT = "signup";
export const WORKER = "worker";
/** Of events that were not taken: later than all that writers number. */
export const SEQUENCE = 1_000_000_000;
export const WEBHOOK_TOKEN = "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90";
const DESTINATION = "example.net";
const EPOCH = "epoch-1";

/** What an e-mail of the fixture is, and in which of the bags it travels. */
type Planned = { status: string; why: WaitReason | null; bag: number | null; isListed?: boolean };
const EMAILS: Planned[] = [
  ...repeat<Planned>(3, { status: "scheduled", why: "scheduled", bag: null }),
  ...repeat<Planned>(3, { status: "waiting", why: "cap_hour", bag: null }),
  ...repeat<Planned>(3, { status: "deferred", why: "deferred", bag: null }),
  ...repeat<Planned>(2, { status: "accepted", why: null, bag: 0 }),
  { status: "deferred", why: null, bag: 0 },
  ...repeat<Planned>(2, { status: "accepted", why: null, bag: 1 }),
  { status: "accepted", why: null, bag: 2 },
  { status: "accepted", why: null, bag: 3 },
  // packed by an older version: only the bag names it
  { status: "accepted", why: null, bag: null, isListed: true },
  { status: "delivered", why: null, bag: null },
];

export class SharedRows {
  /** The time of all that is not older on purpose. */
  readonly now: number;
  readonly workspaces: readonly SharedWorkspace[];
  readonly #sql: Sql;
  readonly #scripts: ReadonlyMap<string, { remove: string; insert: string }>;
  readonly #random: () => number;

  static async make(url: string, seed: number, plans: Plans): Promise<SharedRows> {
    const sql = connectRecord(url, "setup", SETUP_MS_MAX);
    const rows = new SharedRows(sql, Date.now(), seed);
    await rows.#prepare(new URL(url).pathname.slice(1), plans);
    return rows;
  }

  private constructor(sql: Sql, now: number, seed: number) {
    this.#sql = sql;
    this.now = now;
    this.#random = randomOf(seed);
    this.workspaces = [0, 1].map((n) => plan(n, now));
    this.#scripts = scriptsOf(this.workspaces, now);
  }

  /** Only these tables, as far as it is known which ones were touched. Nobody may be at work on the rows. */
  async refill(touched: ReadonlySet<string> = new Set(this.#scripts.keys())): Promise<void> {
    const stale = TABLES.filter(({ name, parent }) => touched.has(name) || (parent && touched.has(parent)));
    const scripts = stale.flatMap(({ name }) => this.#scripts.get(name) ?? []);
    const removes = scripts.map(({ remove }) => remove).reverse();
    const inserts = scripts.map(({ insert }) => insert);
    // a small cap leaves some of what is due waiting
    const cap = this.chance(0.5) ? 5 : 1_000;
    // nothing overtakes what waits
    const waiting = this.chance(0.5) ? "" : ", waiting = 0, waiting_bulk = 0";
    const caps = `update ledger set cap_hour = ${cap}, cap_day = 10 * ${cap}${waiting};`;
    await this.#sql.unsafe([...removes, ...inserts, touched.has("ledger") ? caps : ""].join("\n"));
  }

  close(): Promise<void> {
    return this.#sql.end({ timeout: 1 });
  }

  get date(): Date {
    return new Date(this.now);
  }

  chance(probability: number): boolean {
    return this.#random() < probability;
  }

  pick<T>(all: readonly T[]): T {
    return all[Math.floor(this.#random() * all.length)] as T;
  }

  /** At least one of them, in any order. */
  some<T>(all: readonly T[]): T[] {
    const shuffled = all.map((one) => ({ one, place: this.#random() })).sort((a, b) => a.place - b.place);
    return shuffled.slice(0, 1 + Math.floor(this.#random() * all.length)).map(({ one }) => one);
  }

  /** Mostly the first, so that writers meet. */
  workspace(): SharedWorkspace {
    return this.chance(0.8) ? (this.workspaces[0] as SharedWorkspace) : this.pick(this.workspaces);
  }

  /** Triggers hold every changed row for a moment. The rows are refilled without them. */
  async #prepare(database: string, plans: Plans): Promise<void> {
    const sql = this.#sql;
    await sql.unsafe(`alter database ${database} set deadlock_timeout = '5ms'`);
    if (plans === "large tables")
      for (const join of ["hashjoin", "mergejoin"])
        await sql.unsafe(`alter database ${database} set enable_${join} = off`);
    await sql.unsafe(`set session_replication_role = replica`);
    await sql.unsafe(`
      create function linger() returns trigger language plpgsql as
        'begin perform pg_sleep(${LINGER_SECONDS}); return coalesce(new, old); end'`);
    const tables = await sql<{ name: string }[]>`
      select relname as name from pg_class
      where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace`;
    for (const { name } of tables)
      await sql.unsafe(`
        create trigger linger before insert or update or delete on ${name} for each row execute function linger()`);
  }
}

function repeat<T>(count: number, one: T): T[] {
  return Array.from({ length: count }, () => one);
}

/** The rows of a workspace, with the ids that they keep. */
function plan(n: number, now: number): SharedWorkspace {
  const id = () => newId(now);
  const audiences = [false, false, true].map((isDeleted) => ({ id: id(), isDeleted }));
  const contacts = audiences.flatMap(({ id: audienceId }, a) =>
    [0, 1].map((c) => ({
      id: id(),
      audienceId,
      identity: `p${c}@w${n}a${a}.example`,
      eventIds: [`evt_${n}${a}${c}0`, `evt_${n}${a}${c}1`],
    })),
  );
  const automations = audiences
    .filter(({ isDeleted }) => !isDeleted)
    .map(({ id: audienceId }, a) => ({ id: id(), audienceId, name: `welcome ${a}` }));
  const runs = contacts.flatMap((contact) =>
    automations
      .filter(({ audienceId }) => audienceId === contact.audienceId)
      .map(({ id: automationId }) => ({
        id: id(),
        automationId,
        contact,
        eventId: contact.eventIds[0] as string,
      })),
  );
  const bags: SharedBag[] = [
    { id: id(), token: id(), epoch: EPOCH, emailIds: [] },
    { id: id(), token: id(), epoch: EPOCH, emailIds: [] },
    { id: id(), token: null, epoch: EPOCH, emailIds: [] },
    { id: id(), token: null, epoch: null, emailIds: [] },
  ];
  const emails = EMAILS.map(({ status, why, bag, isListed }, e) => {
    const email = {
      id: id(),
      bulk: e % 3 === 0,
      status,
      why,
      bagId: bag === null ? null : bagAt(bags, bag).id,
    };
    if (bag !== null || isListed) bagAt(bags, bag ?? 0).emailIds.push(email.id);
    return email;
  });
  return {
    id: id(),
    handle: `shared0${n}`,
    audiences,
    contacts,
    automations,
    runs,
    emails,
    bags,
    keys: [id(), id(), id()],
    templates: [0, 1].map((t) => ({ id: id(), externalId: `letter-${t}` })),
    erasureId: id(),
    webhooks: [id(), id()],
  };
}

function bagAt(bags: readonly SharedBag[], n: number): SharedBag {
  return bags[n] as SharedBag;
}

type Value = string | number | boolean | null | readonly string[];
type Row = Record<string, Value>;

/** What empties and fills each table, parents before their children. */
function scriptsOf(workspaces: readonly SharedWorkspace[], now: number) {
  return new Map(
    TABLES.map(({ name, rows }) => {
      const all = workspaces.flatMap((ws) => rows(ws, now));
      return [name, { remove: `delete from ${name};`, insert: insertOf(name, all) }];
    }),
  );
}

function insertOf(table: string, rows: readonly Row[]): string {
  if (rows.length === 0) return "";
  const columns = Object.keys(rows[0] as Row);
  const values = rows.map((row) => `(${columns.map((column) => literal(row[column] ?? null)).join()})`);
  return `insert into ${table} (${columns.join()}) values ${values.join()};`;
}

function literal(value: Value): string {
  if (value === null) return "null";
  const text = Array.isArray(value) ? `{${value.join()}}` : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}

/** Rows of a table that has a parent go with the rows of that. */
type Table = { name: string; parent?: string; rows(ws: SharedWorkspace, now: number): Row[] };

const hashOfId = (id: string): string => `\\x${id.replaceAll("-", "")}`;
const iso = (at: number): string => new Date(at).toISOString();
const today = (now: number): number => Math.floor(now / DAY_MS);
const LONG_AGO_DAYS = 500;

/** Parents before their children. */
const TABLES: readonly Table[] = [
  {
    name: "workspace",
    rows: ({ id, handle }, now) => [
      { id, handle, name: handle, plan: "pro", version: 1, changed_at: iso(now), created_at: iso(now) },
    ],
  },
  {
    name: "account",
    rows: ({ id, handle }, now) => [
      { id, email: `${handle}@owner.example`, password_hash: "-", created_at: iso(now) },
    ],
  },
  {
    name: "session",
    rows: ({ id }, now) => [
      { hash: hashOfId(id), account_id: id, created_at: iso(now), used_at: iso(now - DAY_MS) },
    ],
  },
  {
    name: "password_reset",
    rows: ({ id }, now) => [{ account_id: id, hash: hashOfId(id), created_at: iso(now) }],
  },
  { name: "member", rows: ({ id }) => [{ workspace_id: id, account_id: id, role: "owner" }] },
  {
    name: "invitation",
    rows: ({ id, handle }, now) => [
      {
        ...{ workspace_id: id, id, email: `${handle}@invited.example`, role: "member" },
        ...{ hash: hashOfId(id), invited_by: id, created_at: iso(now) },
      },
    ],
  },
  {
    name: "change",
    rows: ({ id }) => [
      { workspace_id: id, id, account_id: id, email: "-", action: "DELETE keys/{id}", subject: "-" },
    ],
  },
  {
    name: "api_key",
    rows: ({ id, keys }, now) =>
      keys.map((key, n) => ({
        workspace_id: id,
        id: key,
        hash: `\\x${key.replaceAll("-", "")}`,
        shown: "pr_live_",
        name: `key ${n}`,
        permissions: 1,
        created_at: iso(now),
        last_used_at: iso(now - DAY_MS),
      })),
  },
  {
    name: "audience",
    rows: ({ id, audiences }, now) =>
      audiences.map((audience, n) => ({
        workspace_id: id,
        id: audience.id,
        name: `audience ${n}`,
        created_at: iso(now),
        deleted_at: audience.isDeleted ? iso(now) : null,
        suppresses: n === 0,
      })),
  },
  {
    name: "contact",
    rows: ({ id, contacts }, now) =>
      contacts.map((contact, n) => ({
        workspace_id: id,
        id: contact.id,
        audience_id: contact.audienceId,
        identity: contact.identity,
        email: contact.identity,
        status: n % 3 === 0 ? "pending" : "subscribed",
        created_at: iso(now),
        updated_at: iso(now),
      })),
  },
  {
    name: "consent",
    rows: ({ id, contacts }, now) =>
      contacts.map((contact) => ({
        workspace_id: id,
        contact_id: contact.id,
        id: contact.id,
        kind: "given",
        source: "form",
        captured_at: iso(now),
        recorded_at: iso(now),
      })),
  },
  {
    name: "confirmation",
    rows: ({ id, contacts }, now) =>
      contacts.map((contact) => ({
        workspace_id: id,
        contact_id: contact.id,
        asked: 1,
        asked_at: iso(now),
        is_open: true,
        is_mailed: false,
      })),
  },
  {
    name: "suppression",
    rows: ({ id, audiences }, now) => [
      {
        workspace_id: id,
        audience_id: audiences[0]?.id as string,
        address_hash: "\\xabcd",
        reason: "unsubscribed",
        since: iso(now),
      },
    ],
  },
  {
    name: "soft_bounce",
    rows: ({ id, contacts, emails }, now) =>
      contacts.slice(0, 3).map((contact) => ({
        workspace_id: id,
        address_hash: `\\x${Buffer.from(contact.identity).toString("hex")}`,
        email_id: emails[0]?.id as string,
        at: iso(now - DAY_MS),
      })),
  },
  {
    name: "suppressed_address",
    rows: ({ id, contacts }, now) =>
      contacts.slice(0, 3).map((contact) => ({
        workspace_id: id,
        id: contact.id,
        address_hash: `\\x${Buffer.from(contact.identity).toString("hex")}`,
        identity: contact.identity,
        email: contact.identity,
        reason: "bounce",
        counted_day: today(now),
        created_at: iso(now),
      })),
  },
  {
    name: "ledger",
    rows: ({ id }, now) => [
      {
        workspace_id: id,
        waiting: 2,
        waiting_bulk: 1,
        cap_day: 1_000,
        cap_hour: 1_000,
        reserved_share: 0.1,
        next_release_at: iso(now - 1_000),
        day: today(now),
        // of a workspace that was idle ever since
        closed_day: today(now) - LONG_AGO_DAYS,
      },
    ],
  },
  {
    name: "claim",
    rows: ({ id, audiences }, now) =>
      ["send", `event ${audiences[0]?.id}`].flatMap((scope) =>
        CLAIM_KEYS.slice(1).map((key, n) => ({
          workspace_id: id,
          scope,
          key,
          digest: "\\xab",
          answer: "null",
          created_at: iso(n === 0 ? now : now - 3 * DAY_MS),
        })),
      ),
  },
  {
    name: "automation",
    rows: ({ id, automations }, now) =>
      automations.map((automation) => ({
        workspace_id: id,
        id: automation.id,
        name: automation.name,
        audience_id: automation.audienceId,
        event: EVENT,
        entry: "every",
        filters: "[]",
        version: 1,
        state: "active",
        created_at: iso(now),
        updated_at: iso(now),
      })),
  },
  {
    name: "automation_version",
    rows: ({ id, automations }, now) =>
      automations.map((automation) => ({
        workspace_id: id,
        automation_id: automation.id,
        version: 1,
        document: "{}",
        created_at: iso(now),
      })),
  },
  {
    name: "run",
    rows: ({ id, runs }, now) =>
      runs.flatMap((run) => [
        { ...runRow(id, run, now), id: run.id, wake_at: iso(now - 1_000), state: "active", ended_at: null },
        { ...runRow(id, run, now), id: endedId(run), wake_at: null, state: "finished", ended_at: old(now) },
      ]),
  },
  {
    name: "run_step",
    rows: ({ id, runs }, now) =>
      runs.map((run) => ({
        workspace_id: id,
        run_id: endedId(run),
        seq: 1,
        position: "0",
        kind: "wait",
        result: "done",
        began_at: iso(now),
        ended_at: iso(now),
      })),
  },
  {
    name: "entry",
    rows: ({ id, runs }, now) =>
      runs.map((run) => ({
        workspace_id: id,
        automation_id: run.automationId,
        contact_id: run.contact.id,
        run_id: run.id,
        entered_at: iso(now),
        is_open: true,
      })),
  },
  {
    name: "event",
    rows: ({ id, contacts }, now) =>
      contacts.flatMap((contact) =>
        contact.eventIds.map((eventId, n) => ({
          workspace_id: id,
          contact_id: contact.id,
          id: eventId,
          audience_id: contact.audienceId,
          name: EVENT,
          created_at: n === 0 ? iso(now) : old(now),
        })),
      ),
  },
  {
    name: "erasure",
    rows: ({ id, erasureId }, now) => [
      { workspace_id: id, id: erasureId, next_day: today(now), is_begun: true },
      { workspace_id: id, id: floorId(now), next_day: today(now), is_begun: false },
    ],
  },
  {
    name: "erased_address",
    rows: ({ id, erasureId, contacts }, now) => [
      { workspace_id: id, erasure_id: erasureId, identity: contacts[0]?.identity as string },
      { workspace_id: id, erasure_id: erasureId, identity: contacts[1]?.identity as string },
      { workspace_id: id, erasure_id: floorId(now), identity: contacts[2]?.identity as string },
    ],
  },
  {
    name: "erased_contact",
    rows: ({ id, erasureId, contacts }) =>
      contacts.map((contact) => ({ workspace_id: id, erasure_id: erasureId, contact_id: contact.id })),
  },
  {
    name: "email",
    rows: ({ id, emails, contacts, keys }, now) =>
      emails.map((email, n) => ({
        workspace_id: id,
        id: email.id,
        key_id: keys[n % keys.length] as string,
        scheduled_at: email.status === "scheduled" || email.status === "waiting" ? iso(now) : null,
        bulk: email.bulk,
        status: email.status,
        head: headTo(contacts[n % contacts.length]?.identity as string),
        weight: 2,
        bytes: 100,
        created_at: iso(now),
        updated_at: iso(now),
        bag_id: email.bagId,
        marks: email.status === "delivered" ? "dd" : null,
      })),
  },
  {
    name: "report",
    rows: ({ emails, handle }, now) =>
      emails.flatMap((email, n) => [
        {
          ...reportRow(handle, email, n % 2),
          id: email.id,
          due_at: iso(now - 1_000),
          done_at: null,
          result: null,
        },
        {
          ...reportRow(handle, email, n % 2),
          id: workedOffId(email),
          due_at: null,
          done_at: old(now),
          result: "-",
        },
      ]),
  },
  {
    name: "body",
    rows: ({ id, emails }) =>
      emails.map((email) => ({ workspace_id: id, id: email.id, html: "<p>hello</p>" })),
  },
  {
    name: "attachment",
    rows: ({ id }, now) =>
      ATTACHMENT_HASHES.map((hash) => ({
        workspace_id: id,
        hash: `\\x${hash}`,
        content: "\\x00",
        last_used_at: old(now),
      })),
  },
  {
    name: "search_block",
    rows: ({ id, emails }, now) => {
      const ends = [floorId(now - LONG_AGO_DAYS * DAY_MS), ...emails.map((email) => email.id).sort()];
      return [0, 5, 10].map((n, place, all) => ({
        workspace_id: id,
        from_id: place === 0 ? floorId(0) : (ends[all[place - 1] as number] as string),
        until_id: ends[n] as string,
        terms: place === 1 ? null : "{}",
      }));
    },
  },
  {
    name: "due",
    rows: ({ id, emails }, now) =>
      emails
        .filter(({ why }) => why !== null)
        .map((email, n) => ({
          workspace_id: id,
          email_id: email.id,
          at: iso(now - 1_000 + n),
          why: email.why,
          bulk: email.bulk,
          weight: 2,
          bytes: 100,
          domain: email.why === "deferred" ? DESTINATION : null,
          reply: email.why === "deferred" ? "451 later" : null,
        })),
  },
  {
    name: "bag",
    rows: ({ id, bags }, now) =>
      bags.map((bag, n) => ({
        workspace_id: id,
        id: bag.id,
        shard: 0,
        email_ids: bag.emailIds,
        bytes: 1_000,
        epoch: bag.epoch,
        token: bag.token,
        // the second lease has run out
        lease_until: bag.token && iso(n === 0 ? now + HOUR_MS : now - HOUR_MS),
        created_at: iso(now - HOUR_MS),
        granted_at: iso(now - HOUR_MS),
      })),
  },
  {
    name: "tally",
    rows: ({ id }, now) =>
      [today(now), today(now) - 1, today(now) - LONG_AGO_DAYS].map((day) => ({
        workspace_id: id,
        day,
        worker: WORKER,
      })),
  },
  {
    name: "cap_use",
    rows: ({ id }, now) =>
      [today(now), today(now) - LONG_AGO_DAYS].map((day) => ({ workspace_id: id, day, used: 0, delayed: 0 })),
  },
  {
    name: "capacity",
    rows: ({ id }, now) => [
      { workspace_id: id, state: "{}", policy_version: "1", is_troubled: true, evaluated_on: iso(now) },
    ],
  },
  { name: "cap_change", rows: () => [] },
  {
    name: "template",
    rows: ({ id, templates }, now) =>
      templates.map((template) => ({
        workspace_id: id,
        id: template.id,
        external_id: template.externalId,
        version: 1,
        created_at: iso(now),
        updated_at: iso(now),
      })),
  },
  {
    name: "template_version",
    parent: "template",
    rows: ({ id, templates }, now) =>
      templates.map((template) => ({
        workspace_id: id,
        template_id: template.id,
        version: 1,
        name: "letter",
        reply_to: [],
        html: "<p></p>",
        variables: "[]",
        declared: "[]",
        created_at: iso(now),
      })),
  },
  {
    name: "domain_key",
    rows: ({ id }, now) =>
      SELECTORS.map((selector, n) => ({
        workspace_id: id,
        domain: DOMAIN,
        selector,
        algorithm: "rsa",
        state: (["signing", "waiting", "retired"] as const)[n] as string,
        public_key: "\\x00",
        sealed_key: n === 2 ? null : "\\x00",
        created_at: iso(now),
      })),
  },
  {
    name: "domain",
    rows: ({ id, handle }, now) => [
      {
        workspace_id: id,
        domain: DOMAIN,
        token: handle,
        created_at: iso(now),
        // one of them has it
        verified_at: handle === "shared00" ? iso(now) : null,
        check_at: handle === "shared00" ? iso(now) : null,
      },
    ],
  },
  { name: "brake", rows: () => [] },
  {
    name: "webhook",
    rows: ({ id, webhooks }, now) =>
      webhooks.map((webhook, n) => ({
        workspace_id: id,
        id: webhook,
        endpoint: "https://hooks.example/",
        secrets: "\\x00",
        status: "enabled",
        cursor: 0,
        failures: n,
        failing_since: old(now),
        lease_token: n === 0 ? WEBHOOK_TOKEN : null,
        lease_until: n === 0 ? iso(now + HOUR_MS) : null,
        created_at: iso(now),
        updated_at: iso(now),
      })),
  },
  {
    name: "webhook_delivery",
    rows: ({ id, webhooks, emails }, now) =>
      webhooks.flatMap((webhook) =>
        [1, 2, 3, 4].map((sequence) => ({
          workspace_id: id,
          webhook_id: webhook,
          sequence: SEQUENCE + sequence,
          at: iso(now),
          type: "email.delivered",
          subject_id: emails[sequence % 2]?.id as string,
          due_at: sequence < 3 ? iso(now) : null,
          failed_at: sequence === 4 ? old(now) : null,
        })),
      ),
  },
  {
    name: "webhook_replay",
    rows: ({ id, webhooks }) =>
      webhooks.map((webhook) => ({ workspace_id: id, webhook_id: webhook, id: webhook, cursor: 0, last: 9 })),
  },
  {
    name: "webhook_attempt",
    rows: ({ id, webhooks, emails, contacts }, now) =>
      webhooks.flatMap((webhook) =>
        [...emails, ...contacts].map((subject, n) => ({
          workspace_id: id,
          webhook_id: webhook,
          id: subject.id,
          sequence: n + 1,
          at: iso(now),
          ms: 5,
          response: "no",
          subject_id: subject.id,
        })),
      ),
  },
];

function runRow(workspaceId: string, { automationId, contact, eventId }: SharedRun, now: number): Row {
  return {
    workspace_id: workspaceId,
    automation_id: automationId,
    version: 1,
    audience_id: contact.audienceId,
    contact_id: contact.id,
    event_id: eventId,
    position: "0",
    seq: 1,
    created_at: iso(now),
  };
}

function reportRow(handle: string, email: SharedEmail, place: number): Row {
  return { source: "return_path", handle, email_id: email.id, place, raw: "\\x00" };
}

/** Beside each report that is due, one that was worked off long ago. */
function workedOffId({ id }: SharedEmail): string {
  return `${id.slice(0, 14)}6${id.slice(15)}`;
}

/** Beside each run that is under way, one that ended long ago. */
function endedId({ id }: SharedRun): string {
  return `${id.slice(0, 14)}6${id.slice(15)}`;
}

function old(now: number): string {
  return iso(now - LONG_AGO_DAYS * DAY_MS);
}

function headTo(address: string): string {
  return JSON.stringify({
    from: "Acme <orders@example.com>",
    to: [address, `other@${DESTINATION}`],
    cc: [],
    bcc: [],
    reply_to: [],
    subject: "Order",
  });
}
