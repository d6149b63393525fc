/**
 * Every method of the official client, in versions between which the methods changed: what
 * `docs/official-client.md` says works is answered, and what it says is absent is refused in words. A method
 * without a row fails, and so does a row without a method.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { holdToDocument } from "../rig/document.ts";
import { type OfficialVersion, officialClient } from "../rig/officialclient.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const VERSIONS: OfficialVersion[] = ["resend-6-0", "resend-6-3", "resend-6-4", "resend-6-18", "resend"];
const NEWEST = "resend";
const UNKNOWN = "01890000-0000-7000-8000-000000000000";

type Failure = { name: string; message: string; statusCode: number | null };
type Result = { data: { id: string; data?: { id: string }[] } | null; error: Failure | null };
type Method = (...given: unknown[]) => Promise<Result>;
type Client = Record<string, Record<string, Method | Record<string, Method>>>;
/** What earlier calls made, by what it is. */
type World = Record<string, string>;
type Made = { as?: string; given: (world: World) => unknown[] };

let api: TestApi;
let ws: TestWorkspace;
const answered: { method: string; path: string; status: number; body: unknown }[] = [];
const realFetch = globalThis.fetch;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  globalThis.fetch = async (url, init) => {
    const response = await realFetch(url, init);
    const path = String(url).split("/api/v1")[1];
    if (path !== undefined)
      answered.push({
        ...{ method: init?.method ?? "GET", path, status: response.status },
        body: await response.clone().json(),
      });
    return response;
  };
});
afterAll(async () => {
  globalThis.fetch = realFetch;
  await api.stop();
});

const EMAIL = { from: "Acme <a@example.com>", to: "b@example.net", subject: "Hi", text: "Hi" };
const FILE = { filename: "a.txt", content: Buffer.from("a") };
const STEPS = [{ key: "start", type: "trigger", config: { eventName: "signed.up" } }];
const none = { given: () => [] };
const byId = (name: string) => ({ given: (world: World) => [world[name]] });

/** In this order, since each uses what those before it made. */
const WORKS: Record<string, Made> = {
  "emails.send": { as: "email", given: () => [{ ...EMAIL, attachments: [FILE] }] },
  "emails.create": { as: "later", given: () => [{ ...EMAIL, scheduledAt: "in 1 hour" }] },
  "emails.get": byId("email"),
  "emails.list": none,
  "emails.update": { given: ({ later }) => [{ id: later, scheduledAt: "in 2 hours" }] },
  "emails.cancel": byId("later"),
  "emails.share": { given: ({ email }) => [email, { expiresIn: "2 hours" }] },
  "emails.metrics": { given: () => [{ dimensions: ["period"], granularity: "weekly" }] },
  "emails.attachments.list": { as: "attachment", given: ({ email }) => [{ emailId: email }] },
  "emails.attachments.get": { given: ({ email, attachment }) => [{ emailId: email, id: attachment }] },
  "batch.send": { given: () => [[EMAIL]] },
  "batch.create": { given: () => [[EMAIL], { batchValidation: "permissive" }] },
  "segments.create": { as: "segment", given: () => [{ name: "People" }] },
  "segments.get": byId("segment"),
  "segments.list": none,
  "segments.update": { given: ({ segment }) => [segment, { name: "Persons" }] },
  "audiences.create": { as: "audience", given: () => [{ name: "People" }] },
  "audiences.get": byId("audience"),
  "audiences.list": none,
  "audiences.update": { given: ({ audience }) => [audience, { name: "Persons" }] },
  "contactProperties.create": {
    as: "property",
    given: () => [{ key: "plan", type: "string", fallbackValue: "free" }],
  },
  "contactProperties.get": byId("property"),
  "contactProperties.list": none,
  "contactProperties.update": { given: ({ property }) => [{ id: property, fallbackValue: "pro" }] },
  "contactProperties.remove": byId("property"),
  "contacts.create": {
    as: "contact",
    given: ({ audience }) => [{ email: "ann@example.net", audienceId: audience }],
  },
  "contacts.get": { given: ({ audience, contact }) => [{ id: contact, audienceId: audience }] },
  "contacts.list": { given: ({ audience }) => [{ audienceId: audience }] },
  "contacts.update": {
    given: ({ audience }) => [{ email: "ann@example.net", audienceId: audience, firstName: "A" }],
  },
  "contacts.segments.add": { given: ({ contact, segment }) => [{ contactId: contact, segmentId: segment }] },
  "contacts.segments.list": { given: ({ contact }) => [{ contactId: contact }] },
  "contacts.segments.remove": {
    given: ({ contact, segment }) => [{ contactId: contact, segmentId: segment }],
  },
  "contacts.imports.create": {
    as: "import",
    given: ({ segment }) => [
      {
        file: new Blob(["Mail,Plan\nbob@example.net,pro\n"]),
        columnMap: { email: "Mail", properties: { plan: { column: "Plan", type: "string" } } },
        onConflict: "skip",
        segments: [{ id: segment }],
      },
    ],
  },
  "contacts.imports.list": { given: () => [{ limit: 1 }] },
  "contacts.imports.get": byId("import"),
  "events.create": { as: "event", given: () => [{ name: "signed.up", schema: { plan: "string" } }] },
  "events.get": { given: () => ["signed.up"] },
  "events.list": none,
  "events.update": { given: ({ event }) => [event, { schema: null }] },
  "events.send": {
    given: () => [{ event: "signed.up", email: "ann@example.net", payload: { plan: "pro" } }],
  },
  "events.remove": byId("event"),
  "automations.create": {
    as: "automation",
    given: () => [{ name: `A ${Math.random()}`, status: "enabled", steps: STEPS, connections: [] }],
  },
  "automations.get": byId("automation"),
  "automations.list": { given: () => [{ status: "enabled" }] },
  "automations.update": { given: ({ automation }) => [automation, { status: "disabled" }] },
  "automations.duplicate": byId("automation"),
  "automations.stop": byId("automation"),
  "automations.runs.list": {
    given: ({ automation }) => [{ automationId: automation, status: ["running", "failed"] }],
  },
  "automations.runs.get": { given: ({ automation, run }) => [{ automationId: automation, runId: run }] },
  "automations.remove": byId("automation"),
  "domains.create": {
    as: "domain",
    given: () => [{ name: `${Math.random().toString(36).slice(2)}.example.com` }],
  },
  "domains.get": byId("domain"),
  "domains.list": none,
  "domains.update": { given: ({ domain }) => [{ id: domain, openTracking: false, tls: "opportunistic" }] },
  "domains.verify": byId("domain"),
  "domains.claims.create": {
    as: "claimed",
    given: () => [{ name: `${Math.random().toString(36).slice(2)}.example.com` }],
  },
  "domains.claims.get": byId("claimed"),
  "domains.claims.verify": byId("claimed"),
  "domains.remove": byId("domain"),
  "templates.create": { as: "template", given: () => [{ name: "A", html: "<p>{{name|you}}</p>" }] },
  "templates.get": byId("template"),
  "templates.list": none,
  "templates.update": { given: ({ template }) => [template, { name: "B" }] },
  "templates.duplicate": byId("template"),
  "templates.publish": byId("template"),
  "templates.remove": byId("template"),
  "suppressions.add": { as: "suppression", given: () => [{ email: "gone@example.net" }] },
  "suppressions.get": { given: () => ["gone@example.net"] },
  "suppressions.list": { given: () => [{ origin: "manual" }] },
  "suppressions.remove": byId("suppression"),
  "suppressions.batch.add": { given: () => [{ emails: ["c@example.net"] }] },
  "suppressions.batch.remove": { given: () => [{ emails: ["c@example.net"] }] },
  "logs.list": none,
  "logs.get": byId("log"),
  "usage.get": none,
  "oauthGrants.list": none,
  "webhooks.create": {
    as: "webhook",
    given: () => [{ endpoint: "https://hooks.example.com/a", events: ["email.delivered"] }],
  },
  "webhooks.get": byId("webhook"),
  "webhooks.list": none,
  "webhooks.update": { given: ({ webhook }) => [webhook, { status: "disabled" }] },
  "webhooks.rotateSigningSecret": byId("webhook"),
  "webhooks.events.list": { given: ({ webhook }) => [{ webhookId: webhook }] },
  "webhooks.remove": byId("webhook"),
  "contacts.remove": { given: ({ audience, contact }) => [{ id: contact, audienceId: audience }] },
  "segments.remove": byId("segment"),
  "audiences.remove": byId("audience"),
};

/** Answered from what is stored: without an event there is nothing to show, which is said. */
const NEEDS_AN_EVENT = ["webhooks.events.get", "webhooks.events.replay", "webhooks.events.attempts.list"];
const LOCAL = ["webhooks.verify"];

/** As the page has it: by method, `works`, `differs` or `absent`. */
function told(): Map<string, string> {
  const page = readFileSync(new URL("../../docs/official-client.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| ((?:`[\w.]+`(?:, )?)+) \| (works|differs|absent)\b/gm)];
  return new Map(
    rows.flatMap(([, names = "", how = ""]) =>
      [...names.matchAll(/`([\w.]+)`/g)].map(([, name = ""]) => [name, how] as const),
    ),
  );
}

function methodsOf(part: object, prefix = ""): string[] {
  const own = Object.entries(part)
    .filter(
      ([name, value]) => value !== null && typeof value === "object" && !["resend", "headers"].includes(name),
    )
    .flatMap(([name, value]) => methodsOf(value as object, `${prefix}${name}.`));
  const methods = prefix === "" ? [] : Object.getOwnPropertyNames(Object.getPrototypeOf(part));
  const open = methods.filter((name) => !["constructor", ...HIDDEN].includes(name));
  return [...open.map((name) => prefix + name), ...own];
}

/** Private to the client. */
const HIDDEN = [
  "performCreate",
  "forwardPassthrough",
  "forwardWrapped",
  "downloadRaw",
  "buildCreateFormData",
  "buildColumnMap",
  "appendField",
];

const load = (version: OfficialVersion) =>
  officialClient<Client>(version, { url: api.url, key: ws.client.key });

function methodOf(client: Client, name: string): Method | null {
  const path = name.split(".");
  const last = path.pop() as string;
  let part: unknown = client;
  for (const step of path) part = (part as Record<string, unknown> | undefined)?.[step];
  const method = (part as Record<string, Method> | undefined)?.[last];
  return method ? method.bind(part) : null;
}

test("every method of the newest version has a row, and every row a method", async () => {
  const served = methodsOf(load(NEWEST)).sort();
  expect([...told().keys()].sort()).toEqual(served);
});

describe.each(VERSIONS)("%s", (version) => {
  test("what works is answered, as the document says", async () => {
    const client = load(version);
    const world: World = {};
    let asked = 0;
    answered.length = 0;
    for (const [name, { as, given }] of Object.entries(WORKS)) {
      const method = methodOf(client, name);
      if (!method) continue;
      if (name === "automations.runs.get") world.run = await aRun(world.automation as string);
      if (name === "logs.get") world.log = await aRequest();
      const { data, error } = await method(...given(world));
      expect(error, `${name}: ${JSON.stringify(error)}`).toBeNull();
      asked++;
      if (as) world[as] = data?.data?.[0]?.id ?? (data?.id as string);
    }
    for (const { method, path, status, body } of answered) holdToDocument(method, path, status, body);
    expect(asked).toBeGreaterThan(15);
  }, 60_000);

  test("what is absent is refused in words", async () => {
    const client = load(version);
    const absent = [...told()].filter(([, how]) => how === "absent").map(([name]) => name);
    for (const name of absent) {
      const method = methodOf(client, name);
      if (!method) continue;
      const all = {
        id: UNKNOWN,
        contactId: UNKNOWN,
        emailId: UNKNOWN,
        inboxId: UNKNOWN,
        threadId: UNKNOWN,
        draftId: UNKNOWN,
      };
      const options = {
        ...all,
        labelId: UNKNOWN,
        name: "A",
        email: "a@example.net",
        to: "a@example.net",
        topics: [],
      };
      const isById =
        /^(broadcasts|apiKeys|topics|inboxes|oauthGrants)\.(get|remove|cancel|duplicate|send|update|revoke|recipients|clickedLinks)$/.test(
          name,
        );
      const takesObject = ["topics.update", "emails.receiving.forward"].includes(name);
      const { error } = await method(...(isById && !takesObject ? [UNKNOWN, options] : [options, options]));
      expect(error, name).not.toBeNull();
      const { name: why, message } = error as Failure;
      if (name.startsWith("apiKeys."))
        expect([why, message], name).toEqual([
          "restricted_api_key",
          expect.stringContaining("owners and admins"),
        ]);
      else
        expect([why, message], name).toEqual([
          "not_found",
          expect.stringContaining("not part of this engine"),
        ]);
    }
  });
});

test("what works is tried, and what is tried has a row that says so", () => {
  const tried = [...Object.keys(WORKS), ...NEEDS_AN_EVENT, ...LOCAL].sort();
  const answeredRows = [...told()].filter(([, how]) => how !== "absent").map(([name]) => name);
  expect(tried).toEqual(answeredRows.sort());
});

async function aRun(automationId: string): Promise<string> {
  const { id } = (await ws.client.post<{ id: string }>("/contacts", { email: "run@example.net" })).body;
  await ws.client.call("PATCH", `/automations/${automationId}`, {
    status: "enabled",
    steps: [{ wait: "1d" }],
  });
  await ws.client.post("/events/send", { contact_id: id, event: "signed.up" });
  const { data } = (await ws.client.get<{ data: { id: string }[] }>(`/automations/${automationId}/runs`))
    .body;
  return data[0]?.id as string;
}

/** Requests are written once a second. */
async function aRequest(): Promise<string> {
  for (;;) {
    const { data } = (await ws.client.get<{ data: { id: string }[] }>("/logs")).body;
    if (data[0]) return data[0].id;
  }
}
