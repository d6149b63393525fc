/** Puts the console together: its page, its calls, and the API for whoever is signed in. */
import type { ServerResponse } from "node:http";
import { type AttemptLimit, Attempts } from "../admission/attempts.ts";
import type { Keyring } from "../admission/keyring.ts";
import { Reservations } from "../admission/reserve.ts";
import type { Heard } from "../capacity/policy.ts";
import type { Clock } from "../clock.ts";
import { Sealer } from "../domain/key.ts";
import { Signer } from "../domain/signer.ts";
import { workspaceMarker } from "../ids.ts";
import type { ContactCommit } from "../record/contacts/commit.ts";
import type { Sql } from "../record/db/connect.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { urlAt } from "../rules/urlat.ts";
import type { SubmitOwn } from "../submit.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import { type ApiDoor, answerOfApi, sendFor } from "./apicalls.ts";
import { auditCalls } from "./audit.ts";
import { automationCalls } from "./automations.ts";
import { Calls, type ConsoleCall } from "./calls.ts";
import { capCalls } from "./caps.ts";
import { contactCalls } from "./contacts.ts";
import { emailCalls } from "./emails.ts";
import { figureCalls } from "./figures.ts";
import { Frames } from "./frames.ts";
import { Hashing } from "./hashing.ts";
import { keyCalls } from "./keys.ts";
import { Live } from "./live.ts";
import { mailboxCalls } from "./mailbox.ts";
import { memberCalls } from "./members.ts";
import type { ApiDocument } from "./operations.ts";
import { operatorCalls } from "./operator.ts";
import { PageFiles } from "./pagefiles.ts";
import { queueCalls, type SendingFigures } from "./queue.ts";
import { Reference } from "./reference.ts";
import { type ConsoleAnswer, deny, tooManyAttempts } from "./refusal.ts";
import type { BodyRoom, ConsoleRequest, ReceivedBody } from "./request.ts";
import { type ConsoleServer, startConsoleServer } from "./server.ts";
import { type ConsoleSession, Sessions } from "./sessions.ts";
import { begin, countGuess, type DemoKey, type SignInParts, signInCalls } from "./signin.ts";
import { templateCalls } from "./templates.ts";

const CALLS = "/console/call/";
const API = "v1/";
/** Of a script: people and their tabs make a tenth of it. */
const CALLS_OF_ACCOUNT: AttemptLimit = { name: "calls", most: 3_000, spanMs: 60_000 };
/** Longer than a call takes, and longer than a browser waits before it makes it again. */
const CHANGE_MADE = { name: "change", spanMs: 600_000 };

export type ConsoleDoor = ApiDoor & {
  /** As the API reads bodies. */
  parse(chunks: Buffer[], size: number, owner: string): Promise<unknown>;
  failure(error: unknown, isRead: boolean): ConsoleAnswer;
  writeOwn: SubmitOwn;
  contacts: ContactCommit;
  /** The OpenAPI document. */
  document: ApiDocument;
};

export type ConsoleParts = {
  sql: Sql;
  /** For one answer: where views are read that may be some seconds old. */
  lists(): Sql;
  redis: RedisClient;
  keyring: Keyring;
  clock: Clock;
  serverSecret: string;
  door: ConsoleDoor;
  room: BodyRoom;
  /** null: the address that the page was opened at. */
  publicUrl: string | null;
  /** Where the API is when `publicUrl` says nothing. */
  apiUrl: string;
  /** The operator's sender. */
  mailFrom: string;
  trustProxy: boolean;
  mailboxUrl: string | null;
  /** What of the mail's fate reaches this engine. */
  heard: Heard;
  /** Of the demo workspace, in development. */
  demoKey(): DemoKey | null;
  /** What is being sent, by domain. */
  figures(now: number): Promise<readonly SendingFigures[]>;
  host: string;
  port: number;
  onFault(error: unknown): void;
};

export type Console = ConsoleServer & { calls: readonly ConsoleCall[] };

export async function startConsole(parts: ConsoleParts): Promise<Console> {
  const { sql, lists, clock, serverSecret, door, publicUrl, host, port } = parts;
  const page = new PageFiles();
  const baseUrl = baseUrlOf(parts);
  const reference = new Reference(door.document, baseUrl);
  const isSecure = publicUrl?.startsWith("https:") ?? false;
  const attempts = new Attempts(parts.redis);
  const sessions = new Sessions({ sql, serverSecret, isSecure });
  const place = { url: "" };
  const table = callTable(parts, sessions, place);
  const calls = new Calls(
    {
      sql,
      sessions,
      now: () => clock.now(),
      readJson: (request, bytesMax) => readJson(door, request, bytesMax),
      isOwnOrigin: (request) => isOwnOrigin(publicUrl, request),
      countCall: (accountId) => countCall(attempts, accountId),
      isFirst: (session, callId) => isFirst(attempts, session, callId),
    },
    table,
  );
  const live = new Live({ lists, now: () => clock.now(), onFault: parts.onFault });
  const server = await startConsoleServer(
    {
      room: parts.room,
      trustProxy: parts.trustProxy,
      failure: (error, isRead) => door.failure(error, isRead),
      answer: async (request, response) => {
        if (/^\/api(?:\/|$)/.test(request.path)) throw notTheApi(request, baseUrl);
        if (!request.path.startsWith(CALLS)) return pageAnswer(page, reference, request);
        const path = request.path.slice(CALLS.length);
        if (path === "live" && request.method === "GET") return openLive(live, calls, request, response);
        return path.startsWith(API)
          ? answerOfApi({ sql, door, calls }, request, path.slice(API.length))
          : calls.answer(request, path);
      },
    },
    host,
    port,
  );
  const { port: listening, stop } = server;
  place.url = `${publicUrl?.replace(/\/+$/, "") ?? urlAt(host, listening)}/console`;
  return {
    port: listening,
    calls: table,
    stop() {
      live.stop();
      return stop();
    },
  };
}

/** Of the API, without a slash at its end. */
function baseUrlOf({ publicUrl, apiUrl }: Pick<ConsoleParts, "publicUrl" | "apiUrl">): string {
  return (publicUrl ?? apiUrl).replace(/\/+$/, "");
}

/** Without Redis nobody is kept from looking at what goes wrong. */
async function countCall(attempts: Attempts, accountId: string): Promise<void> {
  const wait = await attempts.count(CALLS_OF_ACCOUNT, accountId).catch(() => null);
  if (wait !== null) throw tooManyAttempts(wait);
}

/** Without Redis nobody is kept from what has to be changed, such as a key that others have seen. */
function isFirst(attempts: Attempts, { hash }: ConsoleSession, callId: string): Promise<boolean> {
  return attempts.rememberFirst(CHANGE_MADE, `${hash.toString("hex")} ${callId}`).catch(() => true);
}

/** `place` is known when the server listens. */
export function callTable(parts: ConsoleParts, sessions: Sessions, place: { url: string }): ConsoleCall[] {
  const { sql, lists, redis, clock, serverSecret, door, keyring, figures } = parts;
  const reservations = new Reservations(redis, sql, clock);
  const hashing = new Hashing();
  const signIn: SignInParts = {
    sql,
    sessions,
    attempts: new Attempts(redis),
    hashing,
    sealer: new SecretSealer(serverSecret),
    write: door.writeOwn,
    mailFrom: parts.mailFrom,
    consoleUrl: () => place.url,
    baseUrl: baseUrlOf(parts),
    isDevelopment: parts.mailboxUrl !== null,
    demoKey: parts.demoKey,
    onFault: parts.onFault,
  };
  const frames = new Frames();
  return [
    ...signInCalls(signIn),
    ...keyCalls({ sql, keyring }),
    ...memberCalls({
      ...{ sql, sessions, hashing, attempts: signIn.attempts, consoleUrl: () => place.url },
      ...{ write: door.writeOwn, mailFrom: parts.mailFrom, isDevelopment: signIn.isDevelopment },
      countGuess: (request) => countGuess(signIn, request),
      begin: (request, account, now) => begin(signIn, request, account, now),
    }),
    ...auditCalls(lists),
    ...figureCalls({ sql, lists }),
    ...capCalls({ sql, lists, keyring, reservations, heard: parts.heard }),
    ...queueCalls({ sql, lists, figures }),
    ...emailCalls({
      ...{ sql, send: (visit, body) => sendFor(door, visit, body), markOf: workspaceMarker(serverSecret) },
      signer: new Signer({ sql, sealer: new Sealer(serverSecret) }),
    }),
    ...templateCalls({ sql, frames }),
    ...automationCalls({ sql }),
    ...contactCalls({ sql, commit: door.contacts, clock, onFault: parts.onFault }),
    ...mailboxCalls(parts.mailboxUrl),
    ...operatorCalls({ sql, lists, keyring, figures }),
  ];
}

async function openLive(
  live: Live,
  calls: Calls,
  request: ConsoleRequest,
  response: ServerResponse,
): Promise<"answered"> {
  calls.expectOwnPage(request);
  const session = await calls.signedIn(request);
  const workspace = await calls.workspaceOf(request, session);
  const { accountId } = session;
  const mayListen = () => calls.isStillMember(request, workspace.id);
  live.open({ accountId, workspaceId: workspace.id, mayListen }, response);
  return "answered";
}

/** What the API says to a web page; and to a server, where the API is. */
function notTheApi(request: ConsoleRequest, baseUrl: string) {
  const isFromBrowser = FROM_BROWSERS.some((name) => request.header(name) !== "");
  return isFromBrowser
    ? deny(
        "browser_request_blocked",
        `API keys are server-side secrets: requests from a web page are refused. Call ${baseUrl}/api/v1 from your server.`,
      )
    : deny("not_found", `This is the console. The API is at ${baseUrl}/api/v1.`);
}
const FROM_BROWSERS = ["origin", "referer", "sec-fetch-site", "sec-fetch-dest"];

async function pageAnswer(
  page: PageFiles,
  reference: Reference,
  request: ConsoleRequest,
): Promise<ConsoleAnswer> {
  const { method, path, query } = request;
  if (method !== "GET" && method !== "HEAD")
    throw deny("method_not_allowed", `${method} is not allowed here.`, { headers: { Allow: "GET, HEAD" } });
  if (path === "/") return { status: 302, body: "", headers: { Location: "/console" } };
  if (path === "/healthz") return { status: 200, body: { status: "ok" } };
  if (path === "/console" || path.startsWith("/console/"))
    return page.answer(path.slice("/console/".length), request);
  if (path === "/docs" || path.startsWith("/docs/"))
    return reference.answer(path.slice("/docs".length).replace(/^\/+|\/+$/g, ""), new URLSearchParams(query));
  throw deny("not_found", "There is nothing here. The console is at /console, the reference at /docs.");
}

async function readJson(door: ConsoleDoor, request: ConsoleRequest, bytesMax: number): Promise<unknown> {
  if (!request.hasBody) return undefined;
  if (!/^application\/json *(;|$)/i.test(request.head.contentType))
    throw deny("validation_error", "The `Content-Type` header must be `application/json`.");
  const { chunks, size } = bytesOf(await request.body(bytesMax));
  return size === 0 ? undefined : door.parse(chunks, size, request.owner);
}

function bytesOf(received: ReceivedBody): { chunks: Buffer[]; size: number } {
  if (received.kind === "body") return received;
  if (received.kind === "too large") throw deny("validation_error", "The request body is too large.");
  throw deny("service_unavailable", "There is no room for this request now. Try again in 1 second.");
}

/** Where nothing says what our address is, it is the one that the browser has asked. */
function isOwnOrigin(publicUrl: string | null, request: ConsoleRequest): boolean {
  const origin = request.header("origin");
  if (!URL.canParse(origin)) return false;
  if (publicUrl !== null) return origin === new URL(publicUrl).origin;
  return new URL(origin).host === request.header("host").toLowerCase();
}
