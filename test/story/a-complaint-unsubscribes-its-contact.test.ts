/**
 * Whoever complains gets no more mail and is in no audience, with a record of it; whoever is erased leaves
 * only a hash.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { tablesWith } from "../rig/traces.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let database: OwnDatabase;
let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
  ws = await api.workspace();
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

async function contact(email: string): Promise<{ audience: string; path: string; id: string }> {
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  const path = `/audiences/${audience.id}/contacts`;
  const { body } = await ws.client.post<{ id: string }>(path, { email });
  return { audience: audience.id, path: `${path}/${body.id}`, id: body.id };
}

const statusOfMailTo = async (to: string) => {
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to }));
  return (await ws.client.get<{ status: string }>(`/emails/${body.id}`)).body.status;
};

test("a complaint unsubscribes its contact in every audience, with a record of consent", async () => {
  const email = "Complains@example.net";
  const people = [await contact(email), await contact(email)];
  const added = await ws.client.post("/suppressions", {
    email,
    reason: "complaint",
    evidence: "abuse report of example.net",
  });
  expect(added.status).toBe(201);
  for (const { path, id } of people) {
    expect((await ws.client.get(path)).body).toMatchObject({ status: "unsubscribed", unsubscribed: true });
    const consents = await api.sql`
      select kind, source, wording from consent where workspace_id = ${ws.id} and contact_id = ${id}`;
    expect(consents).toEqual([
      { kind: "withdrawn", source: "complaint", wording: "abuse report of example.net" },
    ]);
  }
  expect(await statusOfMailTo("complains@example.net")).toBe("suppressed");
});

test("of an erased person only a keyed hash stays, and it is obeyed", async () => {
  const email = "forgotten.person@example.net";
  const { path } = await contact(email);
  await ws.client.post("/suppressions", { email, evidence: `550 no ${email} here` });
  expect((await ws.client.call("DELETE", `${path}?mode=erase`)).status).toBe(200);
  const left = () => tablesWith(api.sql, "forgotten.person");
  await expect.poll(left, { timeout: 20_000 }).toEqual([]);
  expect((await ws.client.get(`/suppressions/${email}`)).body).toMatchObject({
    email: null,
    reason: "manual",
    evidence: null,
  });
  expect(await statusOfMailTo("Forgotten.Person@example.net")).toBe("suppressed");
});

test("a suppression of one domain of senders holds back only mail from it and below it", async () => {
  const email = "picky@example.net";
  await ws.client.post("/suppressions", { email, scope: "news.example.com" });
  const sent = async (from: string) => {
    const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: email, from }));
    return (await ws.client.get<{ status: string }>(`/emails/${body.id}`)).body.status;
  };
  expect(await sent("shop@example.com")).toBe("accepted");
  expect(await sent("shop@oldnews.example.com")).toBe("accepted");
  expect(await sent("shop@news.example.com")).toBe("suppressed");
  expect(await sent("shop@a.news.example.com")).toBe("suppressed");
});
