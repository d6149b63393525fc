import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

/** A request as it is on the wire, without what fetch adds. */
async function raw(method: string, path: string, headers: Record<string, string>, body?: string) {
  const response = await fetch(`${api.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Refusal };
}

/** To bytes that fetch would not send. */
async function answerTo(port: number, host: string, bytes: string): Promise<Refusal> {
  const socket = connect(port, host);
  socket.end(bytes);
  let answer = "";
  for await (const chunk of socket) answer += chunk;
  return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")));
}

describe("before anything else, who is asking", () => {
  test("no key and an empty one are missing, anything else that is no key of ours is invalid", async () => {
    const missing = await raw("GET", "/api/v1/nowhere", {});
    expect(missing.body).toMatchObject({ statusCode: 401, name: "missing_api_key" });
    expect(missing.headers.get("www-authenticate")).toBe("Bearer");
    expect((await raw("GET", "/api/v1/emails", { authorization: " " })).body.name).toBe("missing_api_key");
    const typo = ws.client.key.slice(0, -1) + (ws.client.key.endsWith("A") ? "B" : "A");
    for (const authorization of [
      "Bearer",
      "Basic abc",
      "Bearer a b",
      `Bearer ${typo}`,
      `Bearer ${ws.client.key} x`,
      ws.client.key,
    ])
      expect((await raw("GET", "/api/v1/emails", { authorization })).body.name, authorization).toBe(
        "invalid_api_key",
      );
    expect((await raw("GET", "/api/v1/emails", { authorization: `bEaReR ${ws.client.key}` })).status).toBe(
      200,
    );
  });
  test("of two keys neither is taken", async () => {
    const authorization = `authorization: Bearer ${ws.client.key}\r\n`;
    const other = "authorization: Bearer pr_live_other\r\n";
    const { hostname, port } = new URL(api.url);
    for (const both of [authorization + other, other + authorization, authorization + authorization]) {
      const { statusCode, name } = await answerTo(
        Number(port),
        hostname,
        `GET /api/v1/emails HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${both}\r\n`,
      );
      expect([statusCode, name]).toEqual([401, "invalid_api_key"]);
    }
  });
  test("the description of the API is open to a GET alone", async () => {
    for (const path of ["/api/v1/openapi.json", "/api/v1/openapi.json/", "/api//v1/openapi.json"])
      expect((await fetch(`${api.url}${path}`)).status, path).toBe(200);
    for (const method of ["POST", "DELETE"])
      expect((await raw(method, "/api/v1/openapi.json", {})).body.name).toBe("missing_api_key");
    expect((await raw("OPTIONS", "/api/v1/openapi.json", {})).body.name).toBe("browser_request_blocked");
    const authorization = `Bearer ${ws.client.key}`;
    expect((await raw("POST", "/api/v1/openapi.json", { authorization })).status).toBe(404);
  });
});

describe("then what is asked for", () => {
  test("an unknown endpoint is 404, a wrong method 405 and names the right ones", async () => {
    expect((await ws.client.get<Refusal>("/nowhere")).body).toMatchObject({
      statusCode: 404,
      name: "not_found",
    });
    const answer = await ws.client.call<Refusal>("DELETE", "/emails");
    expect(answer.body).toMatchObject({ statusCode: 405, name: "method_not_allowed" });
    expect(answer.headers.get("allow")?.split(", ").sort()).toEqual(["GET", "POST"]);
  });
  test("slashes are forgiven", async () => {
    expect((await ws.client.get("//emails/")).status).toBe(200);
  });
  test("also in front, as a base url that ends with one leaves them", async () => {
    const authorization = `Bearer ${ws.client.key}`;
    for (const path of ["//api/v1/emails", "/api//v1//emails", "///api/v1/emails/"])
      expect((await raw("GET", path, { authorization })).status, path).toBe(200);
    expect((await raw("GET", "//api/v1/emails", {})).body.name).toBe("missing_api_key");
  });
  test("a key without the permission is told which one it lacks, before its body is looked at", async () => {
    const { client } = await ws.key(["contacts:read"]);
    const answer = await client.post<Refusal>("/emails", "{");
    expect(answer.body).toEqual({
      statusCode: 403,
      name: "restricted_api_key",
      message: "This API key lacks the `emails:send` permission.",
    });
  });
});

describe("then the body", () => {
  test("it must be JSON by type and by content", async () => {
    expect(
      (await ws.client.post<Refusal>("/emails", "{}", { "content-type": "text/plain" })).body.statusCode,
    ).toBe(415);
    expect(
      (await ws.client.post<Refusal>("/emails", "{}", { "content-encoding": "gzip" })).body.statusCode,
    ).toBe(415);
    expect((await ws.client.post<Refusal>("/emails", '{"from":')).body).toMatchObject({
      statusCode: 400,
      name: "validation_error",
    });
    expect((await ws.client.post<Refusal>("/emails", "[]")).body).toMatchObject({
      statusCode: 422,
      name: "validation_error",
    });
    expect(
      (await ws.client.post("/emails", mail(), { "content-type": "application/json; charset=utf-8" })).status,
    ).toBe(200);
    expect(
      (await ws.client.post("/emails", mail(), { "content-type": "application/json\t;charset=utf-8" }))
        .status,
    ).toBe(200);
  });
  test("nothing that cannot be stored, and nothing too deep", async () => {
    const deep = `${'{"a":'.repeat(40)}1${"}".repeat(40)}`;
    for (const body of [deep, JSON.stringify(mail({ subject: "a\u0000b" })), '{"from":"\\ud800"}'])
      expect((await ws.client.post<Refusal>("/emails", body)).body.statusCode, body.slice(0, 40)).toBe(422);
  });
  test("a missing field is named, a wrong one with its path", async () => {
    const name = async (body: unknown, path = "/emails") => (await ws.client.post<Refusal>(path, body)).body;
    expect(await name(undefined)).toMatchObject({
      name: "missing_required_field",
      message: "Missing `from` field.",
    });
    expect(await name(mail({ to: undefined }))).toMatchObject({
      name: "missing_required_field",
      message: "Missing `to` field.",
    });
    expect(await name(mail({ to: null }))).toMatchObject({ name: "missing_required_field" });
    expect(await name(mail({ html: undefined }))).toMatchObject({ name: "missing_required_field" });
    expect((await name([mail(), mail({ to: ["a@x.example", 7] })], "/emails/batch")).message).toContain(
      "`[1].to[1]`",
    );
    expect(
      (await name([mail(), mail({ to: ["a@x.example", "nobody"] })], "/emails/batch")).message,
    ).toContain("`[1].to[1]`");
    expect(await name(mail({ from: "nobody" }))).toMatchObject({
      name: "invalid_from_address",
      statusCode: 422,
    });
    expect(await name(mail({ headers: { "X-A": "b\r\nBcc: c@x.example" } }))).toMatchObject({
      name: "validation_error",
    });
    expect(await name(mail({ headers: { "Content-Type": "text/html" } }))).toMatchObject({
      name: "validation_error",
    });
    expect(await name(mail({ attachments: [{ filename: "a", path: "http://x.example" }] }))).toMatchObject({
      statusCode: 422,
    });
    expect(await name(mail({ attachments: [{ filename: "a", content: "%%%" }] }))).toMatchObject({
      name: "invalid_attachment",
    });
    expect(await name(mail({ attachments: [{ content: "aGk=" }] }))).toMatchObject({
      name: "missing_required_field",
    });
    expect(await name(mail({ topic_id: "x" }))).toMatchObject({ name: "validation_error" });
    expect(await name(mail({ scheduled_at: "2026-01-01T00:00:00" }))).toMatchObject({
      name: "validation_error",
    });
  });
  test("a body of `null` is no object, also where no field is required", async () => {
    const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "Readers" });
    const contacts = `/audiences/${audience.id}/contacts`;
    await ws.client.post(contacts, { email: "ann@x.example" });
    const asked = [
      ["PATCH", `${contacts}/ann@x.example`],
      ["POST", `${contacts}/ann@x.example/tags`],
      ["POST", contacts],
      ["POST", "/emails"],
      ["POST", "/events"],
      ["PUT", "/templates/of-null"],
    ] as const;
    for (const [method, path] of asked)
      expect((await ws.client.call<Refusal>(method, path, "null")).body, `${method} ${path}`).toMatchObject({
        statusCode: 422,
        name: "validation_error",
      });
  });
  test("no body is a missing one where it must be an array or have a field of several", async () => {
    const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "Readers" });
    const contacts = `/audiences/${audience.id}/contacts`;
    await ws.client.post(contacts, { email: "ann@x.example" });
    for (const path of ["/emails/batch", "/feedback", `${contacts}/ann@x.example/tags`])
      expect((await ws.client.post<Refusal>(path)).body, path).toMatchObject({
        statusCode: 422,
        name: "missing_required_field",
      });
  });
  test("a day has no 25th hour", async () => {
    for (const time of ["2026-01-01T24:00:00Z", "2026-01-01T00:00:00+24:00"])
      expect(
        (await ws.client.post<Refusal>("/emails", mail({ scheduled_at: time }))).body,
        time,
      ).toMatchObject({
        statusCode: 422,
        name: "validation_error",
      });
  });
  test("batches hold 1 to 100 e-mails", async () => {
    for (const count of [0, 101])
      expect((await ws.client.post<Refusal>("/emails/batch", Array(count).fill(mail()))).body.name).toBe(
        "validation_error",
      );
  });
});

test("every answer carries an id of ours, every authenticated one the rate headers", async () => {
  const answer = await ws.client.get<Refusal>("/emails/nope", { "x-request-id": "mine" });
  expect(answer.body).toMatchObject({ statusCode: 422, name: "invalid_parameter" });
  expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  for (const prefix of ["x-ratelimit", "ratelimit"])
    for (const part of ["limit", "remaining", "reset"])
      expect(answer.headers.get(`${prefix}-${part}`)).toMatch(/^\d+$/);
  expect(answer.headers.get("retry-after")).toBeNull();
  expect((await raw("GET", "/api/v1/emails", {})).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
});

test("headers may have 16 KB", async () => {
  expect((await ws.client.get("/emails", { "x-long": "a".repeat(12_000) })).status).toBe(200);
});
