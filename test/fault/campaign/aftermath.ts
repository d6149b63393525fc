/**
 * What is found when the faults are over. First it is waited for: until nothing is on its way any more,
 * within a bound. Then the API is asked for every e-mail and contact, and the record for what the API does
 * not tell.
 */
import { pause } from "../../rig/pause.ts";
import type { Caller } from "./caller.ts";
import type { Fleet } from "./fleet.ts";
import type { Aftermath, FinalContact, FinalEmail, FinalLedger, FinalRun, FinalTally } from "./history.ts";
import type { Cell, Sql } from "./stores.ts";
import type { Account, Tenants } from "./tenants.ts";

const LOOK_EVERY_MS = 1_000;
const PAGE = 100;
const RETRY_MS = 300;
const TRIES_MAX = 100;

type Open = { emails: number; bags: number; due: number; runs: number; erasures: number };

/** Resolves when nothing is on its way, or when it has lasted too long; with what still is. */
export async function untilQuiet(cells: readonly Cell[], msMax: number, signal: AbortSignal): Promise<Open> {
  const deadline = Date.now() + msMax;
  for (;;) {
    const open = await openIn(cells);
    if (Object.values(open).every((count) => count === 0) || Date.now() > deadline || signal.aborted)
      return open;
    await pause(LOOK_EVERY_MS, signal);
  }
}

export async function openIn(cells: readonly Cell[]): Promise<Open> {
  const counts = await Promise.all(cells.map(({ postgres }) => postgres.ask(countOpen)));
  const sum = (name: keyof Open) => counts.reduce((all, one) => all + one[name], 0);
  return {
    emails: sum("emails"),
    bags: sum("bags"),
    due: sum("due"),
    runs: sum("runs"),
    erasures: sum("erasures"),
  };
}

async function countOpen(sql: Sql): Promise<Open> {
  const [open] = await sql<Open[]>`
    select (select count(*)::int from email where status in ('accepted', 'waiting', 'scheduled', 'deferred')) as emails,
           (select count(*)::int from bag) as bags, (select count(*)::int from due) as due,
           (select count(*)::int from run where state = 'active') as runs,
           (select count(*)::int from erasure) as erasures`;
  return open as Open;
}

type Listed = {
  id: string;
  status: string;
  subject: string;
  to: string[];
  scheduled_at: string | null;
};

/** What the API says; to be asked while it is served. */
export type Said = { emails: { account: Account; listed: Listed }[]; contacts: FinalContact[] };

export async function askApi(tenants: Tenants, fleet: Fleet, caller: Caller): Promise<Said> {
  const emails: Said["emails"] = [];
  for (const account of tenants.all)
    for (const listed of await listAll<Listed>(account, "/emails", fleet, caller))
      emails.push({ account, listed });
  const { shop } = tenants;
  type Contact = { id: string; email: string; first_name: string | null; status: string; tags: string[] };
  const contacts = await listAll<Contact>(shop, `/audiences/${shop.audienceId}/contacts`, fleet, caller);
  return {
    emails,
    contacts: contacts.map(({ id, email, first_name, status, tags }) => ({
      id,
      address: email,
      firstName: first_name,
      status,
      tags,
    })),
  };
}

async function listAll<T>(account: Account, path: string, fleet: Fleet, caller: Caller): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = null;
  do {
    const query: string = `?limit=${PAGE}${cursor === null ? "" : `&cursor=${cursor}`}`;
    const page: { data: T[]; next_cursor: string | null } = await get(account, path + query, fleet, caller);
    all.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return all;
}

async function get<T>(account: Account, path: string, fleet: Fleet, caller: Caller): Promise<T> {
  for (let tries = 1; ; tries++) {
    const serving = fleet.of("api").find(({ port }) => port !== null);
    const answer = serving?.port
      ? await caller.ask(serving.port, account.key, { method: "GET", path }, null)
      : { kind: "refused" as const };
    if (answer.kind === "answered" && answer.status === 200) return answer.body as T;
    if (tries > TRIES_MAX) throw new Error(`the API does not list ${path}: ${JSON.stringify(answer)}`);
    await pause(RETRY_MS);
  }
}

type EmailRow = Pick<FinalEmail, "id" | "marks" | "weight" | "attempts" | "isAutomated"> & {
  createdAt: Date;
  history: FinalEmail["events"] | null;
};

/** To be read when no process is left that might still write. */
export async function readRecord(
  cells: readonly Cell[],
  { emails: listed, contacts }: Said,
): Promise<Aftermath> {
  const found = await Promise.all(cells.map(({ postgres }) => postgres.ask(readCell)));
  const rowOf = new Map<string, EmailRow>();
  const inTwoCells: string[] = [];
  for (const row of found.flatMap(({ rows }) => rows)) {
    if (rowOf.has(row.id)) inTwoCells.push(row.id);
    rowOf.set(row.id, row);
  }
  const emails = listed.flatMap(({ account, listed: { id, status, subject, to, scheduled_at } }) => {
    const row = rowOf.get(id);
    if (!row) return [];
    const { createdAt, history, ...others } = row;
    return {
      ...others,
      workspaceId: account.id,
      status,
      subject,
      to,
      scheduledAt: scheduled_at === null ? null : Date.parse(scheduled_at),
      createdAt: createdAt.getTime(),
      events: history ?? [],
    };
  });
  const open = await openIn(cells);
  return {
    ...{ emails, contacts, inTwoCells, leftBags: open.bags, leftDue: open.due },
    runs: found.flatMap(({ runs }) => runs),
    events: found.flatMap(({ events }) => events),
    ledgers: found.flatMap(({ ledgers }) => ledgers),
    tallies: found.flatMap(({ tallies }) => tallies),
  };
}

async function readCell(sql: Sql) {
  const rows = await sql<EmailRow[]>`
    select id, coalesce(marks, repeat('o', weight)) as marks, weight, attempts, key_id is null as "isAutomated",
           created_at as "createdAt", history from email`;
  const runs = await sql<FinalRun[]>`
    select r.id, r.workspace_id as "workspaceId", a.name as automation, r.contact_id as "contactId",
           r.event_id as "eventId", r.state, r.reason,
           coalesce((select json_agg(json_build_object('position', s.position, 'kind', s.kind, 'result', s.result,
                                                       'detail', s.detail) order by s.seq)
                     from run_step s where s.workspace_id = r.workspace_id and s.run_id = r.id), '[]') as steps
    from run r join automation a on a.workspace_id = r.workspace_id and a.id = r.automation_id`;
  const events = await sql<Aftermath["events"][number][]>`
    select id, (properties->>'operation')::int as operation from event`;
  const ledgers = await sql<FinalLedger[]>`
    select workspace_id as "workspaceId", month_used as "monthUsed", day_used as "dayUsed",
           waiting + waiting_bulk as waiting from ledger`;
  const tallies = await sql<FinalTally[]>`
    select workspace_id as "workspaceId", sum(attempted)::int as attempted, sum(delivered)::int as delivered,
           sum(deferred)::int as deferred, sum(hard_bounced + soft_bounced + blocked)::int as bounced,
           sum(failed)::int as failed
    from tally group by workspace_id`;
  return { rows, runs, events, ledgers, tallies };
}
