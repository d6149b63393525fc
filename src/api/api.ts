/**
 * Puts the api role together: admission, the parts that send and change contacts, and their routes over HTTP.
 */
import { Keyring } from "../admission/keyring.ts";
import { Unavailable } from "../admission/unavailable.ts";
import { Confirmations } from "../audience/confirm.ts";
import { confirmFromTemplate } from "../audience/confirmtemplate.ts";
import { ErasurePasses, eraseMail } from "../audience/erasure.ts";
import { addressHasher, Links } from "../audience/links.ts";
import { atMost } from "../clock.ts";
import type { DomainDns } from "../domain/records.ts";
import type { Network } from "../networks.ts";
import { type EventCommit, eventCommit } from "../record/automations/events.ts";
import { type ContactCommit, contactCommit } from "../record/contacts/commit.ts";
import type { Sql } from "../record/db/connect.ts";
import { urlAt } from "../rules/urlat.ts";
import { ownSubmitter, type Submit, type SubmitParts, submitter } from "../submit.ts";
import { grantRoutes } from "./absent.ts";
import { ATTACHMENTS_PATH, attachmentPage, attachmentRoutes } from "./attachments.ts";
import { audienceRoutes } from "./audiences.ts";
import { type AppliedDocument, type AutomationParts, automationRoutes } from "./automations.ts";
import type { BodyBudget } from "./bodybudget.ts";
import { contactRoutes } from "./contacts.ts";
import { definitionRoutes } from "./definitions.ts";
import { domainRoutes } from "./domains.ts";
import { Downloads } from "./downloads.ts";
import { emailRoutes } from "./emails.ts";
import { eventLogRoutes } from "./eventlog.ts";
import { eventRoutes } from "./events.ts";
import type { Exchange } from "./exchange.ts";
import { feedbackRoutes } from "./feedback.ts";
import type { GateParts } from "./gate.ts";
import { contactImportRoutes, Imports } from "./imports.ts";
import { WorkOfRoutes } from "./inhand.ts";
import { JsonParser } from "./jsonthread.ts";
import { metricRoutes } from "./metrics.ts";
import { openapi } from "./openapi.ts";
import { linkPages } from "./pages.ts";
import { logRoutes, RequestLog } from "./requestlog.ts";
import { type Route, Router } from "./routes.ts";
import { openSending, type Sending, type SendingParts } from "./sending.ts";
import { HEALTH_PATH, HEALTHY, type OpenPage, READY_PATH, type Server, startServer } from "./server.ts";
import { SHARED_PATH, sharedPage, shareRoutes } from "./share.ts";
import { suppressionRoutes } from "./suppressions.ts";
import { templateRoutes } from "./templates.ts";
import { usageRoutes } from "./usage.ts";
import { withWarnings } from "./warned.ts";
import { webhookRoutes } from "./webhooks.ts";

/** How often to look for confirmation mails that an ended process did not write. */
const CONFIRMATION_SWEEP_MS = 5_000;

/** What the handlers of the routes need. */
export type HandlerParts = SendingParts & {
  /** For one answer: where lists are read that may be some seconds old. */
  lists(): Sql;
  /** Checks and keeps the document of an automation. */
  applyDocument(sql: Sql, ...document: Parameters<AutomationParts["apply"]>): Promise<AppliedDocument>;
  /** Who is asked for the records of domains. */
  dns: DomainDns;
  /** Where the links in mail lead; null: to the server of the API. */
  publicUrl: string | null;
  host: string;
  port: number;
  /** The operator's sender of confirmation mails. */
  mailFrom: string;
  /** Private networks to which webhooks may be sent. */
  webhookNetworksAllowed: readonly Network[];
};

export type ApiParts = HandlerParts & {
  trustProxy: boolean;
  /** Memory for the bodies of requests. */
  budget: BodyBudget;
  /** Whether other api processes listen on the same port. */
  sharesPort: boolean;
  /** One that listens already; null: it is to be opened. */
  server: Server | null;
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
  const onFault = (error: unknown) => parts.log.fault(null, error);
  const handlers = openHandlers(parts, submitter, onFault);
  const { sending, links, contacts, confirmations, router } = handlers;
  const sweep = setInterval(() => void confirmations.sweep().catch(onFault), CONFIRMATION_SWEEP_MS);
  const json = new JsonParser();
  const requestLog = new RequestLog(parts.reads, parts.clock, onFault);
  const gate: GateParts = {
    readKey: sending.readKey,
    admit: (bearer) => sending.admitter.admit(bearer),
    router,
    parse: (body) => json.parse(body),
    inHand: new WorkOfRoutes(),
    onUse: (caller) => sending.lastUsed.note(caller),
  };
  const server = await listen(parts, gate, links, contacts, requestLog);
  return {
    port: server.port,
    routes: router.routes,
    async stop() {
      clearInterval(sweep);
      await server.stop();
      await handlers.close();
      await requestLog.stop();
      await json.close();
    },
  };
}

/** The routes with all that they work with; `submitBy` says how mail gets in. */
export function openHandlers(
  parts: HandlerParts,
  submitBy: (parts: SubmitParts) => Submit,
  onFault: (error: unknown) => void,
) {
  const { timeoutMs, connectCommits } = parts;
  const contacts = contactCommit({ connect: connectCommits, timeoutMs }, addressHasher(parts.serverSecret));
  const events = eventCommit({ connect: connectCommits, timeoutMs });
  const sending = openSending(parts, onFault);
  const submit = submitBy(sending.submit);
  const links = new Links(parts.serverSecret, publicUrlOf(parts));
  const confirmations = confirmationsBy(parts, sending, links, onFault);
  const imports = new Imports({ reads: parts.reads, clock: parts.clock, commit: contacts, onFault });
  const router = new Router(
    routesOf(parts, sending, submit, links, contacts, events, confirmations, imports, onFault),
  );
  return {
    ...{ sending, links, contacts, confirmations, router },
    async close() {
      await imports.stop();
      await sending.close();
      await contacts.close();
      await events.close();
    },
  };
}

function publicUrlOf({ publicUrl, host, port }: HandlerParts): string {
  return publicUrl ?? urlAt(host, port);
}

function confirmationsBy(
  { reads, clock, mailFrom }: HandlerParts,
  { submit, templates, owners }: Sending,
  links: Links,
  onFault: (error: unknown) => void,
): Confirmations {
  return new Confirmations({
    sql: reads,
    links,
    clock,
    from: mailFrom,
    write: ownSubmitter(submit),
    onFault,
    textOf: (owed, confirmUrl) =>
      confirmFromTemplate({ templates, owners }, owed, confirmUrl, clock.now()).catch((error: unknown) => {
        onFault(error);
        return null;
      }),
  });
}

/** Everything under a key, in one table. */
export function routesOf(
  parts: HandlerParts,
  { templates, owners, hashOf }: Sending,
  submit: Submit,
  links: Links,
  contacts: ContactCommit,
  events: EventCommit,
  confirmations: Confirmations,
  imports: Imports,
  onFault: (error: unknown) => void,
): Route[] {
  const { redis, reads, lists, clock, serverSecret, dns, timeoutMs } = parts;
  const keyring = new Keyring({ redis, sql: reads, serverSecret, clock });
  const { applyDocument, webhookNetworksAllowed: networksAllowed } = parts;
  // the keeper goes on with what is left
  const erasures = new ErasurePasses((workspaceId) => eraseMail(reads, workspaceId, clock).catch(onFault));
  const routes = [
    ...domainRoutes({
      ...{ reads, clock, serverSecret, dns, onFault },
      async onRaised(raised) {
        for (const { handle, version } of raised) await keyring.forget(handle, version);
      },
    }),
    ...emailRoutes({ submit, reads, lists, templates, owners, clock }),
    ...attachmentRoutes({ reads, clock, links }),
    ...shareRoutes({ reads, clock, links }),
    ...metricRoutes({ reads, clock }),
    ...grantRoutes(),
    ...templateRoutes({ reads, clock }),
    ...audienceRoutes({ reads, clock }),
    ...eventRoutes({ commit: events, reads, clock }),
    ...definitionRoutes({ reads, clock }),
    ...logRoutes({ reads, lists }),
    ...usageRoutes({ reads, clock }),
    ...automationRoutes({ reads, lists, clock, apply: (...document) => applyDocument(reads, ...document) }),
    ...eventLogRoutes(lists),
    ...suppressionRoutes({ reads, clock, hashOf }),
    ...feedbackRoutes({ sql: reads, clock }),
    ...webhookRoutes({ reads, lists, clock, serverSecret, networksAllowed }),
    ...contactImportRoutes(imports),
    ...contactRoutes({
      commit: contacts,
      reads,
      clock,
      onAsk: (workspaceId, contactId) => void confirmations.send(workspaceId, contactId).catch(onFault),
      eraseMail: (workspaceId) => atMost(timeoutMs, erasures.run(workspaceId)),
    }),
  ];
  return routes.map(withWarnings);
}

async function listen(
  parts: ApiParts,
  gate: GateParts,
  links: Links,
  contacts: ContactCommit,
  requestLog: RequestLog,
): Promise<Server> {
  const { reads, clock, trustProxy, timeoutMs, host, port, sharesPort, budget } = parts;
  const pages = linkPages({ links, commit: contacts, clock, publicUrl: publicUrlOf(parts), trustProxy });
  const downloads = new Downloads();
  const server = parts.server ?? (await startServer({ host, port, sharesPort, budget, missing: () => ({}) }));
  server.serve({
    gate,
    open: openPages(parts, gate.router),
    openBelow: new Map([
      ...pages,
      [ATTACHMENTS_PATH, attachmentPage({ reads, clock, links }, downloads)],
      [SHARED_PATH, sharedPage({ reads, clock, links }, downloads)],
    ]),
    timeoutMs,
    onAnswer: (exchange, ms) => {
      requestLog.note(exchange, ms);
      parts.log.answered(exchange, ms);
    },
    onFault: parts.log.fault,
  });
  return server;
}

function openPages(parts: ApiParts, router: Router): ReadonlyMap<string, OpenPage> {
  const document = JSON.stringify(openapi(router.routes));
  const describe: OpenPage = () => ({ status: 200, body: document });
  return new Map<string, OpenPage>([
    [HEALTH_PATH, () => ({ status: 200, body: HEALTHY })],
    [READY_PATH, () => readyz(parts)],
    ["/openapi.json", describe],
    ["/api/v1/openapi.json", describe],
  ]);
}

async function readyz(parts: ApiParts) {
  const { ready, checks } = await parts.isReady();
  if (!ready) parts.log.fault(null, new Unavailable("stores", `not ready: ${JSON.stringify(checks)}`));
  return {
    status: ready ? 200 : 503,
    body: JSON.stringify({ status: ready ? "ready" : "not ready", checks }),
  };
}
