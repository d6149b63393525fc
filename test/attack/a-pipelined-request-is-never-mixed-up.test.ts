/**
 * Requests sent without waiting for answers. Those that are answered at once are answered in order. Behind a
 * request that is still being handled the server library closes the connection and answers neither, and there
 * is no way to be asked first: what is held here is that the later one is not done, and nobody hears
 * another's answer.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { hear, open, say } from "../rig/rawhttp.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

function sending(subject: string): string {
  const body = JSON.stringify(mail({ subject }));
  return [
    "POST /api/v1/emails HTTP/1.1",
    "Host: x",
    `Authorization: Bearer ${ws.client.key}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

async function subjects(): Promise<string[]> {
  const rows = await api.sql<{ subject: string }[]>`
    select head->>'subject' as subject from email where workspace_id = ${ws.id} order by 1`;
  return rows.map(({ subject }) => subject);
}

test("what is answered at once is answered in order", async () => {
  const paths = ["/healthz", "/one", "/api/v1/emails", "/two"];
  const requests = paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join("");
  const { statuses, text } = await say(api.url, requests, paths.length);
  expect(statuses).toEqual([200, 404, 401, 404]);
  expect(text.indexOf("nothing at /one")).toBeLessThan(text.indexOf("nothing at /two"));
});

test("behind a send, whether it comes with it or after it, nothing is done", async () => {
  for (const together of [true, false]) {
    const socket = open(api.url);
    const heard = hear(socket);
    if (together) {
      socket.write(sending("first") + sending("second"));
    } else {
      socket.write(sending("first"));
      socket.write(sending("second"));
    }
    const { statuses, isClosed } = await heard;
    expect(isClosed).toBe(true);
    expect(statuses.length).toBeLessThanOrEqual(1);
  }
  expect((await ws.client.post("/emails", mail({ subject: "third" }))).status).toBe(200);
  const done = await subjects();
  expect(done).not.toContain("second");
  expect(done).toContain("third");
});

test("one after the other they share a connection", async () => {
  const socket = open(api.url);
  socket.write(sending("alone"));
  await new Promise((resolve) => socket.once("data", resolve));
  const heard = hear(socket, 1);
  socket.write(sending("after"));
  expect((await heard).statuses).toEqual([200]);
  expect(await subjects()).toEqual(expect.arrayContaining(["alone", "after"]));
});
