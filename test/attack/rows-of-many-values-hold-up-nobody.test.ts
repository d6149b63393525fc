/**
 * A file of contacts whose rows name as many properties and tags as fit into them. Many rows are committed
 * together, and decided in turns. The event loop of the api is asked for its work, since this machine may
 * stand still for others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const FILE_CHARS = 1_000_000;
const COLUMNS = 499;
const TAGS = 21_000;

let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let hostile: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  hostile = await freshWorkspace(engine.keyring, `http://127.0.0.1:${api.port}`);
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

type Counts = { total: number; created: number; updated: number; failed: number };

async function imported(file: string): Promise<Counts> {
  const part = `--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n${file}\r\n--b--`;
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  const { status, body } = await hostile.client.post<{ id: string }>("/contacts/imports", part, headers);
  expect(status, JSON.stringify(body)).toBe(201);
  const shown = async () =>
    (await hostile.client.get<{ status: string; counts: Counts }>(`/contacts/imports/${body.id}`)).body;
  await expect.poll(async () => (await shown()).status, { timeout: 30_000, interval: 150 }).toBe("completed");
  return (await shown()).counts;
}

function longestTurn(file: string, holds: (counts: Counts) => void): Promise<number> {
  return workedBy(api, async () => holds(await imported(file)), WORKED_MS_MAX);
}

function fileOf(header: string, rest: string): string {
  const rows = Array.from(
    { length: Math.floor(FILE_CHARS / (rest.length + 20)) },
    (_, n) => `c${n}@example.net${rest}`,
  );
  return [header, ...rows].join("\n");
}

test("properties", async () => {
  const names = Array.from({ length: COLUMNS }, (_, n) => `p${n}`);
  const file = fileOf(["email", ...names].join(), ",1".repeat(COLUMNS));
  const ms = await longestTurn(file, ({ failed, total }) =>
    expect({ failed, total }).toEqual({ failed: 0, total }),
  );
  expect(ms).toBeLessThan(WORKED_MS_MAX);
});

test("tags", async () => {
  const tags = Array.from({ length: TAGS }, (_, n) => ((n * 7919) % TAGS).toString(36)).join(";");
  const file = fileOf("email,tags", `,${tags.slice(0, 63_000)}`);
  const ms = await longestTurn(file, ({ failed, total }) => expect(failed).toBe(total));
  expect(ms).toBeLessThan(WORKED_MS_MAX);
});
