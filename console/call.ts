/** Calls to the console's server. A refusal is thrown in the server's words. */
import { heardTime } from "./clock.ts";

const CALLS = "/console/call/";
/** A browser takes these for the way up, also as they are encoded: the call would be another one. */
const WAY_UP = /\/(\.|%2e){1,2}([/?]|$)/i;
/** Longer than the server takes for anything: a simulation gets a minute. */
const ANSWER_MS_MAX = 75_000;
/** The server gives a body a minute: 4 MB are not sent faster. */
const SLOWEST_BYTES_PER_MS = 70;

export class CallError extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Of nobody before somebody has signed in. */
type Identity = { workspaceId: string | null; accountId: string | null; csrf: string };
let identity: Identity = { workspaceId: null, accountId: null, csrf: "" };
let onSignedOut = () => {};
let onOutdated = () => {};

/** `outdated`: what is known of the person may no longer hold, such as a role or a membership. */
export function actAs(who: Identity, signedOut: () => void, outdated: () => void): void {
  identity = who;
  onSignedOut = signedOut;
  onOutdated = outdated;
}

/** An answer tells something of the person that was not known. */
export function askWhoIsSignedIn(): void {
  onOutdated();
}

/** Of a page that waits behind the sign-in nothing is asked. */
export function isSignedIn(): boolean {
  return identity.csrf !== "";
}

/** The token of the session that calls are of; empty when nobody is signed in. */
export function sessionToken(): string {
  return identity.csrf;
}

/** The workspace that calls are for now. */
export function actsIn(): string | null {
  return identity.workspaceId;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** `isRepeatable`: nothing is done by it that must be looked for before it is tried again. */
type Asked = {
  method: Method;
  path: string;
  body?: unknown;
  onceKey?: string | undefined;
  isRepeatable?: boolean;
};

/**
 * `path` is below /console/call: `v1/emails` or `keys`. Browsers make a call again by themselves when a
 * connection breaks, and the server refuses the second. `onceKey`: it does the call once, however often it is
 * made with this key, and answers each.
 */
export async function call<T>(method: Method, path: string, body?: unknown, onceKey?: string): Promise<T> {
  return answerTo<T>({ method, path, body, onceKey, isRepeatable: method === "GET" });
}

/** With a body, of what changes nothing or may be done twice, such as a preview or signing in. */
export async function inquire<T>(path: string, body?: unknown): Promise<T> {
  return answerTo<T>({ method: "POST", path, body, isRepeatable: true });
}

async function answerTo<T>(asked: Asked): Promise<T> {
  const response = await ask(asked);
  const text = await response.text().catch((error: Error) => notAnswered(error, asked));
  return (text === "" ? undefined : parsed(text, response.status)) as T;
}

function parsed(text: string, status: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CallError(
      ...([status, "unreadable"] as const),
      "The answer is not one of the console. Check what stands between this browser and the server.",
    );
  }
}

export const get = <T>(path: string) => call<T>("GET", path);

const READS_MAX = 5;

/**
 * For a change that names the version which it has just read: where somebody else has saved another in
 * between, it is read, and looked at, once more.
 */
export async function untilUnmoved(readAndSave: () => Promise<void>): Promise<void> {
  for (let reads = 1; ; reads++)
    try {
      return await readAndSave();
    } catch (refusal) {
      if ((refusal as CallError).code !== "version_conflict" || reads === READS_MAX) throw refusal;
    }
}

/** Of what is no JSON, such as the raw source of an e-mail. */
export async function getText(path: string): Promise<string> {
  const asked: Asked = { method: "GET", path, isRepeatable: true };
  return (await ask(asked)).text().catch((error: Error) => notAnswered(error, asked));
}

async function ask(asked: Asked): Promise<Response> {
  const { method, path, body, onceKey, isRepeatable } = asked;
  if (WAY_UP.test(CALLS + path))
    throw new CallError(404, "not_found", "There is no such thing. The link may be old or incomplete.");
  const text = body === undefined ? null : JSON.stringify(body);
  const { csrf } = identity;
  const response = await fetch(CALLS + path, {
    method,
    headers: { ...headersOf(method, body), ...(!isRepeatable && onceHeader(onceKey)) },
    ...(text !== null && { body: text }),
    // what is read has no deadline, since a long answer may take its time
    ...(method !== "GET" && { signal: deadlineOf(text) }),
  }).catch((error: Error) => notAnswered(error, asked));
  heardTime(response.headers.get("date"));
  if (response.ok) return response;
  const { name, message } = await refusalOf(response);
  // other refusals with 401 are of a password or a code that was typed, or of a session before this one
  if (name === "not_signed_in" && csrf === identity.csrf) onSignedOut();
  if (response.status === 403 || response.status === 404) onOutdated();
  throw new CallError(response.status, name, message);
}

/** A call that is made again gets the first answer again by its key, and is refused by its id. */
function onceHeader(onceKey: string | undefined): Record<string, string> {
  return onceKey === undefined ? { "X-Call-Id": randomKey() } : { "Idempotency-Key": onceKey };
}

/** `crypto.randomUUID` is there only with TLS. */
export function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** A connection that broke may have brought the call before it did. */
function notAnswered({ name }: Error, { isRepeatable = false }: Asked): never {
  if (name === "TimeoutError")
    throw new CallError(
      ...([0, isRepeatable ? "unreachable" : "outcome_unknown"] as const),
      isRepeatable
        ? "The server has not answered in time. Try again."
        : "The server has not answered, so it is unknown whether this was done. Look before you try it again.",
    );
  const check = isRepeatable ? "" : ", and whether this was done, before you try it again";
  throw new CallError(0, "unreachable", `The server does not answer. Check that it is running${check}.`);
}

function headersOf(method: Method, body: unknown): Record<string, string> {
  const { workspaceId, accountId, csrf } = identity;
  return {
    ...(workspaceId === null ? {} : { "X-Workspace": workspaceId }),
    // somebody else may have signed in since, in another tab
    ...(accountId === null ? {} : { "X-Account": accountId }),
    ...(method === "GET" ? {} : { "X-CSRF-Token": csrf }),
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
  };
}

function deadlineOf(text: string | null): AbortSignal {
  return AbortSignal.timeout(ANSWER_MS_MAX + Math.ceil((text?.length ?? 0) / SLOWEST_BYTES_PER_MS));
}

async function refusalOf(response: Response): Promise<{ name: string; message: string }> {
  const refusal = (await response.json().catch(() => null)) as { name?: string; message?: string } | null;
  return {
    name: refusal?.name ?? "unreadable",
    message: refusal?.message ?? `The server answered ${response.status} without words.`,
  };
}

/** What the browser fetches by itself, and can give no headers. */
export function linkOf(
  { session, workspace }: { session: { account: { id: string } }; workspace: { id: string } | null },
  path: string,
  query: Record<string, string | null> = {},
): string {
  return withQuery(CALLS + path, { ...query, workspace: workspace?.id, account: session.account.id });
}

/** A path with the parameters that are set. */
export function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  if (text === "") return path;
  return `${path}${path.includes("?") ? "&" : "?"}${text}`;
}
