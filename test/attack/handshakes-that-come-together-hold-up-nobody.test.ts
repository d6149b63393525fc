/**
 * A server signs in each handshake of TLS, which takes milliseconds with a large key. One address opens as
 * many connections as it may and lets all of their handshakes come together.
 */
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openAuthority } from "../rig/authority.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { loggedIn, submit } from "../rig/submitting.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const CONNECTIONS = 100;
/** Of one address. */
const UNDER_WAY = 5;
const WORKED_MS_MAX = 50;
const NAME = "mail.postrider.test";
const MAIL = "From: orders@example.com\nTo: one@example.net\nSubject: Order\n\nThanks";
/** The type of a record. */
const HANDSHAKE = 22;

const folder = mkdtempSync(join(tmpdir(), "postrider-handshakes-"));
let database: OwnDatabase;
let engine: Engine;
let process: EngineProcess;
let neighbour: TestWorkspace;
beforeAll(async () => {
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const keys = generateKeyPairSync("rsa", { modulusLength: 4096 });
  const made = openAuthority().certify(NAME, { keys });
  writeFileSync(cert, made.cert);
  writeFileSync(key, made.key);
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  process = await startProcess(["submission"], {
    databaseUrl: database.url,
    settings: {
      ...{ SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
      ...{ SUBMISSION_TLS_CERT: cert, SUBMISSION_TLS_KEY: key },
    },
    watchesLoop: true,
  });
  neighbour = await freshWorkspace(engine.keyring, "");
});
afterAll(async () => {
  await process?.stop();
  await engine?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

/** The first bytes of a client with these options. */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connectTls({ ...options, port, host: "127.0.0.1", servername: NAME });
  client.on("error", () => {});
  const [socket] = (await once(server, "connection")) as [Socket];
  const [hello] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  server.close();
  return hello;
}

let addresses = 1;

/** Of another address each time, since the connections of before are still ending. */
async function openAll(count = CONNECTIONS, localAddress = `127.0.${++addresses}.1`): Promise<Socket[]> {
  const options = { port: process.submissionTlsPort as number, host: "127.0.0.1", localAddress };
  const sockets = Array.from({ length: count }, () => connect(options));
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  for (const socket of sockets) socket.on("error", () => {});
  return sockets;
}

/** All say each piece at the same time, and go when they are answered. */
async function pour(pieces: readonly Buffer[]): Promise<void> {
  const sockets = await openAll();
  const answered = sockets.map(async (socket) => {
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer[0]).toBe(HANDSHAKE);
    socket.destroy();
  });
  for (const piece of pieces) {
    for (const socket of sockets) socket.write(piece);
    // by then those before it were read
    expect(await sent()).toMatch(/^250/);
  }
  await Promise.all(answered);
}

async function sent(): Promise<string> {
  const client = await loggedIn(process.submissionTlsPort as number, neighbour.client.key);
  try {
    return await submit(client, "one@example.net", MAIL);
  } finally {
    client.destroy();
  }
}

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  test(`hellos of ${version}`, async () => {
    const hello = await helloOf({ minVersion: version, maxVersion: version });
    expect(await workedBy(process, () => pour([hello]), WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  });

  test(`hellos of ${version} of which only the last byte comes at once`, async () => {
    const hello = await helloOf({ minVersion: version, maxVersion: version });
    const pieces = [hello.subarray(0, -1), hello.subarray(-1)];
    expect(await workedBy(process, () => pour(pieces), WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  });
}

test("of one address few are under way, and one that goes makes room for the next", async () => {
  const hello = await helloOf({});
  const sockets = await openAll(UNDER_WAY + 1);
  const [first, next] = [sockets[0], sockets.at(-1)] as [Socket, Socket];
  const begun = sockets.slice(0, UNDER_WAY).map((socket) => once(socket, "data"));
  for (const socket of sockets.slice(0, UNDER_WAY)) socket.write(hello);
  await Promise.all(begun);
  let isAnswered = false;
  const answered = once(next, "data").then(() => {
    isAnswered = true;
  });
  next.write(hello);
  expect(await sent()).toMatch(/^250/);
  expect(isAnswered).toBe(false);
  first.destroy();
  await answered;
  for (const socket of sockets) socket.destroy();
});

test("a connection that ends before TLS leaves its place at once", async () => {
  for (let round = 0; round < 2; round++) {
    const sockets = await openAll(CONNECTIONS, "127.0.200.1");
    const closed = sockets.map((socket) => once(socket, "close"));
    for (const socket of sockets) socket.resume().end();
    await Promise.all(closed);
  }
});
