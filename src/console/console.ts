/** Puts the console together: its page, its calls, and the API for whoever is signed in. */
import { Attempts } from "../admission/attempts.ts";
import type { Keyring } from "../admission/keyring.ts";
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import type { RedisClient } from "../redis/scripts.ts";
import type { SubmitOwn } from "../submit.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import { type ApiDoor, answerOfApi } from "./apicalls.ts";
import { Calls, type ConsoleCall } from "./calls.ts";
import { Hashing } from "./hashing.ts";
import { keyCalls } from "./keys.ts";
import { PageFiles } from "./pagefiles.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";
import type { BodyRoom, ConsoleRequest, ReceivedBody } from "./request.ts";
import { type ConsoleServer, startConsoleServer } from "./server.ts";
import { Sessions } from "./sessions.ts";
import { type DemoKey, type SignInParts, signInCalls } from "./signin.ts";

const CALLS = "/console/call/";
const API = "v1/";
const BODY_BYTES_MAX = 4 * 1024 * 1024;

export type ConsoleDoor = ApiDoor & {
  /** As the API reads bodies. */
  parse(chunks: Buffer[], size: number, owner: string): Promise<unknown>;
  failure(error: unknown, isRead: boolean): ConsoleAnswer;
  writeOwn: SubmitOwn;
};

export type ConsoleParts = {
  sql: Sql;
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
  /** Of the demo workspace, in development. */
  demoKey(): DemoKey | null;
  host: string;
  port: number;
  onFault(error: unknown): void;
};

export type Console = ConsoleServer & { calls: readonly ConsoleCall[] };

export async function startConsole(parts: ConsoleParts): Promise<Console> {
  const { sql, clock, serverSecret, door, publicUrl, host, port } = parts;
  const page = new PageFiles();
  const isSecure = publicUrl?.startsWith("https:") ?? false;
  const sessions = new Sessions({ sql, serverSecret, isSecure });
  const place = { url: "" };
  const table = callTable(parts, sessions, place);
  const calls = new Calls(
    {
      sql,
      sessions,
      now: () => clock.now(),
      readJson: (request) => readJson(door, request),
      isOwnOrigin: (request) => isOwnOrigin(publicUrl, request),
    },
    table,
  );
  const server = await startConsoleServer(
    {
      room: parts.room,
      trustProxy: parts.trustProxy,
      failure: (error, isRead) => door.failure(error, isRead),
      answer: async (request) => {
        if (!request.path.startsWith(CALLS)) return pageAnswer(page, request);
        const path = request.path.slice(CALLS.length);
        return path.startsWith(API)
          ? answerOfApi(door, calls, request, path.slice(API.length))
          : calls.answer(request, path);
      },
    },
    host,
    port,
  );
  place.url = `${publicUrl?.replace(/\/+$/, "") ?? `http://${host}:${server.port}`}/console`;
  return { ...server, calls: table };
}

/** `place` is known when the server listens. */
function callTable(parts: ConsoleParts, sessions: Sessions, place: { url: string }): ConsoleCall[] {
  const { sql, redis, serverSecret, door, keyring } = parts;
  const signIn: SignInParts = {
    sql,
    sessions,
    attempts: new Attempts(redis),
    hashing: new Hashing(),
    sealer: new SecretSealer(serverSecret),
    write: door.writeOwn,
    mailFrom: parts.mailFrom,
    consoleUrl: () => place.url,
    baseUrl: parts.publicUrl ?? parts.apiUrl,
    isDevelopment: parts.mailboxUrl !== null,
    demoKey: parts.demoKey,
    onFault: parts.onFault,
  };
  return [...signInCalls(signIn), ...keyCalls({ sql, keyring })];
}

function pageAnswer(page: PageFiles, request: ConsoleRequest): ConsoleAnswer {
  const { method, path } = request;
  if (method !== "GET" && method !== "HEAD")
    throw deny("method_not_allowed", `${method} is not allowed here.`, { headers: { Allow: "GET, HEAD" } });
  if (path === "/") return { status: 302, body: "", headers: { Location: "/console" } };
  if (path === "/healthz") return { status: 200, body: { status: "ok" } };
  if (path === "/console" || path.startsWith("/console/"))
    return page.answer(path.slice("/console/".length), request);
  throw deny("not_found", "There is nothing here. The console is at /console.");
}

async function readJson(door: ConsoleDoor, request: ConsoleRequest): Promise<unknown> {
  if (!request.hasBody) return undefined;
  if (!/^application\/json *(;|$)/i.test(request.head.contentType))
    throw deny("validation_error", "The `Content-Type` header must be `application/json`.");
  const { chunks, size } = bytesOf(await request.body(BODY_BYTES_MAX));
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
