import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type Email = { subject: string; html: string; text: string; from: string; reply_to: string[] };
let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

function put(externalId: string, body: unknown, caller = ws.client) {
  return caller.call<{ object: string; id: string } & Refusal>("PUT", `/templates/${externalId}`, body);
}

async function sentEmail(id: string): Promise<Email> {
  return (await ws.client.get<Email>(`/emails/${id}`)).body;
}

function withTemplate(id: string, variables: object = {}, more: object = {}) {
  return { to: "one@example.net", template: { id, variables }, ...more };
}

describe("a send uses a template", () => {
  test("by id or external id, and its own fields win", async () => {
    const { body: saved } = await put("order", {
      subject: "Order {{number}} & more",
      html: "<p>Dear {{name}}, {{{raw}}}</p>",
      text: "Dear {{name}}",
      from: "Shop <shop@example.com>",
      reply_to: "help@example.com",
    });
    const variables = { name: "<Ann>", number: 7, raw: "<b>!</b>" };
    const plain = await ws.client.post<{ id: string }>("/emails", withTemplate("order", variables));
    expect(plain.status).toBe(200);
    expect(await sentEmail(plain.body.id)).toMatchObject({
      from: "Shop <shop@example.com>",
      reply_to: ["help@example.com"],
      subject: "Order 7 & more",
      html: "<p>Dear &lt;Ann&gt;, <b>!</b></p>",
      text: "Dear <Ann>",
    });
    const own = { from: "own@example.com", subject: "Own {{number}}", reply_to: ["own@example.net"] };
    const overridden = await ws.client.post<{ id: string }>(
      "/emails",
      withTemplate(saved.id, variables, own),
    );
    expect(await sentEmail(overridden.body.id)).toMatchObject({ ...own, text: "Dear <Ann>" });
  });

  test("and what was sent stays when it changes and goes", async () => {
    await put("fleeting", { html: "first", subject: "s", from: "a@example.com" });
    const first = await ws.client.post<{ id: string }>("/emails", withTemplate("fleeting"));
    await put("fleeting", { html: "second", subject: "s", from: "a@example.com" });
    const second = await ws.client.post<{ id: string }>("/emails", withTemplate("fleeting"));
    expect((await ws.client.call("DELETE", "/templates/fleeting")).status).toBe(200);
    expect((await ws.client.get("/templates/fleeting")).status).toBe(404);
    expect((await sentEmail(first.body.id)).html).toBe("first");
    expect((await sentEmail(second.body.id)).html).toBe("second");
    expect(await ws.client.post("/emails", withTemplate("fleeting"))).toMatchObject({
      status: 404,
      body: { name: "not_found" },
    });
  });

  test("with fallbacks that were declared, written beside the name, or none", async () => {
    await put("falls", {
      html: "{{declared}} {{beside|there}} {{nothing | default: 'x'}}",
      subject: "s",
      from: "a@example.com",
      variables: [{ key: "declared", type: "number", fallback_value: 3 }],
    });
    const sent = await ws.client.post<{ id: string }>("/emails", withTemplate("falls", { beside: null }));
    expect((await sentEmail(sent.body.id)).html).toBe("3 there x");
    await put("demands", { html: "a\n {{user.name}}", subject: "s", from: "a@example.com" });
    expect(await ws.client.post("/emails", withTemplate("demands", { user: {} }))).toMatchObject({
      status: 422,
      body: {
        name: "validation_error",
        message: expect.stringMatching(
          /^The `template\.variables\.user\.name` field is missing.*line 2, column 4/,
        ),
      },
    });
  });

  test.each([
    ["subject", { from: "a@example.com" }, "Missing `subject` field."],
    ["from", { subject: "s" }, "Missing `from` field."],
    ["html beside it", { from: "a@example.com", subject: "s", html: "x" }, "`html`"],
    ["a broken subject", { from: "a@example.com", subject: "a\nb" }, "`subject`"],
  ])("which is refused for %s", async (_, more, message) => {
    await put("bare", { html: "x" });
    expect(await ws.client.post("/emails", withTemplate("bare", {}, more))).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining(message) },
    });
  });

  test("whose subject cannot be made to break the header", async () => {
    await put("headed", { html: "x", subject: "Hi {{name}}", from: "a@example.com" });
    const refused = await ws.client.post(
      "/emails",
      withTemplate("headed", { name: "a\r\nBcc: x@example.com" }),
    );
    const message = "The `subject` that the template makes of its variables must not contain line breaks";
    expect(refused).toMatchObject({ status: 422, body: { message: expect.stringContaining(message) } });
  });

  test("and is charged nothing when it cannot be rendered", async () => {
    const own = await api.workspace("essentials", { emails_per_month: 1 });
    await put("t", { html: "{{x}}", subject: "s", from: "a@example.com" }, own.client);
    for (let n = 0; n < 3; n++)
      expect((await own.client.post("/emails", withTemplate("t"))).status).toBe(422);
    expect((await own.client.post("/emails", withTemplate("t", { x: 1 }))).status).toBe(200);
    expect((await own.client.post("/emails", withTemplate("t", { x: 1 }))).status).toBe(429);
  });
});

describe("a batch uses templates", () => {
  beforeAll(async () => {
    await put("one", { html: "1 {{x}}", subject: "one", from: "a@example.com" });
    await put("two", { html: "2 {{x}}", subject: "two", from: "a@example.com" });
  });

  test("among others, each its own", async () => {
    const batch = [
      withTemplate("one", { x: 1 }),
      mail(),
      withTemplate("two", { x: 2 }),
      withTemplate("one", { x: 3 }),
    ];
    const { status, body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", batch);
    expect(status).toBe(200);
    const sent = await Promise.all(body.data.map(({ id }) => sentEmail(id)));
    expect(sent.map(({ html }) => html)).toEqual(["1 1", "<p>Thanks</p>", "2 2", "1 3"]);
  });

  test("all or nothing, naming the field", async () => {
    const missing = await ws.client.post("/emails/batch", [
      withTemplate("one", { x: 1 }),
      withTemplate("two"),
    ]);
    expect(missing).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining("`[1].template.variables.x`") },
    });
    const unknown = await ws.client.post("/emails/batch", [
      withTemplate("one", { x: 1 }),
      withTemplate("none"),
    ]);
    expect(unknown).toMatchObject({
      status: 404,
      body: { message: expect.stringContaining("`[1].template.id`") },
    });
    // what is wrong with the request itself comes before what does not exist
    const both = await ws.client.post("/emails/batch", [
      withTemplate("none"),
      withTemplate("one", {}, { to: "nobody" }),
    ]);
    expect(both).toMatchObject({ status: 422, body: { message: expect.stringContaining("`[1].to`") } });
  });

  test("permissively, each for itself and in order", async () => {
    const { status, body } = await ws.client.post<{ data: object[]; errors: object[] }>(
      "/emails/batch",
      [
        withTemplate("none"),
        withTemplate("one", { x: 1 }),
        withTemplate("one", {}, { to: "nobody" }),
        withTemplate("two"),
      ],
      { "x-batch-validation": "permissive" },
    );
    expect(status).toBe(200);
    expect(body.data).toHaveLength(1);
    expect(body.errors).toMatchObject([
      { index: 0, message: expect.stringContaining("`[0].template.id`") },
      { index: 2, message: expect.stringContaining("`[2].to`") },
      { index: 3, message: expect.stringContaining("`[3].template.variables.x`") },
    ]);
  });

  test("within one budget of time and output", async () => {
    await put("endless", {
      html: "{% for a in (1..1000000) %}{% for b in (1..1000000) %}{% endfor %}{% endfor %}",
      subject: "s",
      from: "a@example.com",
    });
    const began = process.cpuUsage();
    const endless = await ws.client.post("/emails/batch", Array(100).fill(withTemplate("endless")));
    expect(endless).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining("units of work") },
    });
    const { user, system } = process.cpuUsage(began);
    expect((user + system) / 1_000).toBeLessThan(1_000);
    await put("large", { html: "x".repeat(60_000), subject: "s", from: "a@example.com" });
    expect((await ws.client.post("/emails/batch", Array(60).fill(withTemplate("large")))).status).toBe(200);
    expect(await ws.client.post("/emails/batch", Array(100).fill(withTemplate("large")))).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining("4194304") },
    });
  });
});

describe("templates that are not at hand", () => {
  // nearly all that one may take to compile, and nothing to render
  const html = `{% if 1 == 2 %}${"{{a}}".repeat(1_800)}{% endif %}`;
  const names = Array.from({ length: 12 }, (_, n) => `heavy${n}`);

  test("are compiled on the budget of the request, as are those that are", async () => {
    for (const name of names) await put(name, { html, subject: "s", from: "a@example.com" });
    const alone = await ws.client.post("/emails", withTemplate("heavy0", { a: "a" }));
    expect(alone.status).toBe(200);
    const batch = names.map((name) => withTemplate(name, { a: "a" }));
    for (let n = 0; n < 2; n++)
      expect(await ws.client.post("/emails/batch", batch)).toMatchObject({
        status: 422,
        body: { name: "validation_error", message: expect.stringContaining("too much work together") },
      });
  });
});

describe("an idempotent send stands", () => {
  test("when its template has gone since", async () => {
    await put("gone", { html: "x", subject: "s", from: "a@example.com" });
    const key = { "idempotency-key": randomUUID() };
    const first = await ws.client.post("/emails", withTemplate("gone"), key);
    expect(first.status).toBe(200);
    await ws.client.call("DELETE", "/templates/gone");
    expect(await ws.client.post("/emails", withTemplate("gone"), key)).toMatchObject({
      status: 200,
      body: first.body as object,
    });
    expect(await ws.client.post("/emails", withTemplate("gone", { other: 1 }), key)).toMatchObject({
      status: 409,
      body: { name: "invalid_idempotent_request" },
    });
  });

  test("when its template asks for more since, also in a permissive batch", async () => {
    await put("grows", { html: "x", subject: "s", from: "a@example.com" });
    const headers = { "idempotency-key": randomUUID(), "x-batch-validation": "permissive" };
    const first = await ws.client.post("/emails/batch", [withTemplate("grows")], headers);
    await put("grows", { html: "{{x}}", subject: "s", from: "a@example.com" });
    const again = await ws.client.post("/emails/batch", [withTemplate("grows")], headers);
    expect(again).toMatchObject({ status: 200, body: first.body as object });
  });
});
