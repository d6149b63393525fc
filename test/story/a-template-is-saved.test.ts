import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type Template = { id: string; external_id: string | null; html: string; variables: object[] } & Record<
  string,
  unknown
>;
type Listed = {
  data: Record<string, unknown>[];
  has_more: boolean;
  next_cursor: string | null;
};

const UNKNOWN = "00000000-0000-7000-8000-000000000000";

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

function withTemplate(id: string, variables: object = {}, more: object = {}) {
  return { to: "one@example.net", template: { id, variables }, ...more };
}

describe("a template is saved", () => {
  test("once by its external id, and replaced after that", async () => {
    const times = { created_at: expect.stringMatching(/Z$/), updated_at: expect.stringMatching(/Z$/) };
    const first = await put("welcome", { html: "<p>Hi {{name}}</p>", subject: "Hello", text: "Hi" });
    expect(first).toMatchObject({ status: 201, body: { object: "template" } });
    const second = await put("welcome", { html: "<p>Hello {{name|you}}</p>", name: "Welcome" });
    expect(second).toMatchObject({ status: 200, body: { object: "template", id: first.body.id } });
    for (const ref of ["welcome", first.body.id, first.body.id.toUpperCase()]) {
      const { status, body } = await ws.client.get<Template>(`/templates/${ref}`);
      expect(status).toBe(200);
      expect(body).toEqual({
        object: "template",
        id: first.body.id,
        external_id: "welcome",
        alias: "welcome",
        name: "Welcome",
        version: 2,
        subject: null,
        from: null,
        reply_to: [],
        html: "<p>Hello {{name|you}}</p>",
        text: null,
        status: "published",
        variables: [{ key: "name", type: "string", fallback_value: "you", ...times }],
        ...times,
        published_at: expect.stringMatching(/Z$/),
        current_version_id: first.body.id,
        has_unpublished_versions: false,
      });
    }
    const versions = await api.sql`select version, html from template_version
      where workspace_id = ${ws.id} and template_id = ${first.body.id} order by version`;
    expect(versions.map((row) => row.html)).toEqual(["<p>Hi {{name}}</p>", "<p>Hello {{name|you}}</p>"]);
  });

  test("only over the version that was read, where that is asked", async () => {
    const { id } = (await put("read", { html: "1" })).body;
    const patch = (body: object) => ws.client.call<Refusal>("PATCH", `/templates/${id}`, body);
    expect(await patch({ html: "2", if_version: 1 })).toMatchObject({ status: 200 });
    const refused = await patch({ html: "3", if_version: 1 });
    expect(refused).toMatchObject({ status: 409, body: { name: "version_conflict" } });
    expect(refused.body.message).toBe(
      "Nothing was changed: `if_version` is 1, and this is version 2 by now. Read it again.",
    );
    expect((await ws.client.get<Template>(`/templates/${id}`)).body).toMatchObject({ html: "2", version: 2 });
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => patch({ html: `of ${n}`, if_version: 2 })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
    for (const wrong of [0, 1.5, "1", 2 ** 31])
      expect(await patch({ html: "4", if_version: wrong })).toMatchObject({ status: 422 });
  });

  test("by many at once as one", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => put("contended", { html: `${n}` })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(19).fill(200), 201]);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  });

  test("and the newest hundred versions are kept", async () => {
    for (let n = 1; n <= 103; n++) await put("often", { html: `version ${n}` });
    const [row] = await api.sql`select count(*)::int, min(v.version), max(v.version) from template_version v
      join template t on t.workspace_id = v.workspace_id and t.id = v.template_id
      where t.workspace_id = ${ws.id} and t.external_id = 'often'`;
    expect(row).toEqual({ count: 100, min: 4, max: 103 });
  });

  test.each([
    ["html is there", {}, "missing_required_field", "Missing `html` field."],
    ["html is text", { html: 5 }, "validation_error", "The `html` field must be a string."],
    [
      "blocks end in the html",
      { html: "a\n  {% if x %}" },
      "validation_error",
      "`html` field is not a valid template at line 2, column 3: tag",
    ],
    [
      "braces end in the subject",
      { html: "", subject: "{{ x" },
      "validation_error",
      "`subject` field is not a valid template at line 1, column 1",
    ],
    [
      "filters of the text are known",
      { html: "", text: "\n{{ x | nope: 1 }}" },
      "validation_error",
      "`text` field is not a valid template at line 2",
    ],
    ["files are left alone", { html: "{% include 'x' %}" }, "validation_error", 'tag "include" not found'],
    ["the subject is one line", { html: "", subject: "a\nb" }, "validation_error", "`subject`"],
    ["from is an address", { html: "", from: "nobody" }, "invalid_from_address", "`from`"],
    [
      "every reply_to is an address",
      { html: "", reply_to: ["a@x.com", "b"] },
      "validation_error",
      "`reply_to[1]`",
    ],
    ["the html is short enough", { html: "x".repeat(500_001) }, "validation_error", "`html`"],
    ["it is an object", [], "validation_error", "object"],
  ])("only if %s", async (_, body, name, message) => {
    const refused = await put("wrong", body);
    expect(refused).toMatchObject({ status: 422, body: { name, message: expect.stringContaining(message) } });
    expect((await ws.client.get("/templates/wrong")).status).toBe(404);
  });

  test.each([
    ["a UUID", randomUUID()],
    ["what begins with a dash", "-a"],
    ["two words", "a%20b"],
    ["129 letters", "a".repeat(129)],
    ["a foreign letter", "%C3%A9"],
  ])("but not under %s", async (_, externalId) => {
    expect(await put(externalId, { html: "" })).toMatchObject({
      status: 422,
      body: { name: "invalid_parameter" },
    });
  });
});

describe("a template is", () => {
  test("listed without its text, page by page", async () => {
    const own = await api.workspace();
    for (const name of ["a", "b", "c"]) await put(name, { html: "x", text: "y" }, own.client);
    const first = await own.client.get<Listed>("/templates?limit=2");
    expect(first.body.data.map((item) => item.external_id)).toEqual(["c", "b"]);
    expect(first.body.data[0]).not.toHaveProperty("html");
    expect(first.body.data[0]).not.toHaveProperty("text");
    const second = await own.client.get<Listed>(`/templates?limit=2&cursor=${first.body.next_cursor}`);
    expect(second.body).toMatchObject({ data: [{ external_id: "a" }], has_more: false, next_cursor: null });
    const back = await own.client.get<Listed>(`/templates?before=${second.body.data[0]?.id}&limit=1`);
    expect(back.body.data.map((item) => item.external_id)).toEqual(["b"]);
  });

  test("nobody else's", async () => {
    const { body } = await put("mine", { html: "x" });
    const other = await api.workspace();
    const absent = await other.client.get(`/templates/${UNKNOWN}`);
    expect(absent.status).toBe(404);
    for (const ref of ["mine", body.id]) {
      const answers = [
        await other.client.get(`/templates/${ref}`),
        await other.client.call("DELETE", `/templates/${ref}`),
        await other.client.call("PATCH", `/templates/${ref}`, { name: "theirs" }),
      ];
      for (const answer of answers) expect(answer).toMatchObject({ status: 404, body: absent.body });
      expect(
        (await other.client.post("/emails", mail({ html: undefined, template: { id: ref } }))).status,
      ).toBe(404);
    }
  });

  test("malformed by name a 422", async () => {
    expect(await ws.client.get("/templates/%20")).toMatchObject({
      status: 422,
      body: { name: "invalid_parameter" },
    });
  });

  test("written on paid plans only, and read, used and deleted on all", async () => {
    const free = await api.workspace("essentials");
    const { id } = (await put("kept", { html: "x", subject: "s", from: "a@example.com" }, free.client)).body;
    await api.keyring.changeWorkspace(free.id, { plan: "free" });
    const changes = [
      put("kept", { html: "y" }, free.client),
      free.client.post("/templates", { html: "y" }),
      free.client.call("PATCH", "/templates/kept", { html: "y" }),
      free.client.post("/templates/kept/duplicate"),
    ];
    for (const change of changes)
      expect(await change).toMatchObject({ status: 402, body: { name: "plan_required" } });
    expect((await free.client.get("/templates")).status).toBe(200);
    expect((await free.client.get("/templates/kept")).status).toBe(200);
    expect((await free.client.post("/emails", withTemplate("kept"))).status).toBe(200);
    expect((await free.client.call("DELETE", "/templates/kept")).body).toEqual({
      object: "template",
      id,
      deleted: true,
    });
  });

  test("copied under a name that is cut between characters", async () => {
    await put("long", { html: "x", name: "\u{1f4e8}".repeat(200) });
    const { id } = (await ws.client.post<{ id: string }>("/templates/long/duplicate")).body;
    const { name } = (await ws.client.get<Template>(`/templates/${id}`)).body;
    expect(name).toBe(`Copy of ${"\u{1f4e8}".repeat(192)}`);
  });

  test("for keys that may", async () => {
    const reader = (await ws.key(["templates:read"])).client;
    const writer = (await ws.key(["templates:write"])).client;
    const sender = (await ws.key(["emails:send"])).client;
    expect((await put("of-keys", { html: "x" }, writer)).status).toBe(201);
    expect((await writer.get("/templates/of-keys")).status).toBe(200);
    expect((await reader.get("/templates")).status).toBe(200);
    expect(await put("of-keys", { html: "x" }, reader)).toMatchObject({
      status: 403,
      body: { message: "This API key lacks the `templates:write` permission." },
    });
    expect(await reader.call("DELETE", "/templates/of-keys")).toMatchObject({ status: 403 });
    expect(await sender.get("/templates")).toMatchObject({
      status: 403,
      body: { message: "This API key lacks the `templates:read` permission." },
    });
  });
});

test("the description names each path once", async () => {
  const { paths } = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
    paths: Record<string, object>;
  };
  const shapes = Object.keys(paths).map((path) => path.replace(/\{\w+\}/g, "{}"));
  expect(new Set(shapes).size).toBe(shapes.length);
  expect(Object.keys(paths["/templates/{id_or_external_id}"] ?? {}).sort()).toEqual([
    "delete",
    "get",
    "patch",
    "put",
  ]);
});
