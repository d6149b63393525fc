/** The api role put together: admission, what sends and changes contacts, and their routes, served over HTTP. */
import { Admitter, type Caller } from "../admission/admit.ts";
import { keyReader } from "../admission/bearer.ts";
import { Reservations } from "../admission/reserve.ts";
import { Unavailable } from "../admission/unavailable.ts";
import { Confirmations } from "../audience/confirm.ts";
import { confirmLetter } from "../audience/confirmletter.ts";
import { eraseMail } from "../audience/erasure.ts";
import { addressHasher, Links } from "../audience/links.ts";
import { atMost, type Clock } from "../clock.ts";
import { Owners } from "../domain/owners.ts";
import type { Bag } from "../record/bags.ts";
import { mailCommit } from "../record/commit.ts";
import type { Sql } from "../record/connect.ts";
import { contactCommit } from "../record/contactcommit.ts";
import { eventCommit } from "../record/events.ts";
import { noteLastUsed } from "../record/keys.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { ownSubmitter, type SubmitParts, submitter } from "../submit.ts";
import { Shelf } from "../template/shelf.ts";
import { audienceRoutes } from "./audiences.ts";
import { BodyBudget } from "./bodybudget.ts";
import { contactRoutes } from "./contacts.ts";
import { emailRoutes } from "./emails.ts";
import { eventRoutes } from "./events.ts";
import type { Exchange } from "./exchange.ts";
import { feedbackRoutes } from "./feedback.ts";
import { JsonParser } from "./jsonthread.ts";
import { openapi } from "./openapi.ts";
import { linkPages } from "./pages.ts";
import { type Route, Router } from "./routes.ts";
import { type OpenPage, type Server, startServer } from "./server.ts";
import { templateRoutes } from "./templates.ts";

const LAST_USED_FLUSH_MS = 2_000;
/** How often confirmation mails are looked for that a process owed and did not write before it ended. */
const CONFIRMATION_SWEEP_MS = 5_000;

export type ApiParts = {
  redis: RedisClient;
  connectCommits(): Sql;
  reads: Sql;
  clock: Clock;
  serverSecret: string;
  /** Nobody may write from a domain that no workspace has verified. */
  requireVerifiedDomains: boolean;
  /** Where the links in mail lead; null: to this server. */
  publicUrl: string | null;
  /** The operator's sender of confirmation mails. */
  mailFrom: string;
  trustProxy: boolean;
  timeoutMs: number;
  bodyBytesInFlightMax: number;
  host: string;
  port: number;
  /** Whether other api processes listen on the same port. */
  sharesPort: boolean;
  /** Why sends are refused for now; null in good times. */
  brake(): string | null;
  onBags(bags: Bag[]): void;
  isReady(): Promise<{ ready: boolean; checks: Record<string, string> }>;
  log: {
    answered(exchange: Exchange, ms: number): void;
    fault(exchange: Exchange | null, error: unknown): void;
  };
};

export type Api = {
  port: number;
  /** What it serves under a key. */
  routes: readonly Route[];
  stop(): Promise<void>;
};

export async function startApi(parts: ApiParts): Promise<Api> {
  const { redis, reads, clock, timeoutMs } = parts;
  const admitter = new Admitter(redis, reads, clock);
  const commit = mailCommit({ connect: parts.connectCommits, timeoutMs }, parts.onBags);
  const uploads = parts.connectCommits();
  const submitParts: SubmitParts = {
    admitter,
    reservations: new Reservations(redis, reads, clock),
    commit,
    reads,
    uploads,
    clock,
    brake: parts.brake,
    onLag: (error) => parts.log.fault(null, error),
  };
  const publicUrl = parts.publicUrl ?? `http://${parts.host}:${parts.port}`;
  const links = new Links(parts.serverSecret, publicUrl);
  const contacts = contactCommit(
    { connect: parts.connectCommits, timeoutMs },
    addressHasher(parts.serverSecret),
  );
  const events = eventCommit({ connect: parts.connectCommits, timeoutMs });
  const onFault = (error: unknown) => parts.log.fault(null, error);
  const shelf = new Shelf(reads, timeoutMs);
  const owners = new Owners({ sql: reads, isRequired: parts.requireVerifiedDomains, onFault });
  const confirmations = new Confirmations({
    sql: reads,
    links,
    clock,
    from: parts.mailFrom,
    write: ownSubmitter(submitParts),
    letter: (owed, confirmUrl) =>
      confirmLetter({ shelf, owners }, owed, confirmUrl, clock.now()).catch((error: unknown) => {
        onFault(error);
        return null;
      }),
  });
  const router = new Router([
    ...emailRoutes({ submit: submitter(submitParts), reads, shelf, owners, clock }),
    ...templateRoutes({ reads, clock }),
    ...audienceRoutes({ reads, clock }),
    ...eventRoutes({ commit: events, clock }),
    ...feedbackRoutes({ sql: reads, clock }),
    ...contactRoutes({
      commit: contacts,
      reads,
      clock,
      onAsk: (workspaceId, contactId) => void confirmations.send(workspaceId, contactId).catch(onFault),
      // the keeper goes on with what is left
      eraseMail: (workspaceId) => atMost(timeoutMs, eraseMail(reads, workspaceId, clock).catch(onFault)),
    }),
  ]);
  const sweep = setInterval(() => void confirmations.sweep().catch(onFault), CONFIRMATION_SWEEP_MS);
  const json = new JsonParser();
  const lastUsed = new LastUsed(reads, clock, onFault);
  const server: Server = await startServer(
    {
      gate: {
        readKey: keyReader(parts.serverSecret),
        admit: (bearer) => admitter.admit(bearer),
        router,
        parse: (body) => json.parse(body),
        onUse: (caller) => lastUsed.note(caller),
      },
      open: openPages(parts, router),
      openBelow: linkPages({ links, commit: contacts, clock, publicUrl, trustProxy: parts.trustProxy }),
      budget: new BodyBudget(parts.bodyBytesInFlightMax),
      timeoutMs,
      onAnswer: parts.log.answered,
      onFault: parts.log.fault,
    },
    parts.host,
    parts.port,
    parts.sharesPort,
  );
  return {
    port: server.port,
    routes: router.routes,
    async stop() {
      clearInterval(sweep);
      await server.stop();
      await commit.close();
      await uploads.end({ timeout: 1 });
      await contacts.close();
      await events.close();
      await lastUsed.stop();
      await json.close();
    },
  };
}

function openPages(parts: ApiParts, router: Router): ReadonlyMap<string, OpenPage> {
  const document = JSON.stringify(openapi(router.routes));
  const describe: OpenPage = () => ({ status: 200, body: document });
  return new Map<string, OpenPage>([
    ["/healthz", () => ({ status: 200, body: JSON.stringify({ status: "ok" }) })],
    ["/readyz", () => readyz(parts)],
    ["/openapi.json", describe],
    ["/api/v1/openapi.json", describe],
  ]);
}

async function readyz(parts: ApiParts) {
  const { ready, checks } = await parts.isReady();
  if (!ready) parts.log.fault(null, new Unavailable(`not ready: ${JSON.stringify(checks)}`));
  return {
    status: ready ? 200 : 503,
    body: JSON.stringify({ status: ready ? "ready" : "not ready", checks }),
  };
}

/** When keys were last used: kept here and written in groups, so that a request costs no write. */
class LastUsed {
  readonly #sql: Sql;
  readonly #clock: Clock;
  readonly #onFault: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #used = new Map<string, { workspaceId: string; keyId: string; at: number }>();

  constructor(sql: Sql, clock: Clock, onFault: (error: unknown) => void) {
    this.#sql = sql;
    this.#clock = clock;
    this.#onFault = onFault;
    this.#timer = setInterval(() => this.#flush().catch(onFault), LAST_USED_FLUSH_MS);
  }

  note({ workspaceId, keyId }: Caller): void {
    const at = this.#clock.now();
    const known = this.#used.get(keyId);
    if (known) known.at = at;
    else this.#used.set(keyId, { workspaceId, keyId, at });
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flush().catch(this.#onFault);
  }

  async #flush(): Promise<void> {
    if (this.#used.size === 0) return;
    const used = this.#used;
    this.#used = new Map();
    // in one order, so that two processes that note the same keys do not wait for each other in a ring
    const inOrder = [...used.values()].sort((a, b) => (a.keyId < b.keyId ? -1 : 1));
    try {
      await noteLastUsed(this.#sql, inOrder);
    } catch (error) {
      this.#used = new Map([...used, ...this.#used]);
      throw error;
    }
  }
}
