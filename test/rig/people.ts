/** People at the console: accounts in the record, and a browser's cookies and headers without a browser. */
import { randomUUID } from "node:crypto";
import { hashPassword } from "../../src/admission/password.ts";
import type { ConsoleRequest } from "../../src/console/request.ts";
import { Sessions } from "../../src/console/sessions.ts";
import { newId } from "../../src/ids.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import { insertOwner } from "../../src/record/workspaces/workspaces.ts";
import type { PersonRole } from "../../src/rules/people.ts";
import { SECRET } from "./workspace.ts";

export const PASSWORD = "a password of the tests";
/** Made once: each takes a third of a second. */
const passwordHash = hashPassword(PASSWORD);

export type ConsoleReply<T = Record<string, unknown>> = { status: number; headers: Headers; body: T };

export type SessionBody = {
  account: { id: string; email: string };
  workspaces: { id: string; name: string; role: string }[];
  csrf: string;
};

/** An account with a role in a workspace. */
export async function person(
  sql: Sql,
  workspaceId: string,
  role: PersonRole = "owner",
): Promise<{ id: string; email: string }> {
  const email = `${role}.${randomUUID()}@example.com`;
  const owner = { id: newId(Date.now()), workspaceId, email, passwordHash: await passwordHash };
  const { accountId } = await insertOwner(sql, owner, new Date());
  if (role !== "owner")
    await sql`update member set role = ${role} where workspace_id = ${workspaceId} and account_id = ${accountId}`;
  return { id: accountId, email };
}

/** The cookie of somebody with PASSWORD, who need not type it for that: checking it takes long. */
export async function sessionCookie(sql: Sql, accountId: string): Promise<{ name: string; value: string }> {
  const sessions = new Sessions({ sql, serverSecret: SECRET, isSecure: false });
  const fresh = { cookie: () => null } as unknown as ConsoleRequest;
  const account = { id: accountId, passwordHash: await passwordHash };
  const begun = await sessions.begin(fresh, account, Date.now());
  const [, name, value] = /^(\w+)=([^;]+)/.exec(begun?.cookie ?? "") ?? [];
  if (!name || !value) throw new Error(`no session for the account ${accountId}`);
  return { name, value };
}

export class Browser {
  readonly url: string;
  cookie = "";
  csrf = "";
  workspace = "";

  constructor(url: string) {
    this.url = url;
  }

  async signIn(email: string, more: Record<string, unknown> = {}): Promise<ConsoleReply<SessionBody>> {
    const reply = await this.post<SessionBody>("session", { email, password: PASSWORD, ...more });
    if (reply.status === 200) {
      this.csrf = reply.body.csrf;
      this.workspace = reply.body.workspaces[0]?.id ?? "";
    }
    return reply;
  }

  get<T>(path: string, headers: Record<string, string> = {}): Promise<ConsoleReply<T>> {
    return this.call("GET", path, undefined, headers);
  }

  post<T>(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<ConsoleReply<T>> {
    return this.call("POST", path, body, headers);
  }

  /** `headers` replace those that the page sends; an empty one is left out. */
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ConsoleReply<T>> {
    const all = {
      ...(method === "GET" ? {} : { origin: this.url }),
      ...(this.cookie === "" ? {} : { cookie: this.cookie }),
      ...(this.csrf === "" || method === "GET" ? {} : { "x-csrf-token": this.csrf }),
      ...(this.workspace === "" ? {} : { "x-workspace": this.workspace }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    };
    const response = await fetch(`${this.url}/console/call/${path}`, {
      method,
      redirect: "manual",
      headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== "")),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const set = response.headers.get("set-cookie");
    if (set !== null) this.cookie = set.split(";")[0] ?? "";
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : text) as T,
    };
  }
}

export async function signedIn(
  url: string,
  sql: Sql,
  workspaceId: string,
  role?: PersonRole,
): Promise<Browser> {
  const { email } = await person(sql, workspaceId, role);
  const browser = new Browser(url);
  const { status, body } = await browser.signIn(email);
  if (status !== 200) throw new Error(`${email} could not sign in: ${JSON.stringify(body)}`);
  browser.workspace = workspaceId;
  return browser;
}

/** What a stream has said so far. */
export function hear(stream: Response): { text: string } {
  const heard = { text: "" };
  const decoder = new TextDecoder();
  const read = async () => {
    for await (const chunk of stream.body ?? []) heard.text += decoder.decode(chunk, { stream: true });
  };
  read().catch(() => {}); // the test has stopped listening
  return heard;
}

/** The link of the last invitation that was mailed to the address. */
export async function mailedInvitation(sql: Sql, workspaceId: string, address: string): Promise<string> {
  const [row] = await sql<{ plain: string }[]>`
    select b.plain from email e join body b on b.workspace_id = e.workspace_id and b.id = e.id
    where e.workspace_id = ${workspaceId} and e.head -> 'to' ->> 0 = ${address} order by e.id desc limit 1`;
  const link = /^\S+\/console\/invite#\S+$/m.exec(row?.plain ?? "")?.[0];
  if (link === undefined) throw new Error(`no invitation was mailed to ${address}`);
  return link;
}
