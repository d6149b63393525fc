import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

type Read = { to: string[]; cc: string[]; bcc: string[]; reply_to: string[] };

async function sendAndRead(more: Record<string, unknown>) {
  const ws = await api.workspace();
  const sent = await ws.client.post<{ id: string }>("/emails", mail(more));
  expect(sent.status).toBe(200);
  const { body } = await ws.client.get<Read>(`/emails/${sent.body.id}`);
  const [ledger] = await api.sql<{ month_used: number; cap_day_used: number }[]>`
    select month_used, cap_day_used from ledger where workspace_id = ${ws.id}`;
  return { ...body, used: ledger?.month_used, sends: ledger?.cap_day_used };
}

test("the same address in any letter case is one recipient, as it was first written", async () => {
  const read = await sendAndRead({
    to: ["Ann <Ann@Example.net>", "ann@example.net", "ANN@EXAMPLE.NET", "bob@example.net"],
  });
  expect(read.to).toEqual(["Ann <Ann@Example.net>", "bob@example.net"]);
  expect(read).toMatchObject({ used: 2, sends: 2 });
});

test("an international domain and its A-labels are the same, and so are two forms of one character", async () => {
  const read = await sendAndRead({
    to: [
      "ann@bücher.example",
      "Ann@XN--BCHER-KVA.example",
      "jos\u00e9@example.net",
      "Jose\u0301@example.net",
    ],
  });
  expect(read.to).toEqual(["ann@bücher.example", "jos\u00e9@example.net"]);
  expect(read).toMatchObject({ used: 2, sends: 2 });
});

test("to comes before cc before bcc, and only what is left of to counts for the quota", async () => {
  const read = await sendAndRead({
    to: ["ann@example.net"],
    cc: ["Ann@example.net", "bob@example.net"],
    bcc: ["BOB@example.net", "cid@example.net", "ann@EXAMPLE.net"],
    reply_to: ["Help@example.com", "help@example.com", "ann@example.net"],
  });
  expect(read).toMatchObject({
    to: ["ann@example.net"],
    cc: ["bob@example.net"],
    bcc: ["cid@example.net"],
    reply_to: ["Help@example.com", "ann@example.net"],
    used: 1,
    sends: 3,
  });
});

test("fifty are allowed after repeated ones are gone, fifty-one are not", async () => {
  const people = (count: number, name = "p") =>
    Array.from({ length: count }, (_, n) => `${name}${n}@example.net`);
  const read = await sendAndRead({ to: people(50), cc: people(50, "P") });
  expect(read).toMatchObject({ cc: [], used: 50, sends: 50 });
  const ws = await api.workspace();
  const refused = await ws.client.post<Refusal>("/emails", mail({ to: people(50), cc: "one@example.org" }));
  expect(refused.body).toMatchObject({ statusCode: 422, name: "validation_error" });
});
