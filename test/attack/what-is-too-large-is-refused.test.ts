import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const CONTENT_BYTES_MAX = 2 * 1024 * 1024;
const JSON_BYTES_MAX = 16_384;

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const mail = { from: "a@example.com", to: "b@example.net", subject: "s" };
const refusal = (field: string) => ({
  status: 422,
  body: { name: "validation_error", message: expect.stringContaining(`\`${field}\``) },
});

describe("of a send", () => {
  test.each(["html", "text"])("%s", async (name) => {
    const fits = { ...mail, [name]: "é".repeat(CONTENT_BYTES_MAX / 2) };
    expect((await ws.client.post("/emails", fits)).status).toBe(200);
    const tooLarge = { ...mail, [name]: `${fits[name as "subject"]}x` };
    expect(await ws.client.post("/emails", tooLarge)).toMatchObject(refusal(name));
    expect(await ws.client.post("/emails/batch", [fits, tooLarge])).toMatchObject(refusal(`[1].${name}`));
  });

  test("headers", async () => {
    const headers = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`X-${n}`, "a".repeat(1_700)]));
    expect(await ws.client.post("/emails", { ...mail, text: "x", headers })).toMatchObject(
      refusal("headers"),
    );
  });

  test("variables of a template, as they are written in full", async () => {
    await ws.client.call("PUT", "/templates/one", { html: "{{ n }}", subject: "s", from: "a@example.com" });
    const sent = (n: unknown) =>
      ws.client.post("/emails", { to: "b@example.net", template: { id: "one", variables: { n } } });
    expect((await sent(1e308)).status).toBe(200);
    expect(await sent("x".repeat(JSON_BYTES_MAX))).toMatchObject(refusal("template.variables"));
    expect(await sent(Array(100).fill(1e308))).toMatchObject(refusal("template.variables"));
  });

  test("what a template writes", async () => {
    const html = `{% for i in (1..5) %}${"x".repeat(450_000)}{% endfor %}`;
    await ws.client.call("PUT", "/templates/large", { html, subject: "s", from: "a@example.com" });
    const answer = await ws.client.post("/emails", { to: "b@example.net", template: { id: "large" } });
    expect(answer).toMatchObject(refusal("template"));
    expect(answer.body).toMatchObject({ message: expect.stringContaining(`${CONTENT_BYTES_MAX} bytes`) });
  });
});

describe("numbers that grow where they are kept", () => {
  const grown: [string, string][] = [
    ["large", "1e308"],
    ["small", "1e-300"],
    ["negative", "-1.25e200"],
    ["endless", "1e131071"],
    ["endless and negative", "-1e400"],
  ];

  test.each(grown)("%s ones in the properties of a contact", async (_, number) => {
    const audience = await audienceId();
    const path = `/audiences/${audience}/contacts`;
    const many = JSON.stringify({ email: "a@example.com", properties: { n: [] } }).replace(
      "[]",
      `[${Array(100).fill(number).join(",")}]`,
    );
    expect(await ws.client.call("POST", path, many)).toMatchObject(refusal("properties"));
    expect((await ws.client.call("GET", `${path}/a@example.com`)).status).toBe(404);
  });

  test("a few at a time do not pass either", async () => {
    const path = `/audiences/${await audienceId()}/contacts`;
    const answers: number[] = [];
    for (let n = 0; n < 12; n++) {
      const properties = { [`n${n}`]: Array(5).fill(1e308) };
      answers.push((await ws.client.post(path, { email: "b@example.com", properties })).status);
    }
    expect(answers.slice(0, 10)).toEqual(Array(10).fill(201));
    expect(answers.slice(10)).toEqual([422, 422]);
    const [row] = await api.sql`
      select octet_length(properties::text) as bytes from contact where workspace_id = ${ws.id} and email = 'b@example.com'`;
    expect(Number(row?.bytes)).toBeLessThan(1.2 * JSON_BYTES_MAX);
  });

  test.each(grown)("%s ones in the properties of an event", async (_, number) => {
    const audience = await audienceId();
    await ws.client.post(`/audiences/${audience}/contacts`, { email: "c@example.com" });
    const event = JSON.stringify({
      audience_id: audience,
      email: "c@example.com",
      name: "n",
      properties: { n: [] },
    });
    const many = event.replace("[]", `[${Array(100).fill(number).join(",")}]`);
    expect(await ws.client.call("POST", "/events", many)).toMatchObject(refusal("properties"));
  });
});

async function audienceId(): Promise<string> {
  return (await ws.client.post<{ id: string }>("/audiences", { name: "a" })).body.id;
}
