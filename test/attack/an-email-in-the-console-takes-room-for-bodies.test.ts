/** What the console makes of an e-mail is as large as its attachments, and counts as bodies do. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Browser, signedIn } from "../rig/people.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const ROOM_BYTES = 1024 * 1024;

let engine: Engine;
let workspace: TestWorkspace;
let browser: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], {
    settings: { CONSOLE_PORT: "0", BODY_BYTES_IN_FLIGHT_MAX: String(ROOM_BYTES) },
  });
  workspace = await engine.workspace();
  browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
});
afterAll(() => engine.stop());

async function sent(bytes: number): Promise<string> {
  const content = Buffer.alloc(bytes, 1).toString("base64");
  const { status, body } = await workspace.client.post<{ id: string }>(
    "/emails",
    mail({ attachments: [{ filename: "a.bin", content }] }),
  );
  expect(status).toBe(200);
  return body.id;
}

test("one that finds no room is refused for now", async () => {
  const id = await sent(300 * 1024);
  for (const answer of [await browser.get(`emails/${id}/raw`), await browser.post(`emails/${id}/again`, {})])
    expect(answer).toMatchObject({ status: 503, body: { name: "service_unavailable" } });
});

test("the room is free again when the answer has left", async () => {
  const id = await sent(60 * 1024);
  for (let n = 0; n < 10; n++) {
    const raw = await browser.get<string>(`emails/${id}/raw`);
    expect([raw.status, String(raw.body).includes("a.bin")]).toEqual([200, true]);
    expect((await browser.post(`emails/${id}/again`, {})).status).toBe(200);
  }
});
