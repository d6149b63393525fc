/** /console/call/v1: the API for whoever is signed in, with what their role allows. */

import { identity, parseMailbox } from "../address.ts";
import type { Caller } from "../admission/admit.ts";
import { toBits } from "../admission/permissions.ts";
import { isUuid } from "../ids.ts";
import { nameOf } from "../record/accounts/names.ts";
import type { WorkspaceOfPerson } from "../record/accounts/sessions.ts";
import { placeContact } from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import { limitsText, streamLimits, TRANSACTIONAL } from "../rules/stream.ts";
import { type Calls, decoded, expectRole, type KnownWorkspace, MANAGERS, type VisitOf } from "./calls.ts";
import { type ConsoleAnswer, ConsoleRefusal, deny } from "./refusal.ts";
import type { ConsoleRequest } from "./request.ts";
import type { ConsoleSession } from "./sessions.ts";

const BASE = "/api/v1/";

type AskedOfApi = { name: string; erases: boolean };

/**
 * The API as plain calls: `refusal` is asked before the body is read, `before` when the handler is about to
 * run. What either answers is the answer.
 */
export type RequestOfApi = Pick<
  ConsoleRequest,
  "method" | "path" | "query" | "hasBody" | "head" | "body" | "dropBody" | "onGone"
>;

export type ApiDoor = {
  call(
    request: RequestOfApi,
    caller: Caller,
    chaperone: {
      refusal(asked: AskedOfApi): ApiAnswer | null;
      before(asked: AskedOfApi): Promise<ApiAnswer | null>;
    },
  ): Promise<ApiAnswer>;
};
type ApiAnswer = { status: number; body: string | Buffer; headers?: Record<string, string> };

/** What erases people or cuts off mail, and what is about webhooks and their secrets. */
const NOT_FOR_MEMBERS: ReadonlySet<string> = new Set([
  "DELETE /audiences/{id}",
  "DELETE /segments/{id}",
  "DELETE /domains/{id}",
  "POST /webhooks",
  "GET /webhooks/{id}",
  "PATCH /webhooks/{id}",
  "DELETE /webhooks/{id}",
  "POST /webhooks/{id}/signing-secret/rotate",
]);

/** Parameters that an address may stand for. */
const OF_PEOPLE: ReadonlySet<string> = new Set(["email_or_id", "id_or_email"]);
const RENAMING: ReadonlySet<string> = new Set(["PATCH", "PUT"]);

type ApiCallParts = { sql: Sql; door: ApiDoor; calls: Calls };

export async function answerOfApi(
  { sql, door, calls }: ApiCallParts,
  request: ConsoleRequest,
  path: string,
): Promise<ConsoleAnswer> {
  calls.expectOwnPage(request);
  const session = await calls.signedIn(request);
  const workspace = await calls.workspaceOf(request, session);
  request.owner = workspace.id;
  request.path = BASE + path;
  let note: ((answer: ApiAnswer) => Promise<void>) | null = null;
  const answer = await door.call(request, callerOf(session, workspace), {
    refusal: (asked) => refusalOf(workspace, asked),
    async before(asked) {
      if (request.method === "GET") return null;
      const [kind = ""] = path.split("/").filter((segment) => segment !== "");
      const nameNow = (id = "") => nameOf(sql, workspace.id, kind, id);
      try {
        const refused = await refusalAfterBody(calls, request, session, asked);
        if (refused) return refused;
        const params = paramsIn(asked.name, path);
        const subject = await subjectOf(sql, workspace.id, kind, params);
        const [first] = params;
        // it may have no name afterwards
        const before = first ? await nameNow(first.value) : null;
        const change = { workspaceId: workspace.id, action: asked.name, subject };
        const answered = await calls.note(request, session, change);
        note = async (given) => {
          const id = idIn(given);
          const mayRename = before === null || RENAMING.has(request.method);
          const after = mayRename ? await nameNow(id ?? first?.value) : before;
          await answered(given.status, detailOf(subject === "" ? id : undefined, before, after));
        };
        return null;
      } catch (error) {
        return answerOfRefusal(error);
      }
    },
  });
  await (note as ((answer: ApiAnswer) => Promise<void>) | null)?.(answer);
  return answer;
}

/** Of what was made, or of what an address stood for. */
function idIn({ status, body }: ApiAnswer): string | undefined {
  if (status >= 300) return undefined;
  const { id } = JSON.parse(String(body)) as { id?: unknown };
  return typeof id === "string" ? id : undefined;
}

function detailOf(id: string | undefined, before: string | null, after: string | null): object | undefined {
  const name = before ?? after;
  if (id === undefined && name === null) return undefined;
  return {
    ...(id !== undefined && { id }),
    ...(name !== null && { name }),
    ...(after !== null && after !== name && { new_name: after }),
  };
}

/**
 * POST /emails with a body of our own, for whoever asked. It is allowed to every role, and noted by who calls
 * this.
 */
export function sendFor(
  door: ApiDoor,
  { request, session, workspace }: VisitOf<KnownWorkspace>,
  body: object,
): Promise<ConsoleAnswer> {
  const bytes = Buffer.from(JSON.stringify(body));
  const received = { kind: "body" as const, chunks: [bytes], size: bytes.byteLength };
  const asked: RequestOfApi = {
    ...{ method: "POST", path: `${BASE}emails`, query: "", hasBody: true, onGone: null },
    head: {
      ...{ idempotencyKey: request.head.idempotencyKey, batchValidation: "", contentEncoding: "" },
      ...{ contentLength: bytes.byteLength, contentType: "application/json" },
    },
    body: async () => received,
    dropBody: () => {},
  };
  return door.call(asked, callerOf(session, workspace), { refusal: () => null, before: async () => null });
}

function refusalOf(workspace: WorkspaceOfPerson, { name, erases }: AskedOfApi): ApiAnswer | null {
  if (!erases && !NOT_FOR_MEMBERS.has(name)) return null;
  try {
    expectRole(workspace, MANAGERS);
    return null;
  } catch (error) {
    return answerOfRefusal(error);
  }
}

async function refusalAfterBody(
  calls: Calls,
  request: ConsoleRequest,
  session: ConsoleSession,
  asked: AskedOfApi,
): Promise<ApiAnswer | null> {
  if (!request.hasBody) return null;
  await calls.signedInStill(request, session);
  const workspace = await calls.workspaceOf(request, session);
  if (workspace.isSuspended) throw deny("workspace_suspended", "This workspace is suspended.");
  return refusalOf(workspace, asked);
}

/** Everything else is thrown on. */
function answerOfRefusal(error: unknown): ApiAnswer {
  if (!(error instanceof ConsoleRefusal)) throw error;
  return { ...error.answer, body: JSON.stringify(error.answer.body) };
}

type Param = { name: string; value: string };

/** What stands for the parameters of the path. */
function paramsIn(name: string, path: string): Param[] {
  const wanted = name.split("/").slice(1);
  const given = path.split("/").filter((segment) => segment !== "");
  return given.flatMap((value, n) => {
    const [, param] = /^\{(.+)\}$/.exec(wanted[n] ?? "") ?? [];
    return param === undefined ? [] : [{ name: param, value }];
  });
}

/** Without addresses: a contact is named by its id, since the log is kept when people are erased. */
async function subjectOf(
  sql: Sql,
  workspaceId: string,
  kind: string,
  params: readonly Param[],
): Promise<string> {
  const outer = params[0]?.value ?? "";
  const audience = kind !== "contacts" && isUuid(outer) ? [outer] : null;
  const ids = params.map(({ name, value }) => {
    if (!OF_PEOPLE.has(name) || isUuid(value)) return value;
    return name === "email_or_id" ? contactAt(sql, workspaceId, audience, decoded(value)) : null;
  });
  return (await Promise.all(ids)).filter((id) => id !== null).join(" ");
}

/** The contact with an address, also one that is archived; null: there is none. */
async function contactAt(
  sql: Sql,
  workspaceId: string,
  audience: readonly string[] | null,
  text: string,
): Promise<string | null> {
  const mailbox = parseMailbox(text);
  if (!mailbox) return null;
  const placed = await placeContact(
    sql,
    workspaceId,
    audience,
    { identity: identity(mailbox.address) },
    true,
  );
  return placed?.id ?? null;
}

/** An account stands where a key would. */
function callerOf(
  { accountId }: ConsoleSession,
  { id, handle, plan, version, isSuspended, streams }: WorkspaceOfPerson,
): Caller {
  return {
    bearer: { handle, hash: "" },
    keyId: accountId,
    permissions: toBits(["full"]),
    audienceIds: null,
    workspaceId: id,
    ...{ plan, version, isSuspended },
    stream: TRANSACTIONAL,
    streams: limitsText(streamLimits(streams, {})),
  };
}
