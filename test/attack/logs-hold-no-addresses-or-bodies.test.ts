/**
 * At `info` the log tells the life of the engine and some of its requests; addresses, bodies and keys are
 * never in it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { type Launched, launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { Client } from "../rig/workspace.ts";

const MARKS = {
  address: "zebrafinch",
  subject: "quillwort",
  body: "marzipan",
  name: "Balthasar",
  reply: "wombat",
};

let stage: Stage;
let process: Launched;
let key: string;
let base: string;
beforeAll(async () => {
  stage = await openStage();
  const engine = await startEngine(["api"], stage);
  key = (await engine.workspace("pro")).client.key;
  await engine.stop();
  const settings = { LOG_REQUESTS_EVERY: "2" };
  process = launch(["api", "deliver", "keeper"], { ...stage, settings });
  const { port } = (await process.says("serving")) as unknown as { port: number };
  base = `http://127.0.0.1:${port}`;
});
afterAll(() => stage.close());

test("a run with refusals, bounces and addresses in its paths", async () => {
  const client = new Client(base, key);
  const to = (name: string) => `${name}-${MARKS.address}@example.org`;
  const send = (address: string) =>
    client.post("/emails", {
      from: `${MARKS.name} <${MARKS.name}@example.com>`,
      to: address,
      subject: MARKS.subject,
      text: MARKS.body,
      html: `<p>${MARKS.body}</p>`,
    });
  for (const address of [to("a"), to("b"), `refuse-550-5.7.1@${MARKS.address}.example`, to("c")])
    expect((await send(address)).status).toBe(200);
  expect((await send("no address")).status).toBe(422);
  await client.get(`/contacts/${encodeURIComponent(to("path"))}`);
  await client.get(`/emails?to=${encodeURIComponent(to("query"))}`);
  await new Client(base, `${key}x`).get("/emails");
  for (const name of ["a", "b", "c"]) await expect.poll(() => stage.sink.ledger.timesNamed(to(name))).toBe(1);
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);

  const said = process.lines.map(({ msg }) => msg);
  for (const line of ["starting", "serving", "stopping"]) expect(said).toContain(line);
  expect(said.at(-1)).toMatch(/^stopped/);
  const answered = process.lines.filter(({ msg }) => msg === "answered");
  expect(answered).toHaveLength(4);
  for (const line of answered)
    expect(line).toMatchObject({ level: 30, request_id: expect.any(String), status: expect.any(Number) });
  expect(answered.map(({ route }) => route)).toContain("/emails");

  const all = JSON.stringify(process.lines) + process.err();
  for (const mark of Object.values(MARKS)) expect(all).not.toContain(mark);
  expect(all).not.toMatch(/@example\.(?:org|com)/);
  expect(all).not.toContain(key);
});
