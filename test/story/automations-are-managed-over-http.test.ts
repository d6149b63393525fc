/** Automations as the official client writes them, and as documents of this engine. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
let audience: string;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  audience = (await ws.client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
  await ws.client.call("PUT", "/templates/welcome", {
    html: "<p>Hi</p>",
    from: "Acme <hi@example.com>",
    subject: "Hi",
  });
});
afterAll(() => api.stop());

type Run = { id: string; status: string; steps?: unknown[] };
type Step = { key: string; type: string; config: Record<string, unknown> };
type Whole = {
  name: string;
  status: string;
  version: number;
  steps: Step[];
  connections: { from: string; to: string; type: string }[];
  document: { steps: unknown[]; audience_id: string };
};

/** As the official client sends it. */
const GRAPH = {
  steps: [
    { key: "start", type: "trigger", config: { event_name: "signed.up" } },
    { key: "wait", type: "delay", config: { duration: "2 hours" } },
    {
      key: "vip",
      type: "condition",
      config: { type: "rule", field: "event.plan", operator: "eq", value: "pro" },
    },
    { key: "mail", type: "send_email", config: { template: { id: "welcome" }, subject: "Welcome" } },
    { key: "end", type: "delay", config: { duration: "1 day" } },
  ],
  connections: [
    { from: "start", to: "wait" },
    { from: "wait", to: "vip" },
    { from: "vip", to: "mail", type: "condition_met" },
    { from: "vip", to: "end", type: "condition_not_met" },
    { from: "mail", to: "end" },
  ],
};

let made = 0;
async function create(body: object): Promise<string> {
  const answer = await ws.client.post<{ id: string }>("/automations", {
    name: `Automation ${++made}`,
    ...body,
  });
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201, body: { object: "automation" } });
  return answer.body.id;
}
const get = async (id: string) => (await ws.client.get<Whole>(`/automations/${id}`)).body;

describe("the official client's steps", () => {
  test("become a document, and are shown as steps and connections again", async () => {
    const id = await create(GRAPH);
    const whole = await get(id);
    expect(whole).toMatchObject({
      object: "automation",
      id,
      status: "disabled",
      version: 1,
      event: "signed.up",
    });
    expect(whole.document.steps).toEqual([
      { wait: "2h" },
      {
        split: [
          {
            if: [{ field: "event.properties.plan", eq: "pro" }],
            // biome-ignore lint/suspicious/noThenProperty: the word of the document
            then: [{ send: { template: "welcome", subject: "Welcome" } }, { wait: "1d" }],
          },
          { else: [{ wait: "1d" }] },
        ],
      },
    ]);
    expect(whole.steps.map(({ type }) => type)).toEqual([
      ...["trigger", "delay", "condition", "send_email", "delay", "delay"],
    ]);
    expect(whole.connections).toContainEqual({ from: "trigger", to: "steps[0]", type: "default" });
    expect(whole.connections).toContainEqual({
      from: "steps[1]",
      to: "steps[1][0][0]",
      type: "condition_met",
    });
  });

  test.each([
    [{ key: "a", type: "contact_delete", config: {} }, "`steps[1].type`"],
    [{ key: "a", type: "delay", config: { duration: "soon" } }, "`steps[1].config.duration`"],
    [{ key: "a", type: "send_email", config: {} }, "`steps[1].config.template.id`"],
    [{ key: "start", type: "delay", config: { duration: "1h" } }, "`steps`"],
  ])("%j is refused with its place", async (step, place) => {
    const steps = [GRAPH.steps[0], step];
    const connections = [{ from: "start", to: "a" }];
    const { status, body } = await ws.client.post<Refusal>("/automations", { name: "x", steps, connections });
    expect(status).toBe(422);
    expect(body.message).toContain(place);
  });

  test("that go round in a circle are refused", async () => {
    const connections = [...GRAPH.connections, { from: "end", to: "wait" }];
    const { body } = await ws.client.post<Refusal>("/automations", { name: "x", ...GRAPH, connections });
    expect(body).toMatchObject({
      statusCode: 422,
      message: "The `connections` field must not lead back to `wait`.",
    });
  });
});

describe("an automation", () => {
  const plain = () => ({ audience_id: audience, event: "ordered", steps: [{ wait: "1d" }] });

  test("starts runs while it is enabled, and its runs are shown and end", async () => {
    const id = await create(plain());
    const { id: contact } = (
      await ws.client.post<{ id: string }>("/contacts", { email: "ann@example.net", audience_id: audience })
    ).body;
    const track = () => ws.client.post("/events/send", { contact_id: contact, event: "ordered" });
    await track();
    const runs = async (query = "") =>
      (await ws.client.get<{ data: Run[] }>(`/automations/${id}/runs${query}`)).body.data;
    const [run] = (await runs()) as [Run];
    expect(run).toMatchObject({
      ...{ status: "running", completed_at: null },
      ...{ contact_id: contact, contact_email: "ann@example.net" },
    });
    expect((await ws.client.get<Run>(`/automations/${id}/runs/${run.id}`)).body).toMatchObject({
      object: "automation_run",
      id: run.id,
      steps: [],
    });
    expect(await runs("?status=completed,failed")).toEqual([]);
    expect(await runs("?status=completed,running")).toHaveLength(1);
    expect((await ws.client.get(`/automations/${id}/runs?status=open`)).status).toBe(422);

    await ws.client.call("PATCH", `/automations/${id}`, { status: "disabled" });
    await track();
    expect(await runs()).toHaveLength(1);
    expect((await ws.client.post(`/automations/${id}/stop`)).body).toEqual({
      object: "automation",
      id,
      status: "disabled",
    });
    expect(await runs()).toMatchObject([{ status: "cancelled" }]);
  });

  test("is renamed, changed, copied, listed and deleted", async () => {
    const id = await create(plain());
    const name = `Renamed ${++made}`;
    await ws.client.call("PATCH", `/automations/${id}`, { name });
    await ws.client.call("PATCH", `/automations/${id}`, { steps: [{ wait: "2d" }] });
    expect(await get(id)).toMatchObject({ name, version: 2, document: { steps: [{ wait: "2d" }] } });
    const copy = (await ws.client.post<{ id: string }>(`/automations/${id}/duplicate`)).body.id;
    expect(await get(copy)).toMatchObject({ name: `Copy of ${name}`, status: "disabled" });
    expect((await ws.client.post(`/automations/${id}/duplicate`)).status).toBe(201);
    const long = await create(plain());
    await ws.client.call("PATCH", `/automations/${long}`, { name: "\u{1f4e8}".repeat(200) });
    const cut = (await ws.client.post<{ id: string }>(`/automations/${long}/duplicate`)).body.id;
    expect(await get(cut)).toMatchObject({ name: `Copy of ${"\u{1f4e8}".repeat(192)}` });
    const listed = async (query: string) =>
      (await ws.client.get<{ data: { id: string }[] }>(`/automations?limit=100${query}`)).body.data.map(
        ({ id }) => id,
      );
    expect(await listed("&status=enabled")).toContain(id);
    expect(await listed("&status=disabled")).toContain(copy);
    expect(await listed("&status=disabled")).not.toContain(id);
    expect((await ws.client.call("DELETE", `/automations/${id}`)).body).toEqual({
      object: "automation",
      id,
      deleted: true,
    });
    expect((await ws.client.get(`/automations/${id}`)).status).toBe(404);
  });

  test("is not renamed by a change that is refused", async () => {
    const id = await create(plain());
    const { name } = await get(id);
    for (const wrong of [
      { steps: [{ wait: "soon" }] },
      { audience_id: "x" },
      { audience_id: randomUUID() },
    ]) {
      const changed = await ws.client.call("PATCH", `/automations/${id}`, {
        name: `Never ${++made}`,
        ...wrong,
      });
      expect(changed.status).toBeGreaterThanOrEqual(400);
      expect(await get(id)).toMatchObject({ name, version: 1 });
    }
  });

  test("is changed only in the version that was read, where that is asked", async () => {
    const id = await create(plain());
    const patch = (body: object) => ws.client.call<Refusal>("PATCH", `/automations/${id}`, body);
    expect(await patch({ steps: [{ wait: "2d" }], if_version: 1 })).toMatchObject({ status: 200 });
    for (const late of [{ steps: [{ wait: "3d" }] }, { status: "disabled" }, { name: `Late ${++made}` }])
      expect(await patch({ ...late, if_version: 1 })).toMatchObject({
        status: 409,
        body: { name: "version_conflict" },
      });
    expect(await get(id)).toMatchObject({ version: 2, document: { steps: [{ wait: "2d" }] } });
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, n) => patch({ steps: [{ wait: `${n + 4}d` }], if_version: 2 })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(5).fill(409)]);
    expect((await patch({ steps: [{ wait: "9d" }], if_versoin: 3 })).status).toBe(422);
  });

  test("of a name that is taken is refused", async () => {
    const name = `Taken ${++made}`;
    await create({ ...plain(), name });
    const other = await create(plain());
    expect((await ws.client.post("/automations", { ...plain(), name })).status).toBe(422);
    expect((await ws.client.call("PATCH", `/automations/${other}`, { name })).status).toBe(422);
  });

  test.each([
    [{}, "missing_required_field"],
    [{ name: "A", steps: [] }, "missing_required_field"],
    [{ name: "A", event: "e", steps: [{ wait: "soon" }] }, "validation_error"],
    [{ name: "A", event: "e", steps: [], entry: "twice" }, "validation_error"],
    [{ name: "A", event: "e", steps: [], audience_id: "x" }, "validation_error"],
  ])("%j is refused", async (body, name) => {
    expect((await ws.client.post<Refusal>("/automations", body)).body).toMatchObject({
      statusCode: 422,
      name,
    });
  });

  test.each([
    ["PATCH", "", { audience_id: "x" }, "The `audience_id` field must be a UUID."],
    ["GET", "/runs/x", undefined, "The id of a run must be a UUID."],
  ])("what is malformed is told before what is not there: %s %s", async (method, below, body, message) => {
    const answer = await ws.client.call<Refusal>(method, `/automations/${randomUUID()}${below}`, body);
    expect(answer.body).toMatchObject({ statusCode: 422, message });
  });
});
