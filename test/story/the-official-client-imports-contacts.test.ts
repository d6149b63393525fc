import { Resend } from "resend";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { parseForm } from "../../src/api/form.ts";
import { newId } from "../../src/ids.ts";
import { insertImport, noteImport } from "../../src/record/contacts/imports.ts";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let ahead = 0;
const api: TestApi = await testApi({ clock: { now: () => Date.now() + ahead, given: () => 0 } });
let ws: TestWorkspace;
let resend: Resend;
beforeEach(async () => {
  ws = await api.workspace();
  resend = clientOf(ws.client.key);
});
afterAll(() => api.stop());

function clientOf(key: string): Resend {
  return new Resend(key, { baseUrl: `${api.url}/api/v1` });
}

type Imported = NonNullable<Awaited<ReturnType<Resend["contacts"]["imports"]["get"]>>["data"]>;

async function ended(id = ""): Promise<Imported> {
  for (;;) {
    const { data, error } = await resend.contacts.imports.get(id);
    expect(error).toBeNull();
    if (data?.status === "completed" || data?.status === "failed") return data;
  }
}

const csv = (...lines: string[]) => new Blob([lines.join("\n")], { type: "text/csv" });

describe("an import", () => {
  test("adds and updates contacts of the default audience, and counts its rows", async () => {
    await resend.contacts.create({ email: "known@example.net", firstName: "Old" });
    const { data, error } = await resend.contacts.imports.create({
      file: csv(
        "email,first_name,plan",
        "ann@example.net,Ann,pro",
        "known@example.net,New,",
        "nonsense,No,",
        "bob@example.net,Bob,free",
      ),
    });
    expect(error).toBeNull();
    expect(data).toEqual({ object: "contact_import", id: expect.any(String) });
    const done = await ended(data?.id);
    expect(done).toMatchObject({
      object: "contact_import",
      status: "completed",
      counts: { total: 4, created: 2, updated: 1, skipped: 0, failed: 1 },
    });
    expect((await resend.contacts.get("known@example.net")).data?.first_name).toBe("New");
    expect((await resend.contacts.get("ann@example.net")).data?.properties).toEqual({ plan: "pro" });
    const { data: listed } = await resend.contacts.imports.list({ status: "completed" });
    expect(listed?.data).toEqual([done]);
    expect((await resend.contacts.imports.list({ status: "queued" })).data?.data).toEqual([]);
  });

  test("reads the columns that are named, with the types of properties, into one audience", async () => {
    const { data: audience } = await resend.segments.create({ name: "People" });
    const { data } = await resend.contacts.imports.create({
      file: csv("Mail,Given,Age,Vip,Note", "ann@example.net,Ann,41,TRUE,secret", "bob@example.net,Bob,old,,"),
      columnMap: {
        email: "Mail",
        firstName: "Given",
        properties: { age: { column: "Age", type: "number" }, vip: { column: "Vip", type: "boolean" } },
      },
      segments: [{ id: audience?.id ?? "" }],
    });
    expect((await ended(data?.id)).counts).toMatchObject({ total: 2, created: 1, failed: 1 });
    const { body } = await ws.client.get(`/audiences/${audience?.id}/contacts/ann@example.net`);
    expect(body).toMatchObject({ first_name: "Ann", properties: { age: 41, vip: true } });
  });

  test("leaves known contacts as they are, if asked to", async () => {
    await resend.contacts.create({ email: "known@example.net", firstName: "Old" });
    const { data } = await resend.contacts.imports.create({
      file: csv("email,first_name", "known@example.net,New", "ann@example.net,Ann"),
      onConflict: "skip",
    });
    expect((await ended(data?.id)).counts).toEqual({
      ...{ total: 2, created: 1, updated: 0, skipped: 1, failed: 0 },
    });
    expect((await resend.contacts.get("known@example.net")).data?.first_name).toBe("Old");
  });

  test("ignores what a map of columns says besides", async () => {
    const form = new FormData();
    form.set("file", csv("email,Tags", "ann@example.net,vip"));
    form.set("column_map", JSON.stringify({ email: "email", tags: "Tags", foo: 12 }));
    const answer = await fetch(`${api.url}/api/v1/contacts/imports`, {
      ...{ method: "POST", body: form, headers: { authorization: `Bearer ${ws.client.key}` } },
    });
    const { id } = (await answer.json()) as { id: string };
    expect(await ended(id)).toMatchObject({ status: "completed", counts: { created: 1 } });
    const { body } = await ws.client.get("/contacts/ann@example.net");
    expect(body).toMatchObject({ tags: [], properties: {} });
  });

  test("several of one workspace come one after the other", async () => {
    const files = Array.from({ length: 5 }, (_, n) => csv("email", `one${n}@example.net`));
    const made = await Promise.all(files.map((file) => resend.contacts.imports.create({ file })));
    for (const { data } of made) expect((await ended(data?.id)).counts.created).toBe(1);
  });

  test("has failed when its process is not heard of for a minute", async () => {
    const [id, audienceId, now] = [newId(Date.now()), newId(Date.now()), new Date()];
    const rows = { total: 1, created: 1, updated: 0, skipped: 0, failed: 0 };
    await insertImport(api.sql, { workspaceId: ws.id, audienceId, id }, now);
    await noteImport(api.sql, { workspaceId: ws.id, id }, "in_progress", rows, now);
    expect((await resend.contacts.imports.get(id)).data?.status).toBe("in_progress");
    ahead = 61_000;
    expect((await resend.contacts.imports.get(id)).data?.status).toBe("failed");
    ahead = 0;
  });

  test("is shown to keys that may read the contacts of its audience", async () => {
    const { data: audience } = await resend.segments.create({ name: "People" });
    const { data: other } = await resend.segments.create({ name: "Others" });
    const { data } = await resend.contacts.imports.create({
      file: csv("email", "ann@example.net"),
      segments: [{ id: audience?.id ?? "" }],
    });
    await ended(data?.id);
    const readerOf = async (id = "") => clientOf((await ws.key(["contacts:read"], [id])).client.key);
    expect((await (await readerOf(audience?.id)).contacts.imports.get(data?.id ?? "")).error).toBeNull();
    const stranger = await readerOf(other?.id);
    expect((await stranger.contacts.imports.get(data?.id ?? "")).error?.name).toBe("not_found");
    expect((await stranger.contacts.imports.list()).data?.data).toEqual([]);
  });
});

describe("is refused", () => {
  const file = csv("email", "ann@example.net");
  const ID = "01890000-0000-7000-8000-000000000000";

  test.each([
    [{ topics: [{ id: ID, subscription: "opt_in" as const }] }, "validation_error", "`topics`"],
    [{ segments: [{ id: ID }, { id: ID }] }, "validation_error", "`segments`"],
    [{ segments: [{ id: ID }] }, "not_found", "no audience"],
    [{ columnMap: { properties: { tags: { column: "a" } } } }, "validation_error", "`tags`"],
    [{ columnMap: { properties: { mail: { column: "email" } } } }, "validation_error", "`email` only once"],
    [
      { columnMap: { firstName: "a", properties: { b: { column: "a" } } } },
      "validation_error",
      "`a` only once",
    ],
    [{ onConflict: "erase" as never }, "validation_error", "`on_conflict`"],
  ])("%j", async (options, name, words) => {
    const { error } = await resend.contacts.imports.create({ file, ...options });
    expect(error).toMatchObject({ name, message: expect.stringContaining(words) });
  });

  test.each([
    [csv(""), {}, "the file is empty"],
    [csv("name", "Ann"), {}, "the first line must name the columns, one of them `email`"],
    [csv("email;name", "ann@example.net;Ann"), {}, "semicolons"],
    [csv("email,a\0b", "ann@example.net,1"), {}, "NUL"],
    [csv("email,a,a", "ann@example.net,1,2"), {}, "the column `a` appears twice"],
    [file, { columnMap: { email: "Mail" } }, "one of them `Mail`"],
    [
      file,
      { columnMap: { email: "email", firstName: "Given" } },
      "there is no column `Given`, which `column_map` names",
    ],
  ])("a file whose first line cannot be used, and says why: %#", async (given, options, words) => {
    const { error } = await resend.contacts.imports.create({ file: given, ...options });
    expect(error).toMatchObject({ name: "validation_error", message: expect.stringContaining(words) });
    expect(error?.message).toContain("`file`");
    expect((await resend.contacts.imports.list()).data?.data).toEqual([]);
    expect(api.faults).toEqual([]);
  });

  test("what is no form, too large, or without a file", async () => {
    const post = async (type: string, body: string) => {
      const headers = { "content-type": type };
      const answer = await ws.client.call<Refusal>("POST", "/contacts/imports", body, headers);
      return [answer.status, answer.body.name];
    };
    expect(await post("application/json", "{}")).toEqual([415, "validation_error"]);
    expect(await post("multipart/form-data", "{}")).toEqual([415, "validation_error"]);
    expect(await post("multipart/form-data; boundary=b", "no form")).toEqual([400, "validation_error"]);
    const field = (name: string, value: string) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n--b--`;
    expect(await post("multipart/form-data; boundary=b", field("other", "x"))).toEqual([
      422,
      "missing_required_field",
    ]);
    const large = field("file", `email\n${"a".repeat(1024 * 1024)}`);
    expect(await post("multipart/form-data; boundary=b", large)).toEqual([413, "validation_error"]);
  });
});

test("a form is read as it came, and a broken one is none", () => {
  const body = (text: string) => Buffer.from(text.replaceAll("\n", "\r\n"), "latin1");
  const head = 'content-disposition: form-data; name="a"; filename="x.csv"\ncontent-type: text/csv';
  const whole = parseForm("b", body(`--b\n${head}\n\n1\n--\n\xff2\n--b--\n`));
  expect(whole?.get("a")?.toString("latin1")).toBe("1\r\n--\r\n\xff2");
  for (const broken of [
    "",
    "--b",
    "--b--x".slice(0, 4),
    `--b\n${head}\n\n1\n`,
    `--b\n${head}\n\n1\n--bx`,
    `--b\n${head}\n\n1\n--b\n${head}\n\n2\n--b--`,
    "--b\ncontent-disposition: form-data\n\n1\n--b--",
    `--b\n${Array.from({ length: 30 }, (_, n) => `content-disposition: form-data; name="${n}"\n\n1\n--b\n`).join("")}`,
  ])
    expect(parseForm("b", body(broken)), broken.slice(0, 40)).toBeNull();
});
