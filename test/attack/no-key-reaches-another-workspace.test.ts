/**
 * Every route of the table, asked with the ids of another workspace in its path, its body, its cursor and its
 * headers, by keys of every permission, limited to an audience and not. Whatever the key: the answer is the
 * one to an id that does not exist, nothing of the other workspace is in it, and nothing there has changed. A
 * route without a row in BODIES, or with a parameter that is not in IDS, fails.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PERMISSIONS } from "../../src/admission/permissions.ts";
import type { Route } from "../../src/api/routes.ts";
import { isUuid, newId } from "../../src/ids.ts";
import { insertImport } from "../../src/record/contacts/imports.ts";
import { eventually } from "../rig/eventually.ts";
import { type Client, mail, type TestApi, testApi } from "../rig/workspace.ts";

/** One thing of each kind that a workspace holds. */
type Things = {
  workspace: string;
  audience: string;
  contact: string;
  address: string;
  email: string;
  template: string;
  externalId: string;
  suppression: string;
  suppressed: string;
  attachment: string;
  automation: string;
  definition: string;
  property: string;
  domain: string;
  log: string;
  webhook: string;
  imported: string;
  /** Of the e-mail. */
  event: string;
};

/** In what the other workspace stores, beside the ids and names that are asked for. */
const MARK = "none of your business";
const IN_AN_HOUR = new Date(Date.now() + 3_600_000).toISOString();

/** A list takes any id as a position: with the rest only the keys that may do everything try. */
const CURSORS_OF_EVERY_KEY = 8;

/** What a parameter of a path may name, by the part of the API it stands in. */
const IDS: Record<string, (things: Things) => string[]> = {
  "emails {id}": ({ email }) => [email],
  "emails {attachment_id}": ({ attachment }) => [attachment],
  "events {id_or_name}": ({ definition }) => [definition],
  "contact-properties {id_or_key}": ({ property }) => [property],
  "automations {id}": ({ automation }) => [automation],
  "automations {run_id}": ({ contact }) => [contact],
  "domains {id}": ({ domain }) => [domain],
  "logs {id}": ({ log }) => [log],
  "audiences {id}": ({ audience }) => [audience],
  "segments {id}": ({ audience }) => [audience],
  "audiences {email_or_id}": ({ contact, address }) => [contact, address],
  "segments {email_or_id}": ({ contact, address }) => [contact, address],
  "contacts {email_or_id}": ({ contact, address }) => [contact, address],
  "contacts {import_id}": ({ imported }) => [imported],
  "contacts {id}": ({ audience }) => [audience],
  "templates {id_or_external_id}": ({ template, externalId }) => [template, externalId],
  "suppressions {id_or_email}": ({ suppression, suppressed }) => [suppression, suppressed],
  "webhooks {id}": ({ webhook }) => [webhook],
  "webhooks {event_id}": ({ event }) => [event],
  "templates {external_id}": ({ externalId }) => [externalId],
};

/** Bodies that the route takes; `of` is whose ids they name, and null where a body names none. */
type Bodies = (of: Things) => unknown[];
const NONE: Bodies = () => [undefined];
const person = () => [{ email: `${randomUUID()}@example.net` }];

const OF_PEOPLE: Record<string, Bodies> = {
  "GET /": NONE,
  "POST /": () => [{ name: "People" }],
  "GET /{id}": NONE,
  "PATCH /{id}": () => [{ name: "Mallory" }],
  "DELETE /{id}": NONE,
  "GET /{id}/contacts": NONE,
  "POST /{id}/contacts": ({ address }) => [...person(), { email: address }],
  "GET /{id}/contacts/{email_or_id}": NONE,
  "PATCH /{id}/contacts/{email_or_id}": () => [{ first_name: "Mallory" }, { unsubscribed: true }],
  "DELETE /{id}/contacts/{email_or_id}": NONE,
  "POST /{id}/contacts/{email_or_id}/tags": () => [{ add: ["mine"] }],
};

const BODIES: Record<string, Bodies> = {
  "POST /emails": (of) => templatesOf(of).map((template) => mail({ html: undefined, template })),
  "POST /emails/batch": (of) =>
    templatesOf(of).map((template) => [mail(), mail({ html: undefined, template })]),
  "GET /emails": NONE,
  "GET /emails/{id}": NONE,
  "PATCH /emails/{id}": () => [{ scheduled_at: IN_AN_HOUR }],
  "POST /emails/{id}/cancel": NONE,
  "GET /contacts": NONE,
  "POST /contacts": ({ audience, address }) => [
    ...person().map((one) => ({ ...one, audience_id: audience })),
    ...person().map((one) => ({ ...one, segments: [{ id: own.audience }, { id: audience }] })),
    { email: address, audience_id: audience },
  ],
  "GET /contacts/imports": NONE,
  "POST /contacts/imports": ({ audience }) => [
    { file: "email\n", segments: JSON.stringify([{ id: audience }]) },
  ],
  "GET /contacts/imports/{import_id}": NONE,
  "GET /contacts/{email_or_id}": NONE,
  "PATCH /contacts/{email_or_id}": () => [{ first_name: "Mallory" }, { unsubscribed: true }],
  "DELETE /contacts/{email_or_id}": NONE,
  "POST /contacts/{email_or_id}/tags": () => [{ add: ["mine"] }],
  "GET /contacts/{email_or_id}/segments": NONE,
  "POST /contacts/{email_or_id}/segments/{id}": NONE,
  "DELETE /contacts/{email_or_id}/segments/{id}": NONE,
  "POST /emails/{id}/share": () => [undefined, { expires_in: "1 hour" }],
  "GET /emails/metrics": NONE,
  "GET /oauth/grants": NONE,
  "GET /emails/{id}/attachments": NONE,
  "GET /emails/{id}/attachments/{attachment_id}": NONE,
  "GET /events": NONE,
  "GET /events/{id_or_name}": NONE,
  "PATCH /events/{id_or_name}": () => [{ schema: null }],
  "DELETE /events/{id_or_name}": NONE,
  "GET /contact-properties": NONE,
  "POST /contact-properties": () => [{ key: "no key", type: "string" }],
  "GET /contact-properties/{id_or_key}": NONE,
  "PATCH /contact-properties/{id_or_key}": () => [{ fallback_value: "mine" }],
  "DELETE /contact-properties/{id_or_key}": NONE,
  "GET /automations": NONE,
  "POST /automations": ({ audience }) => [
    { name: "A", audience_id: audience, event: "signed.up", steps: [] },
  ],
  "GET /automations/{id}": NONE,
  "PATCH /automations/{id}": ({ audience }) => [
    { name: "Mallory's" },
    { status: "disabled" },
    { audience_id: audience },
  ],
  "DELETE /automations/{id}": NONE,
  "POST /automations/{id}/duplicate": NONE,
  "POST /automations/{id}/stop": NONE,
  "GET /automations/{id}/runs": NONE,
  "GET /automations/{id}/runs/{run_id}": NONE,
  "GET /domains": NONE,
  "POST /domains": () => [{ name: `${randomUUID()}.example.com` }],
  "GET /domains/{id}": NONE,
  "POST /domains/{id}/verify": NONE,
  "PATCH /domains/{id}": () => [{}],
  "DELETE /domains/{id}": NONE,
  "POST /domains/claim": () => [{ name: `${randomUUID()}.example.com` }],
  "GET /domains/{id}/claim": NONE,
  "POST /domains/{id}/claim/verify": NONE,
  "GET /usage": NONE,
  "GET /logs": NONE,
  "GET /logs/{id}": NONE,
  "POST /events/send": ({ contact, address }) => [
    { contact_id: contact, event: "signed.up" },
    { email: address, event: "signed.up" },
  ],
  "GET /suppressions": NONE,
  "POST /suppressions": ({ suppressed }) => [{ email: suppressed }, ...person()],
  "GET /suppressions/{id_or_email}": NONE,
  "DELETE /suppressions/{id_or_email}": NONE,
  "POST /suppressions/batch/add": ({ suppressed }) => [{ emails: [suppressed] }],
  "POST /suppressions/batch/remove": ({ suppression, suppressed }) => [
    { emails: [suppressed] },
    { ids: [suppression] },
  ],
  "GET /webhooks": NONE,
  "POST /webhooks": () => [{ endpoint: "https://hooks.example.com/" }],
  "GET /webhooks/{id}": NONE,
  "PATCH /webhooks/{id}": () => [{ status: "disabled" }, { endpoint: "https://mine.example.com/" }],
  "DELETE /webhooks/{id}": NONE,
  "POST /webhooks/{id}/signing-secret/rotate": NONE,
  "POST /webhooks/{id}/test": NONE,
  "POST /webhooks/{id}/replay": ({ event }) => [{ failed: true }, { event_id: event }],
  "GET /webhooks/{id}/attempts": NONE,
  "GET /webhooks/{id}/events": NONE,
  "GET /webhooks/{id}/events/{event_id}": NONE,
  "POST /webhooks/{id}/events/{event_id}/replay": NONE,
  "GET /webhooks/{id}/events/{event_id}/attempts": NONE,
  "GET /templates": NONE,
  "GET /templates/{id_or_external_id}": NONE,
  "POST /templates": ({ externalId }) => [{ name: "A", html: "<p>A</p>", alias: externalId }],
  "PUT /templates/{external_id}": () => [{ html: "<p>mine</p>" }],
  "PATCH /templates/{id_or_external_id}": () => [{ html: "<p>mine</p>" }],
  "DELETE /templates/{id_or_external_id}": NONE,
  "POST /templates/{id_or_external_id}/publish": NONE,
  "POST /templates/{id_or_external_id}/duplicate": NONE,
  "GET /events/log": NONE,
  "POST /feedback": ({ email, address }) => [
    [{ email_id: email, type: "complaint" }],
    [{ message_id: `<${email}@example.com>`, recipient: address, type: "bounce" }],
  ],
  "POST /events": ({ audience, address }) => [{ audience_id: audience, email: address, name: "signed.up" }],
  ...Object.fromEntries(
    ["audiences", "segments"].flatMap((name) =>
      Object.entries(OF_PEOPLE).map(([key, bodies]) => [
        key.replace("/", `/${name}/`).replace(/\/$/, ""),
        bodies,
      ]),
    ),
  ),
};

function templatesOf({ template, externalId }: Things): object[] {
  return [template, externalId].map((id) => ({ id, variables: {} }));
}

/** `isOdd`: one of many ways to say the same, for the keys that may do everything. */
type Path = { path: string; names: boolean; isOdd: boolean };
type Asked = { path: string; isOdd: boolean; body: unknown };
type Key = { what: string; client: Client; isFull: boolean };

let api: TestApi;
let victim: Things;
let own: Things;
let keys: Key[];
beforeAll(async () => {
  api = await testApi();
  const theirs = await api.workspace();
  victim = await fill(theirs.client, theirs.id, MARK);
  const mine = await api.workspace();
  own = await fill(mine.client, mine.id, "ours");
  keys = [];
  for (const permission of PERMISSIONS)
    for (const audiences of [null, [own.audience]]) {
      const { client } = await mine.key([permission], audiences);
      const what = `${permission}${audiences ? " of one audience" : ""}`;
      keys.push({ what, client, isFull: permission === "full" });
    }
});
afterAll(() => api.stop());

test("every route has a row", () => {
  const served = api.routes.map((route) => nameOf(route));
  expect(served.sort()).toEqual(Object.keys(BODIES).sort());
});

test("ids of another workspace are answered as ids that do not exist, and change nothing there", async () => {
  const before = await storedOf(victim.workspace);
  let asked = 0;
  for (const route of api.routes) {
    const foreign = requests(route, victim);
    const unknown = requests(route, strangerTo(victim));
    expect(unknown.length).toBe(foreign.length);
    for (const [n, one] of foreign.entries()) {
      const asking = keys.filter(({ isFull }) => isFull || !one.isOdd);
      const isSame = async ({ what, client }: Key) => {
        const answer = await ask(client, route, one);
        const twin = await ask(client, route, unknown[n] as Asked);
        asked += 2;
        const label = `${what}: ${route.method} ${one.path} ${JSON.stringify(one.body)}`;
        expect(plain(answer.text, victim), label).toEqual(plain(twin.text, strangerTo(victim)));
        expect(answer.status, label).toBe(twin.status);
        expect(answer.status, label).toBeLessThan(500);
        expect(answer.text, label).not.toContain(MARK);
      };
      // what one key makes changes the answer to the next, what it reads does not
      if (route.method === "GET") await Promise.all(asking.map(isSame));
      else for (const key of asking) await isSame(key);
    }
  }
  expect(asked).toBeGreaterThan(api.routes.length * keys.length);
  expect(await storedOf(victim.workspace)).toEqual(before);
}, 480_000);

test.each(["/emails", "/emails/batch", "/events"])(
  "an idempotency key of another workspace is a new one to POST %s",
  async (path) => {
    const [theirs, mine] = [await api.workspace(), await api.workspace()];
    const headers = { "idempotency-key": "the same key" };
    const bodyFor = async (client: Client) => {
      if (path === "/events") {
        const { id: audience_id } = (await client.post<{ id: string }>("/audiences", { name: "A" })).body;
        await client.post(`/audiences/${audience_id}/contacts`, { email: "one@example.net" });
        return { audience_id, email: "one@example.net", name: "signed.up" };
      }
      return path === "/emails" ? mail() : [mail()];
    };
    const first = await theirs.client.post(path, await bodyFor(theirs.client), headers);
    const second = await mine.client.post(path, await bodyFor(mine.client), headers);
    expect(first.status).toBeLessThan(300);
    expect(second.status).toBe(first.status);
    const idsIn = (body: unknown) => JSON.stringify(body).match(/"id":"[^"]+"/g) ?? [];
    expect(idsIn(second.body).length).toBeGreaterThan(0);
    for (const id of idsIn(first.body)) expect(idsIn(second.body)).not.toContain(id);
  },
);

function nameOf({ method, path }: Route): string {
  return `${method} ${path.replace("/api/v1", "")}`;
}

/** The route with these ids wherever they fit. */
function requests(route: Route, of: Things): Asked[] {
  const bodies = BODIES[nameOf(route)] as Bodies;
  const all = pathsOf(route, of).flatMap(({ path, names, isOdd }) =>
    bodies(of)
      // a body that names nobody and a path that names nobody ask for nothing of another workspace
      .filter((body) => names || namesAny(body, of))
      .map((body) => ({ path, isOdd, body })),
  );
  return all.length > 0 ? all : [{ path: route.path, isOdd: false, body: bodies(of)[0] }];
}

function namesAny(body: unknown, of: Things): boolean {
  const text = JSON.stringify(body) ?? "";
  return Object.values(of).some((id) => text.includes(id));
}

/** Each parameter from either workspace, at least one of the other; lists with cursors of the other. */
function pathsOf({ method, path }: Route, of: Things): Path[] {
  const part = path.split("/")[3] as string;
  let all: Path[] = [{ path, names: false, isOdd: false }];
  for (const [param] of path.matchAll(/\{\w+\}/g)) {
    const idsOf = IDS[`${part} ${param}`];
    if (!idsOf) throw new Error(`IDS has no row for ${param} below ${part}`);
    const ids = [
      ...idsOf(own).map((id) => ({ id, names: false, isOdd: false })),
      ...idsOf(of).map((id) => ({ id, names: true, isOdd: false })),
      ...spellings(idsOf(of)[0] as string, idsOf(own)[0] as string).map((id) => ({
        id,
        names: true,
        isOdd: true,
      })),
    ];
    all = all.flatMap((one) =>
      ids.map(({ id, names, isOdd }) => ({
        path: one.path.replace(param, () => id),
        names: one.names || names,
        isOdd: one.isOdd || isOdd,
      })),
    );
  }
  if (method !== "GET" || path.endsWith("}"))
    return all.filter(({ path, names }) => names || !hasOwnId(path));
  return all.flatMap((one) => (one.isOdd ? [one] : [one, ...cursorsOf(one, of)]));
}

function cursorsOf({ path }: Path, of: Things): Path[] {
  return Object.values(of).flatMap((id, n) =>
    ["cursor", "after", "before"].map((name) => ({
      path: `${path}?${name}=${encodeURIComponent(id)}`,
      names: true,
      isOdd: name === "after" || !isUuid(id) || n >= CURSORS_OF_EVERY_KEY,
    })),
  );
}

/** Such a request, of ours alone, does what it says. */
function hasOwnId(path: string): boolean {
  return Object.values(own).some((id) => path.includes(id));
}

/** How an id may be written in a path. */
function spellings(id: string, ours: string): string[] {
  const escaped = [...id].map((sign) => `%${sign.charCodeAt(0).toString(16)}`).join("");
  return [id.toUpperCase(), escaped, `${id}%00`, `%20${id}`, `${ours}%2f..%2f${id}`, `{${id}}`];
}

/** Ids right beside those of the workspace, which nobody has. */
function strangerTo(of: Things): Things {
  const beside = (id: string) => id.replace(/[0-9a-f](?=@|$)/, (digit) => (digit === "0" ? "1" : "0"));
  return Object.fromEntries(Object.entries(of).map(([name, id]) => [name, beside(id)])) as Things;
}

async function ask(client: Client, { method, takesForm }: Route, { path, body }: Asked) {
  const { status, body: answer } = await client.call(
    method,
    path.replace("/api/v1", ""),
    takesForm ? formOf(body as Record<string, string>) : body,
    {
      "x-workspace-id": victim.workspace,
      ...(takesForm && { "content-type": "multipart/form-data; boundary=b" }),
    },
  );
  return { status, text: JSON.stringify(answer) };
}

function formOf(fields: Record<string, string>): string {
  const parts = Object.entries(fields).map(
    ([name, value]) => `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  return `${parts.join("")}--b--`;
}

/**
 * Without what differs from one answer to the next: ids that were asked for, what was made, and our own
 * requests.
 */
function plain(text: string, of: Things): string {
  let left = text;
  for (const id of Object.values(of)) left = left.replaceAll(new RegExp(literally(id), "gi"), "ID");
  return left
    .replace(/(?:%[0-9a-f]{2}){8,}/gi, "ID")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "MADE")
    .replace(/whsec_[\w+/=]+/g, "SECRET")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/"download_url":"[^"]+"/g, "LINK")
    .replace(/\bpr[0-9a-f]{8}\b|p=[\w+/]{300,}|postrider-verification=\w+/g, "KEY")
    .replace(/"data":\[\{[^[\]]*"duration_ms"[^[\]]*\],"has_more":\w+/g, "REQUESTS");
}

function literally(text: string): string {
  return text.replace(/[.+]/g, "\\$&");
}

async function fill(client: Client, workspace: string, mark: string): Promise<Things> {
  const hex = randomUUID().replaceAll("-", "");
  const [address, externalId] = [`person.${hex}@example.net`, `template-${hex}`];
  const made = async (method: string, path: string, body: unknown) => {
    const answer = await client.call<{ id: string }>(method, path, body);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return answer.body.id;
  };
  const audience = await made("POST", "/audiences", { name: mark });
  const contact = await made("POST", `/audiences/${audience}/contacts`, { email: address, first_name: mark });
  const attachments = [{ filename: `${mark}.txt`, content: Buffer.from(mark).toString("base64") }];
  const email = await made("POST", "/emails", mail({ subject: mark, scheduled_at: IN_AN_HOUR, attachments }));
  const attachment = (await client.get<{ data: [{ id: string }] }>(`/emails/${email}/attachments`)).body
    .data[0].id;
  const automation = await made("POST", "/automations", {
    name: mark,
    audience_id: audience,
    event: "e",
    steps: [],
  });
  const definition = await made("POST", "/events", { name: `event.${hex}`, schema: { [mark]: "string" } });
  const property = await made("POST", "/contact-properties", {
    key: `p${hex}`,
    type: "string",
    fallback_value: mark,
  });
  const domain = await made("POST", "/domains", { name: `${hex}.example.com` });
  const log = await firstLogged(client);
  const template = await made("PUT", `/templates/${externalId}`, { html: `<p>${mark}</p>` });
  const suppressed = `suppressed.${hex}@example.net`;
  const suppression = await made("POST", "/suppressions", { email: suppressed, evidence: mark });
  const webhook = await made("POST", "/webhooks", { endpoint: `https://hooks.example.com/${hex}` });
  // requests are logged behind their answers: this was the last one
  await eventually(async () => {
    expect(
      await api.sql`select from request where workspace_id = ${workspace} and route like '%/webhooks'`,
    ).toHaveLength(1);
  });
  const imported = newId(Date.now());
  await insertImport(api.sql, { workspaceId: workspace, audienceId: audience, id: imported }, new Date());
  const event = `${email}_10`;
  return {
    ...{ workspace, audience, contact, address, email, attachment, template, externalId },
    ...{ suppression, suppressed, domain, log, automation, definition, property, webhook, imported, event },
  };
}

/** Requests are written once a second. */
async function firstLogged(client: Client): Promise<string> {
  for (;;) {
    const { data } = (await client.get<{ data: { id: string }[] }>("/logs")).body;
    if (data[0]) return data[0].id;
  }
}

/** Every row of every table that belongs to the workspace. */
async function storedOf(workspace: string): Promise<Record<string, string[]>> {
  const { sql } = api;
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where a.attname = 'workspace_id' and c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace = 'public'::regnamespace order by 1`;
  expect(tables.length).toBeGreaterThan(5);
  const stored: Record<string, string[]> = {};
  for (const { name } of tables) {
    const rows = await sql<{ row: string }[]>`
      select (to_jsonb(t) - 'last_used_at')::text as row from ${sql(name)} t
      where workspace_id = ${workspace} order by 1`;
    stored[name] = rows.map(({ row }) => row);
  }
  return stored;
}
