/**
 * Requests about one automation that arrive together: none makes another's work undone, and what is deleted
 * stays so.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("pro");
});
afterAll(() => api.stop());

type Kept = { name: string; event: string; document: { steps: unknown[]; filters?: unknown[] } };
const steps = (tag: string) => [{ tag: { add: [tag] } }];
const post = (body: object) => ws.client.post<{ id: string }>("/automations", { event: "x", ...body });
const patch = (id: string, body: object) => ws.client.call("PATCH", `/automations/${id}`, body);
const names = async () =>
  (await api.sql<{ name: string }[]>`select name from automation where workspace_id = ${ws.id}`).map(
    ({ name }) => name,
  );

test("of two that are made under one name at once, one is refused", async () => {
  for (let n = 0; n < 5; n++) {
    const name = randomUUID();
    const made = await Promise.all(["a", "b", "c"].map((tag) => post({ name, steps: steps(tag) })));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 422, 422]);
  }
});

test("one that is deleted while it is changed stays deleted", async () => {
  for (let n = 0; n < 10; n++) {
    const name = randomUUID();
    const { id } = (await post({ name, steps: steps("a") })).body;
    const [, gone] = await Promise.all([
      patch(id, { steps: steps("b") }),
      ws.client.call("DELETE", `/automations/${id}`),
      patch(id, { steps: steps("c") }),
    ]);
    expect(gone.status).toBe(200);
    expect(await names()).not.toContain(name);
  }
});

test("changes of different parts are all kept", async () => {
  for (let n = 0; n < 5; n++) {
    const { id } = (await post({ name: randomUUID(), steps: steps("a") })).body;
    const name = randomUUID();
    const filters = [{ field: "contact.email", exists: true }];
    const changed = await Promise.all([
      patch(id, { steps: steps("b") }),
      patch(id, { filters }),
      patch(id, { event: "y" }),
      patch(id, { name }),
    ]);
    expect(changed.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const { body } = await ws.client.get<Kept>(`/automations/${id}`);
    expect(body).toMatchObject({ name, event: "y", document: { steps: steps("b"), filters } });
  }
});

test("copies made at once have names of their own", async () => {
  const { id } = (await post({ name: randomUUID(), steps: steps("a") })).body;
  const made = await Promise.all(
    [1, 2].map(() => ws.client.post<{ id: string }>(`/automations/${id}/duplicate`)),
  );
  expect(made.map(({ status }) => status)).toEqual([201, 201]);
  expect(new Set(made.map(({ body }) => body.id)).size).toBe(2);
});
