/** Usage, requests and attachments, as the official client reads them. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("free");
});
afterAll(() => api.stop());

type Log = { id: string; endpoint: string; method: string; response_status: number; api_key_id: string };

test("usage counts what was accepted against quota and caps", async () => {
  await ws.client.post("/emails", mail({ to: ["a@example.net", "b@example.net"], cc: "c@example.net" }));
  await ws.client.post("/contacts", { email: "a@example.net" });
  const { status, body } = await ws.client.get("/usage");
  expect(status).toBe(200);
  expect(body).toMatchObject({
    object: "usage",
    plan: "free",
    emails: {
      daily: { used: 2, limit: 100, sent: 2, received: 0 },
      monthly: { used: 2, limit: 1_000, resets_at: expect.stringMatching(/-01T00:00:00\.000Z$/) },
    },
    caps: { hour: { used: 3 }, day: { used: 3 }, waiting: 0 },
    contacts: { used: 1, limit: null },
    segments: { used: 1, limit: null },
    domains: { used: 0 },
    rate_limit: { duration: "1s" },
  });
});

test("requests are listed with key, route, status and time, and without addresses", async () => {
  const fresh = await api.workspace();
  const { id: keyId, client } = await fresh.key(["contacts:write"]);
  await client.post("/contacts", { email: "ann@example.net" });
  await fresh.client.get("/contacts/ann@example.net");
  await client.get("/emails/none");
  await client.get("/nothing/here?secret=1");
  const wanted = [
    "GET (unknown) 404",
    "GET /emails/{id} 403",
    "GET /contacts/{email_or_id} 200",
    "POST /contacts 201",
  ];
  let logs: Log[] = [];
  const seen = async () => {
    const { data } = (await fresh.client.get<{ data: Log[] }>("/logs?limit=100")).body;
    logs = data.filter(({ endpoint }) => endpoint !== "/logs");
    return logs.length;
  };
  // not at once again and again: each look is a request that is logged too, and a page has 100
  await expect.poll(seen, { timeout: 20_000, interval: 500 }).toBe(wanted.length);
  const told = logs.map(
    ({ method, endpoint, response_status }) => `${method} ${endpoint} ${response_status}`,
  );
  expect(told).toEqual(wanted);
  expect(logs.map(({ api_key_id }) => api_key_id)).toEqual([keyId, keyId, fresh.keyId, keyId]);
  expect(JSON.stringify(logs)).not.toMatch(/ann|secret/);
  const [last] = logs as [Log];
  expect((await fresh.client.get(`/logs/${last.id}`)).body).toMatchObject({ object: "log", ...last });
  expect((await ws.client.get(`/logs/${last.id}`)).status).toBe(404);
});

test("attachments are listed, and their links lead to the contents for a while", async () => {
  const content = Buffer.alloc(900_000, "0123456789abcdef");
  const attachments = [
    { filename: 'réport "1".html', content: content.toString("base64"), content_type: "text/html" },
    { filename: "logo.png", content: Buffer.from("png").toString("base64"), content_id: "logo" },
  ];
  const { id } = (await ws.client.post<{ id: string }>("/emails", mail({ attachments }))).body;
  type Attachment = { id: string; filename: string; size: number; download_url: string };
  const path = `/emails/${id}/attachments`;
  const { data } = (await ws.client.get<{ data: Attachment[]; has_more: boolean }>(path)).body;
  expect(data).toMatchObject([
    {
      filename: 'réport "1".html',
      size: 900_000,
      content_type: "text/html",
      content_disposition: "attachment",
    },
    { filename: "logo.png", size: 3, content_disposition: "inline", content_id: "logo" },
  ]);
  const [first, second] = data as [Attachment, Attachment];
  expect((await ws.client.get(`${path}?limit=1`)).body).toMatchObject({
    has_more: true,
    data: [{ id: first.id }],
  });
  expect((await ws.client.get(`${path}?after=${first.id}`)).body).toMatchObject({
    data: [{ id: second.id }],
  });
  expect((await ws.client.get(`${path}?before=${second.id}`)).body).toMatchObject({
    data: [{ id: first.id }],
  });
  const one = (await ws.client.get<Attachment>(`${path}/${first.id}`)).body;
  expect(one).toMatchObject({ object: "attachment", id: first.id });

  const here = (url: string) => url.replace(/^https:\/\/[^/]+/, api.url);
  const got = await fetch(here(one.download_url));
  expect(got.status).toBe(200);
  expect(Buffer.from(await got.arrayBuffer()).equals(content)).toBe(true);
  expect(got.headers.get("content-type")).toBe("application/octet-stream");
  expect(got.headers.get("content-disposition")).toContain('attachment; filename="r_port _1_.html"');
  const forged = one.download_url.replace(/.(?=.{9}$)/, (sign) => (sign === "A" ? "B" : "A"));
  for (const url of [`${forged}`, `${one.download_url}x`, one.download_url.replace(/[^/]+$/, "")])
    expect((await fetch(here(url))).status).toBe(404);
  expect((await fetch(here(one.download_url), { method: "POST" })).status).toBe(404);
});

test("an event is sent without an audience, as the official client does", async () => {
  const pro = await api.workspace();
  const { id } = (await pro.client.post<{ id: string }>("/contacts", { email: "ann@example.net" })).body;
  for (const who of [{ contact_id: id }, { email: "ANN@example.net" }]) {
    const body = { ...who, event: "signed.up", payload: { plan: "pro" } };
    expect(await pro.client.post("/events/send", body)).toMatchObject({
      status: 202,
      body: { object: "event", event: "signed.up", id: expect.stringMatching(/^evt_/), contact_id: id },
    });
  }
  const headers = { "idempotency-key": "once" };
  const body = { email: "ann@example.net", event: "signed.up" };
  const first = await pro.client.post("/events/send", body, headers);
  expect((await pro.client.post("/events/send", body, headers)).body).toEqual(first.body);
  for (const [wrong, status] of [
    [{ event: "signed.up" }, 422],
    [{ event: "signed.up", email: "ann@example.net", contact_id: id }, 422],
    [{ event: "signed up", email: "ann@example.net" }, 422],
    [{ email: "ann@example.net" }, 422],
    [{ event: "signed.up", email: "bob@example.net" }, 404],
    [{ event: "signed.up", contact_id: pro.id }, 404],
  ] as const)
    expect((await pro.client.post<Refusal>("/events/send", wrong)).status, JSON.stringify(wrong)).toBe(
      status,
    );
  expect((await ws.client.post("/events/send", body)).status).toBe(402);
});
