import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DRIP_MS = 500;
/**
 * Ten seconds of silence, on a timer that looks every four. In drips, since the api runs in this process: a
 * machine that holds it up holds up both.
 */
const CUT_DRIPS_MAX = 16_000 / DRIP_MS;

let api: TestApi;
let ws: TestWorkspace;
const sockets: Socket[] = [];
const timers: NodeJS.Timeout[] = [];
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(async () => {
  for (const timer of timers) clearInterval(timer);
  for (const socket of sockets) socket.destroy();
  await api.stop();
});

/** Says the beginning at once and the rest byte by byte; resolves with how often it could have said one. */
function drip(beginning: string, rest: string): Promise<{ drips: number; heard: string }> {
  const socket = connect(Number(new URL(api.url).port), "127.0.0.1");
  sockets.push(socket);
  let heard = "";
  socket.setNoDelay(true).on("data", (bytes) => {
    heard += bytes;
  });
  socket.on("error", () => {}); // a write may meet the cut
  socket.write(beginning);
  let at = 0;
  const timer = setInterval(() => {
    const drip = rest[at++ % rest.length];
    if (drip !== undefined) socket.write(drip);
  }, DRIP_MS);
  timers.push(timer);
  return new Promise((resolve) =>
    socket.once("close", () => {
      clearInterval(timer);
      resolve({ drips: at, heard });
    }),
  );
}

const head = (length: number) =>
  [
    "POST /api/v1/emails HTTP/1.1",
    "Host: test",
    `Authorization: Bearer ${ws.client.key}`,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
    "",
    "",
  ].join("\r\n");

test("who sends nothing, slow headers, or a slow body is cut within seconds, and the others are served", async () => {
  const slow = {
    silence: drip("", ""),
    "empty lines": drip("", "\r\n"),
    "half a header": drip(
      "GET /api/v1/emails HTTP/1.1\r\nHost: test\r\n",
      "X-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
    "no body": drip(head(1_000), ""),
    "a slow body": drip(head(100_000), JSON.stringify(mail())),
    "a slow body of nobody": drip(head(100_000).replace(/Bearer \S+/, "Bearer nobody"), "{}"),
  };
  for (let n = 0; n < 20; n++) expect((await ws.client.post("/emails", mail())).status).toBe(200);
  for (const [what, cut] of Object.entries(slow)) {
    const { drips, heard } = await cut;
    expect(drips, what).toBeLessThan(CUT_DRIPS_MAX);
    expect(heard, what).not.toContain("HTTP/1.1 200");
  }
  const [row] = await api.sql`select count(*)::int from email where workspace_id = ${ws.id}`;
  expect(row?.count).toBe(20);
  expect((await ws.client.post("/emails", mail())).status).toBe(200);
});
