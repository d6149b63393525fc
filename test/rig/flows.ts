/**
 * An api and a worker of automations on stores of their own, under a clock that the test moves. The worker
 * does nothing by itself: `go` leads every run as far as it goes at this moment.
 */

import { Reservations } from "../../src/admission/reserve.ts";
import { addressHasher, Links } from "../../src/audience/links.ts";
import { apply } from "../../src/automation/apply.ts";
import { Worker } from "../../src/automation/work.ts";
import { Owners } from "../../src/domain/owners.ts";
import { newId } from "../../src/ids.ts";
import { findRun, listRuns, type RunRow, type StepRow } from "../../src/record/automations/runs.ts";
import { insertAudience } from "../../src/record/contacts/audiences.ts";
import { contactCommit } from "../../src/record/contacts/commit.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { mailCommit } from "../../src/record/mail/commit.ts";
import type { Shortage } from "../../src/record/mail/overload.ts";
import { ownSubmitter, type SubmitOwn } from "../../src/submit.ts";
import { TemplateCache } from "../../src/template/cache.ts";
import { MovableClock } from "./clock.ts";
import { ownDatabase, ownRedis } from "./services.ts";
import { type TestApi, type TestWorkspace, testApi } from "./workspace.ts";

/** No test waits for it: the machine may stand still for some seconds. */
const TIMEOUT_MS = 20_000;
const SECRET = "a secret of the tests, long enough for any use";
const PUBLIC_URL = "https://mail.example.org";

export type Flows = {
  api: TestApi;
  clock: MovableClock;
  sql: Sql;
  /** A workspace with one audience. */
  shop(): Promise<Shop>;
  /** Leads every run as far as it goes now. */
  go(): Promise<void>;
  /** Another worker; `around` its submitting of mail a test may put what it likes. */
  newWorker(around?: (submitOwn: SubmitOwn) => SubmitOwn): Worker;
  faults: unknown[];
  /** Why mail is refused for now. */
  overload: { shortage: Shortage | null };
  stop(): Promise<void>;
};

export type Told = { event?: string; properties?: object; key?: string };

/** A workspace with an audience, its contacts and what happens to them. */
export type Shop = TestWorkspace & {
  audienceId: string;
  /** Its id. */
  contact(email: string, more?: object): Promise<string>;
  /** The automation's id. */
  automate(document: object): Promise<string>;
  track(email: string, told?: Told): Promise<{ status: number; body: { id: string; name: string } }>;
  runs(automationId: string): Promise<(RunRow & { steps: StepRow[] })[]>;
  mails(): Promise<Mail[]>;
};

export type Mail = {
  id: string;
  to: string;
  subject: string;
  status: string;
  html: string | null;
  text: string | null;
  headers: Record<string, string>;
};

export async function startFlows({ requireVerifiedDomains = false } = {}): Promise<Flows> {
  const [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
  const clock = new MovableClock(Date.now());
  const api = await testApi({
    databaseUrl: database.url,
    redisUrl: redis.url,
    clock,
    requireVerifiedDomains,
  });
  const sql = connectRecord(database.url, "runs", TIMEOUT_MS);
  const faults: unknown[] = [];
  const overload = { shortage: null as Shortage | null };
  const close: (() => Promise<void>)[] = [];

  function newWorker(around = (submitOwn: SubmitOwn) => submitOwn): Worker {
    const commits = {
      connect: () => connectRecord(database.url, "commits", TIMEOUT_MS),
      timeoutMs: TIMEOUT_MS,
    };
    const hashOf = addressHasher(SECRET);
    const commit = mailCommit(commits, () => {}, hashOf);
    const contacts = contactCommit(commits, hashOf);
    close.push(
      () => commit.close(),
      () => contacts.close(),
    );
    const onFault = (error: unknown) => {
      faults.push(error);
    };
    return new Worker({
      sql,
      submitOwn: around(
        ownSubmitter({
          reservations: new Reservations(api.redis, sql, clock),
          commit,
          reads: sql,
          clock,
          shortage: () => overload.shortage,
          onLag: onFault,
        }),
      ),
      contacts,
      templates: new TemplateCache(sql, TIMEOUT_MS),
      owners: new Owners({ sql, isRequired: requireVerifiedDomains, onFault }),
      links: new Links(SECRET, PUBLIC_URL),
      clock,
      onFault,
    });
  }
  const worker = newWorker();

  async function shop(): Promise<Shop> {
    const workspace = await api.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
    const { id: workspaceId, client } = workspace;
    const audienceId = newId(clock.now());
    await insertAudience(
      sql,
      { workspaceId, id: audienceId, name: "Shop", doubleOptIn: false },
      new Date(clock.now()),
    );
    return {
      ...workspace,
      audienceId,
      async contact(email, more = {}) {
        const { body } = await client.post<{ id: string }>(`/audiences/${audienceId}/contacts`, {
          email,
          ...more,
        });
        return body.id;
      },
      async automate(document) {
        const whole = { name: "Flow", audience_id: audienceId, event: "signup", entry: "every", ...document };
        const { applied } = await apply(sql, workspaceId, whole, clock.now());
        if (!("id" in applied)) throw new Error(applied.kind);
        return applied.id;
      },
      track: (email, { event = "signup", properties, key } = {}) =>
        client.post(
          "/events",
          { audience_id: audienceId, email, name: event, ...(properties && { properties }) },
          key === undefined ? {} : { "idempotency-key": key },
        ),
      async runs(automationId) {
        const page = { after: null, limit: 10_000, state: null };
        const rows = await listRuns(sql, workspaceId, automationId, page);
        const whole = await Promise.all(rows.reverse().map(({ id }) => findRun(sql, workspaceId, id)));
        return whole.flatMap((run) => run ?? []);
      },
      mails: () => sql<Mail[]>`
        select e.id, e.head->'to'->>0 as to, e.head->>'subject' as subject, e.status, b.html, b.plain as text,
               b.extra->'headers' as headers
        from email e join body b using (workspace_id, id) where e.workspace_id = ${workspaceId} order by e.id`,
    };
  }

  return {
    api,
    clock,
    sql,
    shop,
    newWorker,
    faults,
    overload,
    async go() {
      while ((await worker.tick()) === "at once") {}
    },
    async stop() {
      await api.stop();
      for (const one of close) await one();
      await sql.end({ timeout: 1 });
      await Promise.all([redis.stop(), database.drop()]);
    },
  };
}

/** What a run did: kind and result of each step. */
export function told(run: { steps: StepRow[] } | undefined): string[] {
  return (run?.steps ?? []).map(({ kind, result, detail }) =>
    [kind, result, result === "skipped" ? detail : null].filter(Boolean).join(" "),
  );
}
