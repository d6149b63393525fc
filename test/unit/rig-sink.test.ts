/**
 * The sink does what the address asks, as nodemailer's client sees it, and notices a client that speaks
 * badly.
 */
import { once } from "node:events";
import { connect } from "node:net";
import SMTPConnection, { type SMTPError } from "nodemailer/lib/smtp-connection";
import { afterEach, beforeEach, expect, test } from "vitest";
import { unstuffed } from "../rig/conversation.ts";
import { openSink, type Sink } from "../rig/sink.ts";

let sink: Sink;
const clients: SMTPConnection[] = [];

beforeEach(async () => {
  sink = await openSink({ keepRaw: true });
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await sink.close();
});

async function newClient(): Promise<SMTPConnection> {
  const client = new SMTPConnection({ host: "127.0.0.1", port: sink.port, socketTimeout: 60_000 });
  clients.push(client);
  await new Promise<void>((resolve, reject) => {
    client.once("error", reject);
    client.connect((error) => (error ? reject(error) : resolve()));
  });
  client.removeAllListeners("error");
  client.on("error", () => {}); // a broken connection also fails the send that waits for it
  return client;
}

function send(client: SMTPConnection, to: string | string[], options: { from?: string; id?: string } = {}) {
  const message = `Message-ID: <${options.id ?? "1"}@test>\r\nX-Trace: one\r\n two\r\n\r\nhello\r\n.dotted\r\n`;
  return new Promise<string>((resolve, reject) => {
    const envelope = { from: options.from ?? "sender@a.test", to: [to].flat() };
    client.send(envelope, Buffer.from(message), (error, info) =>
      error ? reject(error) : resolve(info?.response ?? ""),
    );
  });
}

async function failure(sent: Promise<string>): Promise<SMTPError> {
  return sent.then(
    (response) => Promise.reject(new Error(`unexpectedly taken: ${response}`)),
    (error: SMTPError) => error,
  );
}

test("any other address is accepted, and the ledger has the mail as it crossed the wire", async () => {
  expect(await send(await newClient(), ["anna@b.test", "ben@b.test"])).toBe("250 2.0.0 taken");
  const [mail] = await sink.ledger.received(1);
  expect(mail).toMatchObject({
    messageId: "1@test",
    from: "sender@a.test",
    to: ["anna@b.test", "ben@b.test"],
  });
  expect(mail?.headers.get("x-trace")).toBe("one two");
  expect(mail?.raw?.toString()).toContain("\r\nhello\r\n..dotted\r\n");
  expect(unstuffed(mail?.raw as Buffer).toString()).toContain("\r\nhello\r\n.dotted\r\n");
  expect(sink.ledger.count("1@test")).toBe(1);
  expect(sink.ledger.faults).toEqual([]);
});

test.each([
  ["defer-451@b.test", 451, "451 4.7.1 greylisted, try again later"],
  ["refuse-550@b.test", 550, "550 5.1.1 no such user"],
  ["refuse-550-5.7.1+7@b.test", 550, "550 5.7.1 no such user"],
  ["defer-data-452@b.test", 452, "452 4.2.2 mailbox full"],
  ["refuse-data-554@b.test", 554, "554 5.7.1 refused by policy"],
])("%s is answered %i", async (address, code, reply) => {
  const error = await failure(send(await newClient(), address));
  expect(error.responseCode).toBe(code);
  expect(sink.ledger.repliesTo(address)).toEqual([reply]);
  expect(sink.ledger.mails).toEqual([]);
});

test("defer-421@ is answered 421, and the sink hangs up", async () => {
  const client = await newClient();
  const ended = once(client, "end");
  expect((await failure(send(client, "defer-421@b.test"))).responseCode).toBe(421);
  await ended;
});

test("a refused recipient does not hold up the others", async () => {
  await send(await newClient(), ["refuse-550@b.test", "anna@b.test"]);
  expect(sink.ledger.mails[0]?.to).toEqual(["anna@b.test"]);
});

test("once-451@ fails the first time and is accepted from then on", async () => {
  const client = await newClient();
  await failure(send(client, "once-451+a@b.test"));
  await new Promise((resolve) => client.reset(resolve));
  await send(client, "once-451+a@b.test");
  expect(sink.ledger.repliesTo("once-451+a@b.test")).toEqual([
    "451 4.7.1 greylisted, try again later",
    "250 2.0.0 taken",
  ]);
});

test("slow-80@ is answered after 80 ms", async () => {
  const client = await newClient();
  const before = performance.now();
  await send(client, "slow-80@b.test");
  expect(performance.now() - before).toBeGreaterThan(75);
});

test("a client that leaves before a slow answer has left its mail behind", async () => {
  const socket = connect(sink.port, "127.0.0.1");
  socket.write("EHLO x\r\nMAIL FROM:<a@a.test>\r\nRCPT TO:<slow-1000@b.test>\r\nDATA\r\n");
  await once(socket, "data");
  socket.end("Message-ID: <1@test>\r\n\r\n.\r\n");
  await once(socket, "close");
  expect(await sink.ledger.received(1)).toMatchObject([{ messageId: "1@test", reply: null }]);
});

test("hang-after-data@ is never answered and not taken", async () => {
  const client = await newClient();
  const failed = failure(send(client, "hang-after-data@b.test"));
  expect(await sink.ledger.replied("hang-after-data@b.test", 1)).toEqual(["never answered"]);
  expect(sink.openConnections).toBe(1);
  sink.breakConnections();
  await failed;
  expect(sink.ledger.mails).toEqual([]);
});

test("drop-in-data@ breaks the connection and keeps nothing, drop-after-data@ keeps the mail", async () => {
  expect((await failure(send(await newClient(), "drop-in-data@b.test"))).responseCode).toBeUndefined();
  expect(sink.ledger.mails).toEqual([]);
  expect((await failure(send(await newClient(), "drop-after-data@b.test"))).responseCode).toBeUndefined();
  expect(sink.ledger.mails).toMatchObject([{ messageId: "1@test", reply: null }]);
});

test("mail-from-550@ as a sender is refused", async () => {
  const client = await newClient();
  const error = await failure(send(client, "anna@b.test", { from: "mail-from-550-5.7.1@a.test" }));
  expect(error.response).toBe("550 5.7.1 no such user");
});

test("bad weather: greetings, EHLO and a share of the mail fail, and the same seed fails the same way", async () => {
  sink.turn({ greetingCode: 554 });
  await expect(newClient()).rejects.toMatchObject({ responseCode: 554 });
  sink.turn({ greetingCode: null, heloCode: 421 });
  await expect(newClient()).rejects.toThrow();
  sink.turn({ heloCode: null, deferPercent: 20, refusePercent: 10 });
  const kinds = () =>
    Array.from({ length: 1000 }, (_, n) => sink.mannerOf(`r${n}@b.test`))
      .map((manner) => (manner.kind === "reply to rcpt" ? manner.reply.slice(0, 3) : "250"))
      .join(" ");
  const drawn = kinds();
  expect(drawn.split("451").length - 1).toBeGreaterThan(150);
  expect(drawn.split("550").length - 1).toBeGreaterThan(60);
  const { weather } = sink;
  await sink.close();
  sink = await openSink();
  sink.turn(weather);
  expect(kinds()).toBe(drawn);
});

test("down refuses and breaks connections, up listens under the same port", async () => {
  const client = await newClient();
  const ended = once(client, "end");
  const { port } = sink;
  await sink.down();
  await ended;
  await expect(newClient()).rejects.toMatchObject({ originalCode: "ECONNREFUSED" });
  await sink.up();
  expect(sink.port).toBe(port);
  await send(await newClient(), "anna@b.test");
});

test("the ledger tells what is missing, unexpected and there twice", async () => {
  const client = await newClient();
  for (const id of ["a", "b", "b", "x"]) await send(client, "anna@b.test", { id });
  expect(sink.ledger.compare(["a@test", "b@test", "c@test"])).toEqual({
    missing: ["c@test"],
    unexpected: ["x@test"],
    repeated: ["b@test"],
  });
});

test("a wait that is not fulfilled says how far it got", async () => {
  await send(await newClient(), "anna@b.test");
  await expect(sink.ledger.received(2, () => true, 20)).rejects.toThrow("the sink got 1 of 2 mails in 20 ms");
});

test("a client that speaks badly is found out, however its bytes are cut", async () => {
  const body = "Message-ID: <raw@test>\r\n\r\n.naked dot\r\nbare\nlf\r\nbare\rcr\r\n\xe4\r\n";
  const talk = `EHLO x\r\nMAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n${body}.\r\nQUIT\r\n`;
  const socket = connect(sink.port, "127.0.0.1");
  socket.setNoDelay(true);
  for (const byte of Buffer.from(talk, "latin1")) {
    socket.write(Buffer.of(byte));
    await new Promise(setImmediate);
  }
  const [mail] = await sink.ledger.received(1);
  expect(mail?.raw?.toString("latin1")).toBe(body);
  expect(sink.ledger.faults.map((fault) => fault.replace(/^connection 1: /, ""))).toEqual([
    "a dot not doubled at byte 26",
    "a bare LF in the message at byte 42",
    "a bare CR in the message at byte 51",
    "8-bit bytes without BODY=8BITMIME",
  ]);
});

test("an empty message ends at its first dot", async () => {
  const socket = connect(sink.port, "127.0.0.1");
  socket.write("EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n");
  await once(socket, "data");
  socket.write(".\r\nQUIT\r\n");
  const [mail] = await sink.ledger.received(1);
  expect(mail).toMatchObject({ from: "", sizeBytes: 0, messageId: "" });
  await once(socket, "end");
});
