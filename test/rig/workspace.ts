/**
 * An api in this process, and fresh workspaces on it: the way a test isolates itself. Stores, clock and
 * deadlines can be a test's own; by default they are those of the run.
 */
import { randomUUID } from "node:crypto";
import { Keyring } from "../../src/admission/keyring.ts";
import type { Permission } from "../../src/admission/permissions.ts";
import { type Api, startApi } from "../../src/api/api.ts";
import { BodyBudget } from "../../src/api/bodybudget.ts";
import type { Route } from "../../src/api/routes.ts";
import { applyOrSay } from "../../src/automation/apply.ts";
import type { Clock } from "../../src/clock.ts";
import type { DomainDns } from "../../src/domain/records.ts";
import type { Network } from "../../src/networks.ts";
import { BagQueue } from "../../src/queue/bagqueue.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { type Bag, firstRow, noteEpoch } from "../../src/record/mail/bags.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import type { Overrides, Plan } from "../../src/rules/plans.ts";
import { holdToDocument } from "./document.ts";
import "./heardout.ts"; // also where no test runner loads it
import { services } from "./services.ts";

export const SECRET = "a secret of the tests, long enough for any use";

export type Answer<T = unknown> = { status: number; headers: Headers; body: T };
export type Refusal = {
  statusCode: number;
  name: string;
  message: string;
  details?: Record<string, unknown>;
};

/** A caller with one key. */
export class Client {
  readonly #base: string;
  readonly key: string;
  constructor(base: string, key: string) {
    this.#base = base;
    this.key = key;
  }
  get<T>(path: string, headers: Record<string, string> = {}): Promise<Answer<T>> {
    return this.call("GET", path, undefined, headers);
  }
  post<T>(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer<T>> {
    return this.call("POST", path, body, headers);
  }
  /** A batch, all of which is accepted: its ids. */
  async send(mails: readonly object[]): Promise<string[]> {
    const { status, body } = await this.post<{ data: { id: string }[] }>("/emails/batch", mails);
    if (status !== 200) throw new Error(`a batch was answered ${status}: ${JSON.stringify(body)}`);
    return body.data.map(({ id }) => id);
  }
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer<T>> {
    const response = await fetch(`${this.#base}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const { status, headers: answered } = response;
    const answer = (await response.json()) as T;
    holdToDocument(method, path, status, answer);
    return { status, headers: answered, body: answer };
  }
}

export type TestWorkspace = {
  id: string;
  handle: string;
  keyId: string;
  client: Client;
  /** Another key of the same workspace. */
  key(
    permissions: readonly Permission[],
    audienceIds?: string[] | null,
  ): Promise<{ id: string; client: Client }>;
};

export type TestApi = {
  url: string;
  sql: Sql;
  redis: RedisClient;
  keyring: Keyring;
  routes: readonly Route[];
  /** What the api committed, in the order of the commits. */
  bags: Bag[];
  faults: unknown[];
  workspace(plan?: Plan, limits?: Overrides): Promise<TestWorkspace>;
  stop(): Promise<void>;
};

export type TestApiOptions = {
  databaseUrl?: string;
  redisUrl?: string;
  clock?: Clock;
  timeoutMs?: number;
  port?: number;
  /** Production's default is true; most tests write from domains that nobody has verified. */
  requireVerifiedDomains?: boolean;
  /** Whether a proxy in front names the visitor. */
  trustProxy?: boolean;
  /** Who answers for DNS; by default every name is unknown. */
  dns?: DomainDns;
  /** Networks of receivers of webhooks. */
  webhookNetworksAllowed?: Network[];
  /** What lists are read with, made of the connection of the rest. */
  lists?(sql: Sql): Sql;
  /** Whether bags go in line, for a delivery in the test. */
  queues?: boolean;
};

/** Rates that no test meets by accident. */
export const AMPLE: Overrides = { requests_per_second: 100_000, requests_per_minute: 1_000_000 };
const noSuchName = () => Promise.reject(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }));
const systemClock: Clock = { now: () => Date.now(), given: () => 0 };

export async function testApi(options: TestApiOptions = {}): Promise<TestApi> {
  const databaseUrl = options.databaseUrl ?? services().databaseUrl;
  const redisUrl = options.redisUrl ?? services().redisUrl;
  const clock = options.clock ?? systemClock;
  const timeoutMs = options.timeoutMs ?? 10_000;
  const sql = connectRecord(databaseUrl, "reads", timeoutMs);
  const redis = connectRedis(redisUrl, "admission", timeoutMs);
  const faults: unknown[] = [];
  redis.on("error", (error) => faults.push(error));
  await new Promise((resolve) => redis.once("ready", resolve));
  const line = options.queues ? new BagQueue(connectRedis(redisUrl, "queue", timeoutMs)) : null;
  const keyring = new Keyring({ redis, sql, serverSecret: SECRET, clock });
  const bags: Bag[] = [];
  const api: Api = await startApi({
    redis,
    connectCommits: () => connectRecord(databaseUrl, "commits", timeoutMs),
    reads: sql,
    lists: () => options.lists?.(sql) ?? sql,
    clock,
    serverSecret: SECRET,
    requireVerifiedDomains: options.requireVerifiedDomains ?? false,
    applyDocument: applyOrSay,
    dns: options.dns ?? { askTxt: noSuchName, returnPaths: null },
    publicUrl: "https://mail.example.org",
    mailFrom: "no-reply@mail.example.org",
    trustProxy: options.trustProxy ?? false,
    webhookNetworksAllowed: options.webhookNetworksAllowed ?? [],
    timeoutMs,
    budget: new BodyBudget(256 * 1024 * 1024),
    host: "127.0.0.1",
    port: options.port ?? 0,
    server: null,
    sharesPort: false,
    shortage: () => null,
    shards: () => 1,
    onBags: (some) => {
      bags.push(...some);
      if (line) enqueue(line, sql, some).catch((error) => faults.push(error));
    },
    isReady: async () => ({ ready: true, checks: {} }),
    log: { answered: () => {}, fault: (_, error) => faults.push(error) },
  });
  const url = `http://127.0.0.1:${api.port}`;

  return {
    url,
    sql,
    redis,
    keyring,
    routes: api.routes,
    bags,
    faults,
    workspace: (plan, limits) => freshWorkspace(keyring, url, plan, limits),
    async stop() {
      await api.stop();
      await line?.close();
      await sql.end({ timeout: 1 });
      redis.disconnect();
    },
  };
}

/** On any api: its keyring makes it, its url is what the clients call. */
export async function freshWorkspace(
  keyring: Keyring,
  url: string,
  plan: Plan = "pro",
  limits: Overrides = {},
): Promise<TestWorkspace> {
  const name = `test ${randomUUID()}`;
  const { id, handle } = await keyring.createWorkspace(name, plan, { ...AMPLE, ...limits });
  const newKey = async (permissions: readonly Permission[], audienceIds: string[] | null = null) => {
    const created = await keyring.createKey(id, { name: "test", permissions, audienceIds }, "operator");
    if (!("key" in created)) throw new Error(created.message);
    return { id: created.id, client: new Client(url, created.key) };
  };
  const first = await newKey(["full"]);
  return { id, handle, keyId: first.id, client: first.client, key: newKey };
}

async function enqueue(line: BagQueue, sql: Sql, bags: readonly Bag[]): Promise<void> {
  for (const { epoch, queued } of await line.enqueue(bags.map(firstRow)))
    if (queued.length > 0) await noteEpoch(sql, queued, epoch);
}

/** A mail that is accepted as it is. */
export function mail(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    from: "Acme <orders@example.com>",
    to: "one@example.net",
    subject: "Order 1",
    html: "<p>Thanks</p>",
    ...more,
  };
}
