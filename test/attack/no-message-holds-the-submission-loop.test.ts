/**
 * Messages that are cheap to write and dear to read. The event loop is asked for the work it did in one turn,
 * since this machine may stand still for others, and a neighbour's mail goes through meanwhile.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { loggedIn, submit } from "../rig/submitting.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const MB = 1024 * 1024;
const WORKED_MS_MAX = 50;
const RSS_MB_MAX = 1024;

let database: OwnDatabase;
let engine: Engine;
let process: EngineProcess;
let hostile: TestWorkspace;
let neighbour: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  process = await startProcess(["submission"], {
    databaseUrl: database.url,
    settings: { SUBMISSION_TLS_PORT: "0" },
    watchesLoop: true,
  });
  hostile = await freshWorkspace(engine.keyring, "");
  neighbour = await freshWorkspace(engine.keyring, "");
  for (let n = 0; n < 20; n++) expect(await sent(neighbour, MAIL)).toMatch(/^250/);
});
afterAll(async () => {
  await process?.stop();
  await engine?.stop();
  await database.drop();
});

const FROM = "From: orders@example.com\n";
const TO = "To: one@example.net\n";
const HEAD = `${FROM}${TO}Subject: Order\n`;
const MAIL = `${HEAD}\nThanks`;
/** Just below what is read at once. */
const SMALL = 62 * 1024;
const LARGE = 38 * MB;

const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const numbered = (bytes: number, unit: (n: number) => string) => {
  const parts: string[] = [];
  for (let n = 0, size = 0; size < bytes; size += (parts.at(-1) as string).length) parts.push(unit(n++));
  return parts.join("");
};
const mixed = (parts: string) => `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${parts}`;

const BOMBS: Record<string, () => string> = {
  addresses: () => `${FROM}To: ${fill('"a"@b.example,\n ', SMALL)}\nSubject: x\n\nx`,
  "local parts in quotes, without end": () =>
    `${FROM}To: ${fill(`${'""@'.repeat(30)}\n `, SMALL)}\nSubject: x\n\nx`,
  "encoded words": () =>
    `${HEAD.replace(
      "Order",
      numbered(SMALL / 2, (n) => `=?x${n}?q?a?=\n `),
    )}\nx`,
  "encoded words of two charsets": () =>
    `${HEAD.replace("Order", fill("=?big5?q?a?=\n =?gbk?q?a?=\n ", SMALL / 2))}\nx`,
  parameters: () => `${HEAD}Content-Type: text/plain${numbered(SMALL, (n) => `;\n a${n}*=x''%41`)}\n\nx`,
  "folds without end": () => `${HEAD}X-A: ${fill("\n ", SMALL)}\n\nx`,
  "parts with parameters": () =>
    mixed(numbered(SMALL, () => `--b\nContent-Type: text/plain${numbered(300, (n) => `;a${n}=1`)}\n\n\n`)),
  "nearly boundaries": () => mixed(fill("--bb\n", SMALL)),
  "many nearly boundaries": () => mixed(fill("--bb\n", 8 * MB)),
  "quoted-printable": () =>
    `${HEAD}Content-Transfer-Encoding: quoted-printable\n\n${fill(`${"=41".repeat(25)}=\n`, LARGE)}`,
  "base64 of much text": () => `${HEAD}Content-Transfer-Encoding: base64\n\n${fill("QUFB\n", 20 * MB)}`,
  "a large file": () =>
    `${HEAD}Content-Type: application/zip; name=a.zip\nContent-Transfer-Encoding: base64\n\n${fill(`${"QUFB".repeat(18)}\n`, 30 * MB)}`,
  "lines that are dots": () => `${HEAD}\n${fill("..\n", 8 * MB)}`,
  "flowed lines": () => `${HEAD}Content-Type: text/plain; format=flowed\n\n${fill(" \n", 8 * MB)}`,
};

async function sent(workspace: TestWorkspace, message: string): Promise<string> {
  const client = await loggedIn(process.submissionTlsPort as number, workspace.client.key);
  try {
    return await submit(client, "one@example.net", message);
  } finally {
    client.destroy();
  }
}

for (const [name, bomb] of Object.entries(BOMBS))
  test(name, async () => {
    const message = bomb();
    const sendBeside = async () => {
      const hit = sent(hostile, message);
      for (let n = 0; n < 5; n++) expect(await sent(neighbour, MAIL)).toMatch(/^250/);
      expect(await hit).toMatch(/^(250|55\d)/);
    };
    expect(await workedBy(process, sendBeside, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
    expect((await process.loop()).rssMbMax).toBeLessThan(RSS_MB_MAX);
  });
