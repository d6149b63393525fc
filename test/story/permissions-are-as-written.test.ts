/**
 * The permissions of every endpoint, for every permission and for keys that are limited to an audience: the
 * routes come from the route table, the expectation from the table below, and neither may hold what the other
 * does not.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PERMISSIONS, type Permission } from "../../src/admission/permissions.ts";
import { attachmentId } from "../../src/api/attachments.ts";
import { newId } from "../../src/ids.ts";
import { insertImport } from "../../src/record/contacts/imports.ts";
import { findShownDomain, nameDomain } from "../../src/record/workspaces/domains.ts";
import { type Client, mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

type Asked = { path: string; body?: unknown; headers?: Record<string, string> };
type Row = {
  /** Besides `full`; a refusal names the first. */
  needs: readonly Permission[];
  status: number;
  /** What a key sees that is limited to another audience than the one that is asked for. */
  elsewhere?: "not found" | "refused" | "not listed";
  /**
   * Something new to be asked for each time, made with `full`; `own` is what the asking key itself may have
   * made.
   */
  ask(world: World): Asked | Promise<Asked>;
};
type World = { full: Client; audience: string; own: () => Promise<string> };

const IN_AN_HOUR = new Date(Date.now() + 3_600_000).toISOString();
const LATER = mail({
  scheduled_at: IN_AN_HOUR,
  attachments: [{ filename: "a.txt", content: Buffer.from("a").toString("base64") }],
});
const CONSENT = { source: "form", captured_at: "2026-01-01T00:00:00Z" };
const READ = ["contacts:read"] as const;
const WRITE = ["contacts:write"] as const;
const SEND = ["emails:send"] as const;
const FETCH = ["templates:read", "templates:write"] as const;
const PUSH = ["templates:write"] as const;

const EMAILS: Record<string, Row> = {
  "POST /emails": { needs: SEND, status: 200, ask: () => ({ path: "/emails", body: mail() }) },
  "POST /emails/batch": { needs: SEND, status: 200, ask: () => ({ path: "/emails/batch", body: [mail()] }) },
  "GET /emails": { needs: SEND, status: 200, ask: () => ({ path: "/emails" }) },
  "GET /emails/{id}": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => ({ path: `/emails/${await own()}` }),
  },
  "PATCH /emails/{id}": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => ({ path: `/emails/${await own()}`, body: { scheduled_at: IN_AN_HOUR } }),
  },
  "POST /emails/{id}/cancel": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => ({ path: `/emails/${await own()}/cancel` }),
  },
};

const TEMPLATES: Record<string, Row> = {
  "GET /templates": { needs: FETCH, status: 200, ask: () => ({ path: "/templates" }) },
  "GET /templates/{id_or_external_id}": {
    needs: FETCH,
    status: 200,
    ask: async (world) => ({ path: `/templates/${await template(world)}` }),
  },
  "POST /templates": {
    needs: PUSH,
    status: 201,
    ask: () => ({ path: "/templates", body: { name: "A", html: "<p>A</p>" } }),
  },
  "PUT /templates/{external_id}": {
    needs: PUSH,
    status: 201,
    ask: () => ({ path: `/templates/${fresh("put")}`, body: { html: "<p>A</p>" } }),
  },
  "PATCH /templates/{id_or_external_id}": {
    needs: PUSH,
    status: 200,
    ask: async (world) => ({ path: `/templates/${await template(world)}`, body: { name: "B" } }),
  },
  "DELETE /templates/{id_or_external_id}": {
    needs: PUSH,
    status: 200,
    ask: async (world) => ({ path: `/templates/${await template(world)}` }),
  },
  "POST /templates/{id_or_external_id}/publish": {
    needs: PUSH,
    status: 200,
    ask: async (world) => ({ path: `/templates/${await template(world)}/publish` }),
  },
  "POST /templates/{id_or_external_id}/duplicate": {
    needs: PUSH,
    status: 201,
    ask: async (world) => ({ path: `/templates/${await template(world)}/duplicate` }),
  },
};

const SUPPRESSIONS: Record<string, Row> = {
  "GET /suppressions": { needs: [], status: 200, ask: () => ({ path: "/suppressions" }) },
  "POST /suppressions": {
    needs: [],
    status: 201,
    ask: () => ({ path: "/suppressions", body: { email: address() } }),
  },
  "GET /suppressions/{id_or_email}": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/suppressions/${await suppressed(world)}` }),
  },
  "DELETE /suppressions/{id_or_email}": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/suppressions/${await suppressed(world)}` }),
  },
  "POST /suppressions/batch/add": {
    needs: [],
    status: 200,
    ask: () => ({ path: "/suppressions/batch/add", body: { emails: [address()] } }),
  },
  "POST /suppressions/batch/remove": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: "/suppressions/batch/remove", body: { ids: [await suppressed(world)] } }),
  },
};

/** Under either name. */
function audienceRows(name: "audiences" | "segments"): Record<string, Row> {
  const one = ({ audience }: World) => `/${name}/${audience}`;
  const person = async (world: World) => `${one(world)}/contacts/${await contact(world)}`;
  const hidden = { elsewhere: "not found" } as const;
  return {
    [`GET /${name}`]: {
      needs: ["contacts:read", "contacts:write", "events:write"],
      status: 200,
      elsewhere: "not listed",
      ask: () => ({ path: `/${name}?limit=100` }),
    },
    [`POST /${name}`]: {
      needs: [],
      status: 201,
      elsewhere: "refused",
      ask: () => ({ path: `/${name}`, body: { name: "A" } }),
    },
    [`GET /${name}/{id}`]: { needs: READ, status: 200, ...hidden, ask: (world) => ({ path: one(world) }) },
    [`PATCH /${name}/{id}`]: {
      needs: [],
      status: 200,
      ...hidden,
      ask: (world) => ({ path: one(world), body: { name: "B" } }),
    },
    [`DELETE /${name}/{id}`]: { needs: [], status: 200, ...hidden, ask: (world) => ({ path: one(world) }) },
    [`GET /${name}/{id}/contacts`]: {
      needs: READ,
      status: 200,
      ...hidden,
      ask: (world) => ({ path: `${one(world)}/contacts` }),
    },
    [`POST /${name}/{id}/contacts`]: {
      needs: WRITE,
      status: 201,
      ...hidden,
      ask: (world) => ({ path: `${one(world)}/contacts`, body: { email: address() } }),
    },
    [`GET /${name}/{id}/contacts/{email_or_id}`]: {
      needs: READ,
      status: 200,
      ...hidden,
      ask: async (world) => ({ path: await person(world) }),
    },
    [`PATCH /${name}/{id}/contacts/{email_or_id}`]: {
      needs: WRITE,
      status: 200,
      ...hidden,
      ask: async (world) => ({ path: await person(world), body: { first_name: "A" } }),
    },
    [`DELETE /${name}/{id}/contacts/{email_or_id}`]: {
      needs: WRITE,
      status: 200,
      ...hidden,
      ask: async (world) => ({ path: await person(world) }),
    },
    [`POST /${name}/{id}/contacts/{email_or_id}/tags`]: {
      needs: WRITE,
      status: 200,
      ...hidden,
      ask: async (world) => ({ path: `${await person(world)}/tags`, body: { add: ["a"] } }),
    },
  };
}

const CONTACTS: Record<string, Row> = {
  "GET /contacts": { needs: READ, status: 200, ask: () => ({ path: "/contacts" }) },
  "POST /contacts": {
    needs: WRITE,
    status: 201,
    elsewhere: "not found",
    ask: ({ audience }) => ({ path: "/contacts", body: { email: address(), audience_id: audience } }),
  },
  "POST /contacts/imports": {
    needs: WRITE,
    status: 201,
    elsewhere: "not found",
    ask: ({ audience }) => importing(audience),
  },
  "GET /contacts/imports": { needs: READ, status: 200, ask: () => ({ path: "/contacts/imports" }) },
  "GET /contacts/imports/{import_id}": {
    needs: READ,
    status: 200,
    elsewhere: "not found",
    async ask({ full, audience: audienceId }) {
      const id = newId(Date.now());
      const workspaceId = await workspaceOf(full);
      await insertImport(api.sql, { workspaceId, audienceId, id }, new Date());
      return { path: `/contacts/imports/${id}` };
    },
  },
  "GET /contacts/{email_or_id}": {
    needs: READ,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}` }),
  },
  "PATCH /contacts/{email_or_id}": {
    needs: WRITE,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}`, body: { first_name: "A" } }),
  },
  "DELETE /contacts/{email_or_id}": {
    needs: WRITE,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}` }),
  },
  "POST /contacts/{email_or_id}/tags": {
    needs: WRITE,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}/tags`, body: { add: ["a"] } }),
  },
  "GET /contacts/{email_or_id}/segments": {
    needs: READ,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}/segments` }),
  },
  "POST /contacts/{email_or_id}/segments/{id}": {
    needs: WRITE,
    status: 201,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}/segments/${world.audience}` }),
  },
  "DELETE /contacts/{email_or_id}/segments/{id}": {
    needs: WRITE,
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}/segments/${world.audience}` }),
  },
};

function property() {
  return { key: fresh("key").replaceAll("-", "_"), type: "string" };
}

function ofDefinitions(route: string, made: () => [string, object], change: object): Record<string, Row> {
  const row = (method: string): [string, Row] => [
    `${method} ${route}`,
    {
      needs: [],
      status: 200,
      ask: async ({ full }) => {
        const [path, body] = made();
        const { id } = (await full.post<{ id: string }>(path, body)).body;
        return { path: `${path}/${id}`, body: method === "PATCH" ? change : undefined };
      },
    },
  ];
  return Object.fromEntries(["GET", "PATCH", "DELETE"].map(row));
}

function ofAutomations(method: string, below: string, body?: unknown, status = 200): Record<string, Row> {
  const ask = async (world: World) => ({ path: `/automations/${await automation(world)}${below}`, body });
  return { [`${method} /automations/{id}${below}`]: { needs: [], status, elsewhere: "not found", ask } };
}

const MANAGING: Record<string, Row> = {
  "POST /emails/{id}/share": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => ({ path: `/emails/${await own()}/share`, body: { expires_in: "1 hour" } }),
  },
  "GET /emails/metrics": { needs: [], status: 200, ask: () => ({ path: "/emails/metrics" }) },
  "GET /oauth/grants": { needs: [], status: 200, ask: () => ({ path: "/oauth/grants" }) },
  "GET /emails/{id}/attachments": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => ({ path: `/emails/${await own()}/attachments` }),
  },
  "GET /emails/{id}/attachments/{attachment_id}": {
    needs: SEND,
    status: 200,
    ask: async ({ own }) => {
      const id = await own();
      return { path: `/emails/${id}/attachments/${attachmentId(id, 0)}` };
    },
  },
  "GET /events": { needs: [], status: 200, ask: () => ({ path: "/events" }) },
  ...ofDefinitions("/events/{id_or_name}", () => ["/events", { name: fresh("event"), schema: null }], {
    schema: null,
  }),
  "GET /contact-properties": { needs: [], status: 200, ask: () => ({ path: "/contact-properties" }) },
  "POST /contact-properties": {
    needs: [],
    status: 201,
    ask: () => ({ path: "/contact-properties", body: property() }),
  },
  ...ofDefinitions("/contact-properties/{id_or_key}", () => ["/contact-properties", property()], {}),
  "GET /automations": { needs: [], status: 200, ask: () => ({ path: "/automations" }) },
  "POST /automations": {
    needs: [],
    status: 201,
    elsewhere: "not found",
    ask: ({ audience }) => ({
      path: "/automations",
      body: { name: fresh("automation"), audience_id: audience, event: "signed.up", steps: [] },
    }),
  },
  ...ofAutomations("GET", ""),
  ...ofAutomations("PATCH", "", { status: "disabled" }),
  ...ofAutomations("DELETE", ""),
  ...ofAutomations("POST", "/duplicate", undefined, 201),
  ...ofAutomations("POST", "/stop"),
  ...ofAutomations("GET", "/runs"),
  "GET /automations/{id}/runs/{run_id}": {
    needs: [],
    status: 200,
    elsewhere: "not found",
    ask: async (world) => {
      const [automationId, runId] = [await automation(world), randomUUID()];
      await api.sql`
        insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position, created_at)
        select workspace_id, ${runId}, id, 1, audience_id, ${runId}, 'evt', 'steps[0]', now()
        from automation where id = ${automationId}`;
      return { path: `/automations/${automationId}/runs/${runId}` };
    },
  },
  "GET /domains": { needs: [], status: 200, ask: () => ({ path: "/domains" }) },
  "POST /domains": {
    needs: [],
    status: 201,
    ask: () => ({ path: "/domains", body: { name: `${fresh("domain")}.example.com` } }),
  },
  "GET /domains/{id}": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}` }),
  },
  "POST /domains/{id}/verify": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}/verify` }),
  },
  "POST /domains/claim": {
    needs: [],
    status: 201,
    ask: () => ({ path: "/domains/claim", body: { name: `${fresh("domain")}.example.com` } }),
  },
  "GET /domains/{id}/claim": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}/claim` }),
  },
  "POST /domains/{id}/claim/verify": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}/claim/verify` }),
  },
  "PATCH /domains/{id}": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}`, body: {} }),
  },
  "DELETE /domains/{id}": {
    needs: [],
    status: 200,
    ask: async (world) => ({ path: `/domains/${await domain(world)}` }),
  },
  "GET /usage": { needs: [], status: 200, ask: () => ({ path: "/usage" }) },
  "GET /logs": { needs: [], status: 200, ask: () => ({ path: "/logs" }) },
  "GET /logs/{id}": {
    needs: [],
    status: 200,
    ask: async ({ full }) => ({ path: `/logs/${await logged(full)}` }),
  },
};

const EVENTS: Record<string, Row> = {
  "POST /events/send": {
    needs: ["events:write"],
    status: 202,
    elsewhere: "not found",
    ask: async (world) => ({
      path: "/events/send",
      body: { contact_id: await contact(world), event: "signed.up" },
    }),
  },
  "POST /feedback": {
    needs: [],
    status: 202,
    ask: async ({ own }) => ({ path: "/feedback", body: [{ email_id: await own(), type: "bounce" }] }),
  },
  "GET /events/log": { needs: [], status: 200, elsewhere: "refused", ask: () => ({ path: "/events/log" }) },
  "POST /events": {
    needs: ["events:write"],
    status: 202,
    elsewhere: "not found",
    ask: async ({ full, audience }) => {
      const email = address();
      await full.post(`/audiences/${audience}/contacts`, { email });
      return { path: "/events", body: { audience_id: audience, email, name: "signed.up" } };
    },
  },
};

const ENDPOINT = { endpoint: "https://hooks.example.com/", events: ["email.delivered"] };

/** Of a webhook that was made for the question, where one is asked about. */
function webhookRow(status: number, below: string, body?: unknown): Row {
  return {
    needs: [],
    status,
    elsewhere: "refused",
    ask: async ({ full }) => {
      const made = await full.post<{ id: string }>("/webhooks", ENDPOINT);
      return { path: `/webhooks/${made.body.id}${below}`, body };
    },
  };
}

const UNKNOWN_EVENT = "/events/01a202b6-d627-7118-93d8-d108cb5b2494_1";
const WEBHOOKS: Record<string, Row> = {
  "GET /webhooks": { needs: [], status: 200, elsewhere: "refused", ask: () => ({ path: "/webhooks" }) },
  "POST /webhooks": {
    needs: [],
    status: 201,
    elsewhere: "refused",
    ask: () => ({ path: "/webhooks", body: ENDPOINT }),
  },
  "GET /webhooks/{id}": webhookRow(200, ""),
  "PATCH /webhooks/{id}": webhookRow(200, "", { status: "disabled" }),
  "DELETE /webhooks/{id}": webhookRow(200, ""),
  "POST /webhooks/{id}/signing-secret/rotate": webhookRow(200, "/signing-secret/rotate"),
  "POST /webhooks/{id}/test": webhookRow(202, "/test"),
  "POST /webhooks/{id}/replay": webhookRow(202, "/replay", { failed: true }),
  "GET /webhooks/{id}/attempts": webhookRow(200, "/attempts"),
  "GET /webhooks/{id}/events": webhookRow(200, "/events"),
  "GET /webhooks/{id}/events/{event_id}": webhookRow(404, UNKNOWN_EVENT),
  "POST /webhooks/{id}/events/{event_id}/replay": webhookRow(404, `${UNKNOWN_EVENT}/replay`),
  "GET /webhooks/{id}/events/{event_id}/attempts": webhookRow(200, `${UNKNOWN_EVENT}/attempts`),
};

const ROUTES: Record<string, Row> = {
  ...WEBHOOKS,
  ...EMAILS,
  ...EVENTS,
  ...CONTACTS,
  ...MANAGING,
  ...TEMPLATES,
  ...SUPPRESSIONS,
  ...audienceRows("audiences"),
  ...audienceRows("segments"),
};

/** What asks for more than its route. */
const MORE: Record<string, Row> = {
  "DELETE /contacts/{email_or_id}?mode=erase": {
    needs: [],
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({ path: `/contacts/${await contact(world)}?mode=erase` }),
  },
  "POST /contacts (skipping the confirmation)": {
    needs: [],
    status: 201,
    elsewhere: "not found",
    ask: ({ audience }) => ({
      path: "/contacts",
      body: { email: address(), audience_id: audience, double_opt_in: false, consent: CONSENT },
    }),
  },
  "DELETE /audiences/{id}/contacts/{email_or_id}?mode=erase": {
    needs: [],
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({
      path: `/audiences/${world.audience}/contacts/${await contact(world)}?mode=erase`,
    }),
  },
  "POST /audiences/{id}/contacts (skipping the confirmation)": {
    needs: [],
    status: 201,
    elsewhere: "not found",
    ask: ({ audience }) => ({
      path: `/audiences/${audience}/contacts`,
      body: { email: address(), double_opt_in: false, consent: CONSENT },
    }),
  },
  "PATCH /audiences/{id}/contacts/{email_or_id} (skipping the confirmation)": {
    needs: [],
    status: 200,
    elsewhere: "not found",
    ask: async (world) => ({
      path: `/audiences/${world.audience}/contacts/${await contact(world)}`,
      body: { double_opt_in: false, consent: CONSENT },
    }),
  },
  "GET /emails/{id} (of another key)": {
    needs: [],
    status: 200,
    ask: async ({ full }) => ({ path: `/emails/${await scheduled(full)}` }),
  },
  "PATCH /emails/{id} (of another key)": {
    needs: [],
    status: 200,
    ask: async ({ full }) => ({
      path: `/emails/${await scheduled(full)}`,
      body: { scheduled_at: IN_AN_HOUR },
    }),
  },
  "POST /emails/{id}/cancel (of another key)": {
    needs: [],
    status: 200,
    ask: async ({ full }) => ({ path: `/emails/${await scheduled(full)}/cancel` }),
  },
};

type Where = "anywhere" | "here" | "elsewhere";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("the table and the routes cover each other", () => {
  const served = api.routes.map(({ method, path }) => `${method} ${path.replace("/api/v1", "")}`);
  expect(served.sort()).toEqual(Object.keys(ROUTES).sort());
});

test.each(Object.entries({ ...ROUTES, ...MORE }))("%s", async (name, row) => {
  // a workspace has at most 50 keys, and a send in it waits while they are being made
  const ws = await api.workspace();
  const cases: {
    permission: Permission;
    where: Where;
    audience: string;
    visible: string[] | null;
    client: Client;
  }[] = [];
  for (const permission of PERMISSIONS)
    for (const where of ["anywhere", "here", "elsewhere"] as const) {
      const audience = await newAudience(ws.client);
      const visible = { anywhere: null, here: [audience], elsewhere: [await newAudience(ws.client)] }[where];
      const { client } = await ws.key([permission], visible);
      cases.push({ permission, where, audience, visible, client });
    }
  await Promise.all(
    cases.map(async ({ permission, where, audience, visible, client }) => {
      const sender = permission === "emails:send" ? client : ws.client;
      const { path, body, headers } = await row.ask({
        full: ws.client,
        audience,
        own: () => scheduled(sender),
      });
      const answer = await client.call<Refusal>(name.split(" ")[0] as string, path, body, headers);
      const isAllowed = permission === "full" || row.needs.includes(permission);
      const what = `${permission}, ${where}: ${JSON.stringify(answer.body)}`;
      if (!isAllowed) {
        expect(answer.status, what).toBe(403);
        expect(answer.body.name).toBe("restricted_api_key");
        expect(answer.body.message, what).toBe(refusal(name, row, permission));
        return;
      }
      // a key that is limited at all cannot make an audience
      const isRefused = row.elsewhere === "refused" && where !== "anywhere";
      if (isRefused)
        expect(answer, what).toMatchObject({ status: 403, body: { name: "restricted_api_key" } });
      else if (where === "elsewhere" && row.elsewhere === "not found")
        expect(answer, what).toMatchObject({ status: 404, body: { name: "not_found" } });
      else expect(answer.status, what).toBe(row.status);
      if (row.elsewhere === "not listed") {
        const { data } = answer.body as unknown as { data: { id: string }[] };
        const seen = data.map(({ id }) => id);
        if (visible) expect(seen).toEqual(visible);
        else expect(seen).toContain(audience);
      }
    }),
  );
});

function importing(audience: string) {
  const part = (name: string, value: string) =>
    `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const segments = part("segments", JSON.stringify([{ id: audience }]));
  return {
    path: "/contacts/imports",
    body: `${part("file", `email\n${address()}\n`)}${segments}--b--`,
    headers: { "content-type": "multipart/form-data; boundary=b" },
  };
}

/**
 * What a query asks for is known with the route; what a body asks for, after it: the route's own comes first.
 */
function refusal(name: string, row: Row, permission: Permission): string {
  const [asked = ""] = name.split(" (");
  if (name.includes("?")) return lacking(row.needs[0] ?? "full");
  const route = ROUTES[asked] as Row;
  const isShort = !route.needs.includes(permission);
  return lacking((isShort ? route.needs[0] : row.needs[0]) ?? "full");
}

function lacking(permission: Permission): string {
  return `This API key lacks the \`${permission}\` permission.`;
}

let made = 0;
function fresh(what: string): string {
  return `${what}-${++made}`;
}

function address(): string {
  return `${fresh("person")}@example.net`;
}

async function newAudience(full: Client): Promise<string> {
  return (await full.post<{ id: string }>("/audiences", { name: "People" })).body.id;
}

async function suppressed({ full }: World): Promise<string> {
  const { status, body } = await full.post<{ id: string }>("/suppressions", { email: address() });
  expect(status).toBe(201);
  return body.id;
}

async function automation({ full, audience }: World): Promise<string> {
  const body = { name: fresh("automation"), audience_id: audience, event: "signed.up", steps: [] };
  return (await full.post<{ id: string }>("/automations", body)).body.id;
}

/** Named and keyed by hand: to make one by the API takes a key of 2048 bits. */
async function workspaceOf({ key }: Client): Promise<string> {
  const [{ id }] = (await api.sql`
    select w.id from workspace w where w.handle = ${key.slice(8, 16)}`) as unknown as [{ id: string }];
  return id;
}

async function domain({ full }: World): Promise<string> {
  const workspaceId = await workspaceOf(full);
  const name = `${fresh("domain")}.example.com`;
  await nameDomain(api.sql, workspaceId, name, new Date());
  return (await findShownDomain(api.sql, workspaceId, { domain: name }))?.id ?? "";
}

/** Requests are written once a second. */
async function logged(full: Client): Promise<string> {
  for (;;) {
    const { data } = (await full.get<{ data: { id: string }[] }>("/logs")).body;
    if (data[0]) return data[0].id;
  }
}

async function contact({ full, audience }: World): Promise<string> {
  const { body } = await full.post<{ id: string }>(`/audiences/${audience}/contacts`, { email: address() });
  return body.id;
}

async function template({ full }: World): Promise<string> {
  const id = fresh("template");
  expect((await full.call("PUT", `/templates/${id}`, { html: "<p>A</p>" })).status).toBe(201);
  return id;
}

async function scheduled(client: Client): Promise<string> {
  const { status, body } = await client.post<{ id: string }>("/emails", LATER);
  expect(status).toBe(200);
  return body.id;
}
