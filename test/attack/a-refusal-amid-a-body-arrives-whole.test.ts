/**
 * Bodies for which there is no room any more. Their callers hear a whole 503, also when the refusal meets the
 * last piece of the body or a caller that then stands still; and one caller alone never takes the room of the
 * others.
 */
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { hear, open } from "../rig/rawhttp.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const MB = 1024 * 1024;
/** For all bodies: one caller may hold half. */
const BUDGET_BYTES = 16 * MB;
/** An answer that waits for more of the body ends after so much silence. */
const SILENCE_MS = 5_000;

let engine: Engine;
let hog: TestWorkspace;
let neighbour: TestWorkspace;
const stalled: Socket[] = [];
beforeAll(async () => {
  engine = await startEngine(["api"], { settings: { BODY_BYTES_IN_FLIGHT_MAX: String(BUDGET_BYTES) } });
  hog = await engine.workspace();
  neighbour = await engine.workspace();
});
afterAll(async () => {
  for (const socket of stalled) socket.destroy();
  await engine.stop();
});

function head({ client }: TestWorkspace, length: number): string {
  return [
    "POST /api/v1/emails HTTP/1.1",
    "Host: x",
    `Authorization: Bearer ${client.key}`,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
    "",
    "",
  ].join("\r\n");
}

const text = (bytes: number) => Buffer.alloc(bytes, "a");

/** Says that it will send `length` bytes, sends some, and waits. */
function stall(workspace: TestWorkspace, length: number, sent: number): Socket {
  const socket = open(engine.url);
  stalled.push(socket);
  socket.write(head(workspace, length));
  socket.write(text(sent));
  return socket;
}

/** Uploads that stand still, until one is refused: there the share of their workspace ends. */
async function fill(workspace: TestWorkspace): Promise<void> {
  const refused = Array.from({ length: 12 }, () => stall(workspace, 20 * MB, 3 * MB)).map(
    (socket) => new Promise<string>((resolve) => socket.once("data", (bytes) => resolve(bytes.toString()))),
  );
  expect(await Promise.race(refused)).toContain("503");
}

const large = (bytes: number) =>
  mail({ attachments: [{ filename: "large.bin", content: text(bytes).toString("base64") }] });

test("a whole upload for which there is no room hears a whole 503 at once", async () => {
  await fill(hog);
  const socket = open(engine.url);
  const heard = hear(socket, 1);
  socket.write(head(hog, 7 * MB));
  let sentAt = Number.POSITIVE_INFINITY;
  socket.write(text(7 * MB), () => {
    sentAt = performance.now();
  });
  const { text: answer, statuses } = await heard;
  expect(statuses).toEqual([503]);
  expect(answer).toContain('"name":"service_unavailable"');
  expect(performance.now() - sentAt).toBeLessThan(SILENCE_MS);
  // uploads that stand still hold their room for 8 s at least
  await fill(hog);
  expect((await hog.client.post("/emails", large(2 * MB))).status).toBe(503);
});

test("the neighbour has room for a large mail all the same", async () => {
  expect((await neighbour.client.post("/emails", large(2 * MB))).status).toBe(200);
  expect((await neighbour.client.post("/emails", mail())).status).toBe(200);
});

test("one that stands still after its refusal hears the end of the answer too", async () => {
  const socket = stall(hog, 20 * MB, 10 * MB);
  const { statuses, text: answer, isClosed } = await hear(socket);
  expect(isClosed).toBe(true);
  expect(statuses).toEqual([503]);
  expect(answer.endsWith("\r\n0\r\n\r\n")).toBe(true);
});

test("bodies of nobody take no more than one caller's share", async () => {
  const nobody = { ...hog, client: { ...hog.client, key: "pr_live_nobody" } } as TestWorkspace;
  for (let n = 0; n < 12; n++) stall(nobody, 20 * MB, 3 * MB);
  expect((await neighbour.client.post("/emails", large(1 * MB))).status).toBe(200);
});
