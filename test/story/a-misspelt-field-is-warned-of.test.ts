/**
 * A misspelt field is ignored like every unknown one, and the answer says so: `warnings`, with the field it
 * was meant to be.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openapi } from "../../src/api/openapi.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type Warning = { path: string; message: string };
type Sent = { id: string; warnings?: Warning[] };
type BatchSent = { data: { id: string }[]; errors?: { index: number }[]; warnings?: Warning[] };

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("pro");
});
afterAll(() => api.stop());

const warning = (path: string, meant: string): Warning => ({
  path,
  message: `The \`${path}\` field is not known and is ignored. Did you mean \`${meant}\`?`,
});

test("a send is accepted, with a warning", async () => {
  const sent = await ws.client.post<Sent>("/emails", mail({ reply_too: "answers@example.com" }));
  expect(sent).toMatchObject({ status: 200, body: { warnings: [warning("reply_too", "reply_to")] } });
  const { body } = await ws.client.get(`/emails/${sent.body.id}`);
  expect(body).toMatchObject({ reply_to: [] });
});

test("a send without a misspelt field has no warnings", async () => {
  const { body } = await ws.client.post<Sent>("/emails", mail({ metadata: { any: "thing" } }));
  expect(Object.keys(body)).toEqual(["id"]);
});

test("a repeated request is answered with the same warnings", async () => {
  const [body, key] = [mail({ form: "x" }), { "idempotency-key": "misspelt" }];
  const first = await ws.client.post<Sent>("/emails", body, key);
  expect(first.body.warnings).toEqual([warning("form", "from")]);
  expect((await ws.client.post("/emails", body, key)).body).toEqual(first.body);
});

describe("of a batch", () => {
  test("each names its item", async () => {
    const { status, body } = await ws.client.post<BatchSent>("/emails/batch", [
      mail(),
      mail({ subjct: "x" }),
    ]);
    expect(status).toBe(200);
    expect(body.data).toHaveLength(2);
    expect(body.warnings).toEqual([warning("[1].subjct", "subject")]);
  });

  test("a permissive one has them beside its errors", async () => {
    const items = [mail({ to: "nobody" }), mail({ attachements: [] })];
    const headers = { "x-batch-validation": "permissive" };
    const { body } = await ws.client.post<BatchSent>("/emails/batch", items, headers);
    expect(body.errors).toMatchObject([{ index: 0 }]);
    expect(body.warnings).toEqual([warning("[1].attachements", "attachments")]);
  });

  test("a large one, parsed on its own thread, has them too", async () => {
    const items = [mail(), mail({ html: "x".repeat(400_000), Reply_To: "answers@example.com", other: [1] })];
    const { status, body } = await ws.client.post<BatchSent>("/emails/batch", items);
    expect(status).toBe(200);
    expect(body.warnings).toEqual([warning("[1].Reply_To", "reply_to")]);
  });
});

test("the official client takes an answer with warnings", async () => {
  const { Resend } = await import("resend");
  const client = new Resend(ws.client.key, { baseUrl: `${api.url}/api/v1` });
  const one = await client.post<Sent>("/emails", mail({ bccc: "a@example.net" }));
  expect(one).toMatchObject({ error: null, data: { warnings: [warning("bccc", "bcc")] } });
  const many = await client.post<BatchSent>("/emails/batch", [mail({ bccc: "a@example.net" })]);
  expect(many).toMatchObject({ error: null, data: { data: [{ id: expect.any(String) }] } });
  expect(many.data?.warnings).toEqual([warning("[0].bccc", "bcc")]);
});

test("the API's own description has the warnings", () => {
  const { paths } = openapi(api.routes);
  for (const path of ["/emails", "/emails/batch"]) {
    const schema = { properties: { warnings: { type: "array" } } };
    const answer = { "200": { content: { "application/json": { schema } } } };
    expect(paths[path]).toMatchObject({ post: { responses: answer } });
  }
});

describe("what is written besides e-mails", () => {
  let audience: string;
  beforeAll(async () => {
    audience = (await ws.client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
    await ws.client.post(`/audiences/${audience}/contacts`, { email: "c@example.com" });
  });
  const written: [path: string, body: () => object, field: string, meant: string][] = [
    ["/audiences", () => ({ name: "More", double_optin: true }), "double_optin", "double_opt_in"],
    ["/contacts", () => ({ email: "a@example.com", unsubscribd: true }), "unsubscribd", "unsubscribed"],
    ["/suppressions", () => ({ email: "b@example.com", scop: "bulk" }), "scop", "scope"],
    [
      "/events",
      () => ({ audience_id: audience, email: "c@example.com", name: "x", propertes: {} }),
      "propertes",
      "properties",
    ],
    ["/templates", () => ({ name: "t", html: "x", subjct: "y" }), "subjct", "subject"],
  ];
  for (const [path, body, field, meant] of written)
    test(`POST ${path} warns of ${field}`, async () => {
      const answer = await ws.client.post<{ warnings?: Warning[] }>(path, body());
      expect(answer.status).toBeLessThan(300);
      expect(answer.body.warnings).toEqual([warning(field, meant)]);
    });

  test("a record of consent is looked through, too", async () => {
    const consent = { source: "form", captured_at: "2026-11-20T20:07:38Z", ip_adress: "192.0.2.1" };
    const contact = { email: "e@example.com", consent, properties: { emial: 1 } };
    const { body } = await ws.client.post<{ warnings?: Warning[] }>("/contacts", contact);
    expect(body.warnings).toEqual([warning("consent.ip_adress", "ip_address")]);
  });

  test("a form has fields, too", async () => {
    const form = new FormData();
    form.set("file", new Blob(["email\nf@example.com\n"]), "people.csv");
    form.set("on_conflct", "skip");
    const answer = await fetch(`${api.url}/api/v1/contacts/imports`, {
      method: "POST",
      headers: { authorization: `Bearer ${ws.client.key}` },
      body: form,
    });
    expect(await answer.json()).toMatchObject({ warnings: [warning("on_conflct", "on_conflict")] });
  });

  test("a map of columns in a form is looked through, too", async () => {
    const form = new FormData();
    const properties = { age: { column: "Age", tpye: "number" }, colum: { column: "Mail2" } };
    form.set("column_map", JSON.stringify({ email: "Mail", frst_name: "Age", properties }));
    form.set("file", new Blob(["Mail,Age,Mail2\ng@example.com,7,\n"]), "people.csv");
    const answer = await fetch(`${api.url}/api/v1/contacts/imports`, {
      method: "POST",
      headers: { authorization: `Bearer ${ws.client.key}` },
      body: form,
    });
    expect(await answer.json()).toMatchObject({
      warnings: [
        warning("column_map.frst_name", "first_name"),
        warning("column_map.properties.age.tpye", "type"),
      ],
    });
  });

  test("what is spelt well is answered as before", async () => {
    const { body } = await ws.client.post<object>("/suppressions", { email: "d@example.com" });
    expect(body).not.toHaveProperty("warnings");
  });
});
