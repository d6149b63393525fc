/**
 * A server signs in each handshake of TLS, which takes milliseconds with a large key. One address opens as
 * many connections as it may and lets all of their handshakes come together; so do many addresses.
 */
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openAuthority } from "../rig/authority.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { SmtpClient } from "../rig/reports.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { loggedIn, submit } from "../rig/submitting.ts";
import { freshWorkspace, type TestWorkspace } from "../rig/workspace.ts";

const CONNECTIONS = 100;
const ADDRESSES = 40;
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
  process = await startProcess(["submission", "inbound"], {
    databaseUrl: database.url,
    settings: {
      ...{ SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
      ...{ SUBMISSION_TLS_CERT: cert, SUBMISSION_TLS_KEY: key },
      ...{ INBOUND_PORT: "0", BOUNCE_DOMAIN: "bounces.postrider.test" },
      ...{ INBOUND_TLS_CERT: cert, INBOUND_TLS_KEY: key },
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
async function openAll(
  count = CONNECTIONS,
  localAddress = `127.0.${++addresses}.1`,
  port = process.submissionTlsPort as number,
): Promise<Socket[]> {
  const options = { port, host: "127.0.0.1", localAddress };
  const sockets = Array.from({ length: count }, () => connect(options));
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  for (const socket of sockets) socket.on("error", () => {});
  return sockets;
}

async function openOfMany(port = process.submissionTlsPort as number): Promise<Socket[]> {
  addresses++;
  const opened = Array.from({ length: ADDRESSES }, (_, n) =>
    openAll(UNDER_WAY, `127.1.${addresses}.${n + 1}`, port),
  );
  return (await Promise.all(opened)).flat();
}

async function openAndStartTls(): Promise<Socket[]> {
  const sockets = await openOfMany(process.inboundPort as number);
  const ready = sockets.map(async (socket) => {
    const client = SmtpClient.over(socket);
    await client.answer();
    await client.say("EHLO client.example");
    expect(await client.say("STARTTLS")).toMatch(/^220/);
    client.detach();
  });
  await Promise.all(ready);
  return sockets;
}

/** All say each piece at the same time, and go when they are answered. */
async function pour(pieces: readonly Buffer[], open: () => Promise<Socket[]> = openAll): Promise<void> {
  const sockets = await open();
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

/** Holds back what it says to the first answer until it is let go. */
function holdingClient(socket: Socket, options: ConnectionOptions) {
  const held: Buffer[] = [];
  let [isAnswered, isLetGo] = [false, false];
  const gate = new Duplex({
    read() {},
    write(piece: Buffer, _, done) {
      const isHeld = isAnswered && !isLetGo;
      if (isHeld) held.push(piece);
      else socket.write(piece);
      if (isHeld) gate.emit("held");
      done();
    },
  });
  socket.on("data", (piece: Buffer) => {
    isAnswered = true;
    gate.push(piece);
  });
  const holds = once(gate, "held");
  const client = connectTls({ ...options, socket: gate, servername: NAME, rejectUnauthorized: false });
  const secured = once(client, "secureConnect");
  const letGo = () => {
    isLetGo = true;
    socket.write(Buffer.concat(held));
  };
  return { holds, secured, letGo };
}

/** All go on at the same time, and go when TLS is there. */
async function pourSecondFlights(options: ConnectionOptions): Promise<void> {
  const sockets = await openOfMany();
  const clients = sockets.map((socket) => holdingClient(socket, options));
  await Promise.all(clients.map(({ holds }) => holds));
  for (const { letGo } of clients) letGo();
  await Promise.all(clients.map(({ secured }) => secured));
  for (const socket of sockets) socket.destroy();
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

test("hellos of many addresses of which only the last byte comes at once, with the dearest group", async () => {
  const hello = await helloOf({ minVersion: "TLSv1.3", ecdhCurve: "P-384" });
  const pieces = [hello.subarray(0, -1), hello.subarray(-1)];
  const poured = () => pour(pieces, openOfMany);
  expect(await workedBy(process, poured, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

for (const [way, open] of [
  ["from the first byte", openOfMany],
  ["after STARTTLS", openAndStartTls],
] as const)
  test(`hellos of many addresses of which only the last byte comes at once, ${way}`, async () => {
    const hello = await helloOf({});
    const pieces = [hello.subarray(0, -1), hello.subarray(-1)];
    expect(await workedBy(process, () => pour(pieces, open), WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  });

for (const [what, options] of [
  ["keys that are encrypted with ours", { maxVersion: "TLSv1.2", ciphers: "AES256-GCM-SHA384" }],
  ["second hellos", { minVersion: "TLSv1.3", ecdhCurve: "ffdhe2048:X25519" }],
] as const)
  test(`${what}, of many addresses`, async () => {
    const poured = () => pourSecondFlights(options);
    expect(await workedBy(process, poured, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
  });

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
