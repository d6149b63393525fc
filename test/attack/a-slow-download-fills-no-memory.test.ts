/**
 * A piece of an attachment is held in memory until its last byte has left, so those who read slowly, or not
 * at all, are so few for each workspace. They keep nobody from the links of another.
 */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const MB = 1024 * 1024;
const CONTENT = Buffer.alloc(20 * MB, "0123456789abcdef");

let api: TestApi;
let ws: TestWorkspace;
const sockets: Socket[] = [];
beforeAll(async () => {
  api = await testApi({ timeoutMs: 20_000 });
  ws = await api.workspace("pro");
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await api.stop();
  expect(api.faults).toEqual([]);
});

async function linkIn(workspace: TestWorkspace, content: Buffer): Promise<URL> {
  const attachments = [{ filename: "large.bin", content: content.toString("base64") }];
  const { id } = (await workspace.client.post<{ id: string }>("/emails", mail({ attachments }))).body;
  const { data } = (
    await workspace.client.get<{ data: { download_url: string }[] }>(`/emails/${id}/attachments`)
  ).body;
  const { pathname } = new URL(data[0]?.download_url ?? "");
  return new URL(pathname, api.url);
}

/** The status line, and no more is read than came with it. */
function begin({ hostname, port, pathname }: URL): Promise<string> {
  const socket = connect({ host: hostname, port: Number(port) });
  sockets.push(socket);
  socket.on("error", () => {});
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
  return new Promise((resolve) => {
    socket.once("data", (data) => {
      socket.pause();
      resolve(data.toString("latin1").split("\r\n")[0] ?? "");
    });
  });
}

test("those who read nothing are so few for each workspace, and make room when they leave", async () => {
  const link = await linkIn(ws, CONTENT);
  const lines: string[] = [];
  // together: whoever reads nothing is cut after a while
  for (const count of [16, 16, 16, 16, 1, 1])
    lines.push(...(await Promise.all(Array.from({ length: count }, () => begin(link)))));
  expect(lines.map((line) => line.split(" ")[1])).toEqual([...Array(64).fill("200"), "503", "503"]);
  for (const socket of sockets.splice(0)) socket.destroy();
  await expect.poll(async () => (await fetch(link, { method: "GET" })).status).toBe(200);
});

test("slow readers of the links of many workspaces leave room for others", async () => {
  const neighbour = await api.workspace("pro");
  const attachment = await linkIn(neighbour, CONTENT);
  const { id } = (await neighbour.client.post<{ id: string }>("/emails", mail())).body;
  const { url } = (await neighbour.client.post<{ url: string }>(`/emails/${id}/share`, {})).body;
  const shared = new URL(new URL(url).pathname, api.url);
  const links: URL[] = [];
  for (let n = 0; n < 4; n++) links.push(await linkIn(await api.workspace("pro"), CONTENT));
  await Promise.all(links.flatMap((link) => Array.from({ length: 6 }, () => begin(link))));
  const [page, download] = await Promise.all([fetch(shared), fetch(attachment)]);
  expect([page.status, download.status]).toEqual([200, 200]);
  expect(CONTENT.equals(Buffer.from(await download.arrayBuffer()))).toBe(true);
  for (const socket of sockets.splice(0)) socket.destroy();
});

test("a connection that closes behind its answer has all of it, however slowly it reads", async () => {
  const { hostname, port, pathname } = await linkIn(ws, CONTENT);
  const socket = connect({ host: hostname, port: Number(port) });
  sockets.push(socket);
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`);
  let bytes = 0;
  let body = -1;
  for await (const chunk of socket) {
    if (body < 0) body = (chunk as Buffer).indexOf("\r\n\r\n") + 4;
    bytes += (chunk as Buffer).byteLength;
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(bytes - body).toBe(CONTENT.byteLength);
});
