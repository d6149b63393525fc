/**
 * The calls of the console as a table, and what stands before each: the session, the console's own origin,
 * the workspace and the role, all asked of the record with every call. A change is written to the audit log
 * before it happens.
 */
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { isUuid, newId } from "../ids.ts";
import { insertChange, noteChanged, WHOLE_INSTALLATION } from "../record/accounts/changes.ts";
import { findMembership, type WorkspaceOfPerson } from "../record/accounts/sessions.ts";
import type { Sql } from "../record/db/connect.ts";
import { PERSON_ROLES, type PersonRole } from "../rules/people.ts";
import { errorsIn, faultWords, type SchemaError } from "../schemafault.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";
import type { ConsoleRequest } from "./request.ts";
import { type ConsoleSession, isSameText, type Sessions } from "./sessions.ts";

/** What a handler is given. */
export type Visit<Body = unknown> = {
  request: ConsoleRequest;
  params: readonly string[];
  query: URLSearchParams;
  /** Checked against the schema of the call; {} when it has none. */
  body: Body;
  now: number;
};
export type VisitOf<Known extends object, Body = unknown> = Visit<Body> & Known;
export type KnownPerson = { session: ConsoleSession };
export type KnownWorkspace = KnownPerson & { workspace: WorkspaceOfPerson };

type CallOf<Scope extends string, Known extends object, Body extends TSchema = TSchema> = {
  scope: Scope;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below /console/call/; `{name}` stands for one segment. */
  path: string;
  body?: Body;
  /** It changes nothing, although it is no GET. */
  changesNothing?: boolean;
  /** Where it takes more than others. */
  bodyBytesMax?: number;
  handle(visit: VisitOf<Known, Static<Body>>): Promise<ConsoleAnswer> | ConsoleAnswer;
};

/** `open`: nobody needs to be signed in. `operator`: about the whole installation. */
export type ConsoleCall =
  | CallOf<"open", object>
  | CallOf<"account", KnownPerson>
  | CallOf<"operator", KnownPerson>
  | (CallOf<"workspace", KnownWorkspace> & { roles: readonly PersonRole[] });

const BODY_BYTES_MAX = 4 * 1024 * 1024;
/** Of strangers, who share what room there is for them. */
const OPEN_BODY_BYTES_MAX = 16 * 1024;
/** Of the name of an unknown field. */
const FIELD_SHOWN_MAX = 60;

type Unscoped<Call> = Omit<Call, "scope">;

export function openCall<Body extends TSchema>(call: Unscoped<CallOf<"open", object, Body>>): ConsoleCall {
  return { ...call, scope: "open" };
}

export function accountCall<Body extends TSchema>(
  call: Unscoped<CallOf<"account", KnownPerson, Body>>,
): ConsoleCall {
  return { ...call, scope: "account" };
}

export function operatorCall<Body extends TSchema>(
  call: Unscoped<CallOf<"operator", KnownPerson, Body>>,
): ConsoleCall {
  return { ...call, scope: "operator" };
}

export function workspaceCall<Body extends TSchema>(
  call: Unscoped<CallOf<"workspace", KnownWorkspace, Body> & { roles: readonly PersonRole[] }>,
): ConsoleCall {
  return { ...call, scope: "workspace" };
}

export const EVERYONE: readonly PersonRole[] = PERSON_ROLES;
export const MANAGERS: readonly PersonRole[] = ["owner", "admin"];

export type CallParts = {
  sql: Sql;
  sessions: Sessions;
  now(): number;
  /** Throws what the caller is answered. */
  readJson(request: ConsoleRequest, bytesMax: number): Promise<unknown>;
  isOwnOrigin(request: ConsoleRequest): boolean;
  /** Throws when an account makes more calls than people make. */
  countCall(accountId: string): Promise<void>;
  /** Whether the session makes the call with this id for the first time. */
  isFirst(session: ConsoleSession, callId: string): Promise<boolean>;
};

type FindableCall = ConsoleCall & { segments: string[]; check: BodyCheck };

/** A change as the audit log names it. */
export type NamedChange = { workspaceId: string | null; action: string; subject: string };

export class Calls {
  readonly #parts: CallParts;
  readonly #calls: readonly FindableCall[];

  constructor(parts: CallParts, calls: readonly ConsoleCall[]) {
    this.#parts = parts;
    this.#calls = calls.map((call) => ({
      ...call,
      segments: call.path.split("/"),
      check: bodyCheck(call.body ?? null),
    }));
  }

  /** `path` is below /console/call/. */
  async answer(request: ConsoleRequest, path: string): Promise<ConsoleAnswer> {
    this.expectOwnPage(request);
    const { call, params } = this.#find(request.method, path);
    request.changesNothing ||= call.changesNothing === true;
    const visit = { request, params, query: new URLSearchParams(request.query), now: this.#parts.now() };
    if (call.scope === "open")
      return call.handle({
        ...visit,
        body: call.check(await this.#parts.readJson(request, OPEN_BODY_BYTES_MAX)),
      });
    const session = await this.signedIn(request);
    request.owner = session.accountId;
    const known = { ...visit, session };
    if (call.scope === "workspace") {
      const { id, role } = await this.workspaceOf(request, session);
      expectRole({ role }, call.roles);
      request.owner = id;
      const body = call.check(await this.#parts.readJson(request, call.bodyBytesMax ?? BODY_BYTES_MAX));
      await this.signedInStill(request, session);
      const workspace = await this.workspaceOf(request, session);
      expectRole(workspace, call.roles);
      return this.#handle(call, known, workspace.id, () => call.handle({ ...known, workspace, body }));
    }
    if (call.scope === "operator" && !session.isOperator) throw onlyOperators();
    const body = call.check(await this.#parts.readJson(request, BODY_BYTES_MAX));
    const { isOperator } = await this.signedInStill(request, session);
    if (call.scope === "operator" && !isOperator) throw onlyOperators();
    const about = call.scope === "operator" ? WHOLE_INSTALLATION : null;
    return this.#handle(call, known, about, () => call.handle({ ...known, body }));
  }

  /**
   * Signed in, and when it changes something: by our own page. The page says whose it is where it knows that:
   * tabs share the cookie, and somebody else may have signed in since in another one.
   */
  async signedIn(request: ConsoleRequest): Promise<ConsoleSession> {
    const meant = named(request, "account");
    const session = await this.#parts.sessions.find(request, this.#parts.now());
    if (!session) throw notSignedIn();
    if (meant !== "" && meant !== session.accountId)
      throw deny("not_signed_in", "Somebody else has signed in, such as in another tab. Sign in.");
    await this.#parts.countCall(session.accountId);
    if (request.method !== "GET" && !isSameText(request.header("x-csrf-token"), session.csrf))
      throw deny(
        "cross_site_request",
        "You have signed in again since this page was opened, such as in another tab. Try once more. (The `X-CSRF-Token` header is missing or wrong.)",
      );
    return session;
  }

  /**
   * Asked again when the body has come: whoever is about to lose a session or a role could begin many
   * changes, and send their bodies a minute later.
   */
  async signedInStill(request: ConsoleRequest, session: ConsoleSession): Promise<ConsoleSession> {
    if (!request.hasBody) return session;
    const still = await this.#parts.sessions.find(request, this.#parts.now());
    if (still?.accountId !== session.accountId) throw notSignedIn();
    return still;
  }

  async workspaceOf(request: ConsoleRequest, session: ConsoleSession): Promise<WorkspaceOfPerson> {
    const id = named(request, "workspace");
    const workspace = isUuid(id) ? await findMembership(this.#parts.sql, session.accountId, id) : null;
    if (!workspace)
      throw deny(
        "not_found",
        "There is no such workspace, or you are not a member of it. `X-Workspace` names it.",
      );
    return workspace;
  }

  /** Of a stream, which outlives the request that opened it. */
  async isStillMember(request: ConsoleRequest, workspaceId: string): Promise<boolean> {
    const session = await this.#parts.sessions.find(request, this.#parts.now());
    return (
      session !== null && (await findMembership(this.#parts.sql, session.accountId, workspaceId)) !== null
    );
  }

  /**
   * A browser says where a request comes from. Whoever says nothing is no browser, and has no cookie of
   * others.
   */
  expectOwnPage(request: ConsoleRequest): void {
    const site = request.header("sec-fetch-site");
    const isForeign = site !== "" && site !== "same-origin" && site !== "none";
    if (!isForeign && (request.method === "GET" || this.#parts.isOwnOrigin(request))) return;
    throw deny(
      "cross_site_request",
      "This call comes from another site. Open the console at its own address (PUBLIC_URL).",
    );
  }

  /**
   * Of a change that is about to happen. Browsers make a call again by themselves when a connection breaks:
   * a change that was begun is refused.
   */
  async note(
    request: ConsoleRequest,
    session: ConsoleSession,
    change: NamedChange,
  ): Promise<(status: number, detail?: object) => Promise<void>> {
    const id = request.header("x-call-id");
    if (id !== "" && !(await this.#parts.isFirst(session, id))) throw repeated();
    return noteChange(this.#parts.sql, session, change, this.#parts.now());
  }

  async #handle(
    { method, path, changesNothing }: ConsoleCall,
    { request, session, params }: Omit<VisitOf<KnownPerson>, "body">,
    workspaceId: string | null,
    work: () => Promise<ConsoleAnswer> | ConsoleAnswer,
  ): Promise<ConsoleAnswer> {
    if (method === "GET" || changesNothing) return work();
    const change = { workspaceId, action: `${method} ${path}`, subject: params.join(" ") };
    const answered = await this.note(request, session, change);
    try {
      const answer = await work();
      await answered(answer.status, answer.detail);
      return answer;
    } catch (error) {
      if (isAnswered(error)) await answered(error.answer.status);
      throw error;
    }
  }

  #find(method: string, path: string): { call: FindableCall; params: string[] } {
    const segments = path.split("/").filter((segment) => segment !== "");
    const fitting = this.#calls.flatMap((call) => {
      const params = paramsOf(call.segments, segments);
      return params ? [{ call, params }] : [];
    });
    const [found] = fitting.filter(({ call }) => call.method === method);
    if (found) return found;
    if (fitting.length === 0) throw deny("not_found", `There is no call ${path.slice(0, 100)}.`);
    const allow = fitting.map(({ call }) => call.method).join(", ");
    throw deny("method_not_allowed", `${method} is not allowed here. Allowed: ${allow}.`, {
      headers: { Allow: allow },
    });
  }
}

/** Writes what is about to happen; hands back a function that notes how it was answered. */
export async function noteChange(
  sql: Sql,
  { accountId, email }: { accountId: string; email: string },
  change: NamedChange,
  now: number,
): Promise<(status: number, detail?: object) => Promise<void>> {
  const row = { id: newId(now), accountId, workspaceId: change.workspaceId };
  await insertChange(sql, { ...row, ...change, email, status: null });
  return (status, detail) => noteChanged(sql, { ...row, status, detail: detail ?? null });
}

/** By a header, or in the query of what the browser fetches by itself. Empty: not named. */
function named(request: ConsoleRequest, what: "workspace" | "account"): string {
  const query = request.method === "GET" ? new URLSearchParams(request.query).get(what) : null;
  return request.header(`x-${what}`) || (query ?? "");
}

function notSignedIn() {
  return deny("not_signed_in", "You are not signed in, or your session has ended. Sign in.");
}

export function expectRole({ role }: Pick<WorkspaceOfPerson, "role">, roles: readonly PersonRole[]): void {
  if (!roles.includes(role))
    throw deny("forbidden", `Only ${roles.join("s and ")}s of the workspace can do this; you are ${role}.`);
}

function repeated() {
  return deny(
    "repeated_call",
    "The connection broke before the answer came, so it is unknown whether this was done. Look before you try it again.",
  );
}

function onlyOperators() {
  return deny("forbidden", "Only operators can do this.");
}

function isAnswered(error: unknown): error is { answer: ConsoleAnswer } {
  return typeof error === "object" && error !== null && "answer" in error;
}

/** null: it is another path. A literal segment stands before a parameter in the table. */
function paramsOf(wanted: readonly string[], segments: readonly string[]): string[] | null {
  if (wanted.length !== segments.length) return null;
  const params: string[] = [];
  for (const [n, segment] of segments.entries()) {
    if (wanted[n]?.startsWith("{")) {
      const param = decoded(segment);
      if (param.includes("\0")) return null; // Postgres has no such text
      params.push(param);
    } else if (wanted[n] !== segment) return null;
  }
  return params;
}

export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

type BodyCheck = (body: unknown) => unknown;

function bodyCheck(schema: TSchema | null): BodyCheck {
  if (schema === null) return () => ({});
  const compiled = Compile(schema);
  return (body) => {
    const value = body ?? {};
    if (compiled.Check(value)) return value;
    throw bodyFault(errorsIn(compiled, value), schema);
  };
}

function bodyFault(errors: readonly SchemaError[], schema: TSchema) {
  const [first] = errors;
  if (!first)
    return deny(
      "validation_error",
      "The request body is not valid, and holds too many values to say where. Send fewer in one request.",
    );
  const field = first.instancePath.slice(1).replaceAll("/", ".");
  if (first.keyword === "required") {
    const missing = String(first.params.requiredProperties[0]);
    return deny(
      "missing_required_field",
      `Missing \`${field === "" ? missing : `${field}.${missing}`}\` field.`,
    );
  }
  // of each unknown field there is one that names it, before the one about the object it is in
  if (first.keyword === "boolean")
    return deny(
      "validation_error",
      `The \`${field.slice(0, FIELD_SHOWN_MAX)}\` field is unknown to this call.`,
    );
  const words = faultWords(
    errors.filter(({ instancePath }) => instancePath === first.instancePath),
    schema,
  );
  return deny(
    "validation_error",
    field === "" ? `The request body ${words}.` : `The \`${field}\` field ${words}.`,
  );
}
