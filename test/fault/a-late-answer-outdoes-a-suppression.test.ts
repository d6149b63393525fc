/**
 * Whoever has the mail has it: an answer that comes after the recipient was suppressed is recorded as
 * delivered.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { settle } from "../../src/record/mail/settle.ts";
import { mail, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("a late 250 delivers what was suppressed meanwhile", async () => {
  const ws = await api.workspace();
  await ws.client.post("/suppressions", { email: "late@example.net" });
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: "late@example.net" }));
  const read = async () => (await ws.client.get<{ status: string }>(`/emails/${body.id}`)).body.status;
  expect(await read()).toBe("suppressed");
  const now = Date.now();
  const bag = { workspaceId: ws.id, id: newId(now), generation: 0, token: randomUUID() };
  const event = { type: "delivered", at: new Date(now).toISOString(), recipient: "late@example.net" };
  const note = { bag, emailId: body.id, status: "delivered", marks: "d", attemptedAt: now, at: now } as const;
  const rest = {
    events: [event],
    places: [0],
    nextAt: null,
    domain: null,
    reply: null,
    counts: { delivered: 1 },
  };
  expect(await settle(api.sql, "worker", [{ ...note, ...rest }], [])).toEqual([]);
  expect(await read()).toBe("delivered");
});
