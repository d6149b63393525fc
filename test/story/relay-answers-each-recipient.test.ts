/** The relay reports per recipient what the receiver said, and speaks proper SMTP while it does. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Reply } from "../../src/smtp/reply.ts";
import { ALWAYS, mailTo, openPeer, type RelayUnderTest, relayTo } from "../rig/peer.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const MESSAGE = Buffer.from("Message-ID: <1@test>\r\n\r\nhello\r\n");

let sink: Sink;
let under: RelayUnderTest;

beforeEach(async () => {
  sink = await openSink();
  under = relayTo(sink.port);
});

afterEach(async () => {
  await under.relay.close(0);
  await sink.close();
});

function send(to: string | string[], from?: string): Promise<Reply[]> {
  return under.relay.send(mailTo(to, from), MESSAGE, ALWAYS);
}

function inShort(replies: Reply[]): string[] {
  return replies.map(({ phase, code, error }) => `${phase} ${code ?? error}`);
}

for (const pipelining of [true, false]) {
  const how = pipelining ? "with PIPELINING" : "one command at a time";

  test(`${how}, some recipients are refused and the others get the mail`, async () => {
    sink.options.pipelining = pipelining;
    const to = ["a@b.test", "refuse-550@b.test", "defer-451@b.test", "c@b.test"];
    const replies = await send(to);
    expect(inShort(replies)).toEqual(["dot 250", "rcpt 550", "rcpt 451", "dot 250"]);
    expect(replies[1]).toEqual({
      phase: "rcpt",
      code: 550,
      enhanced: "5.1.1",
      text: "550 5.1.1 no such user",
      error: null,
      via: {
        host: "127.0.0.1",
        ip: "127.0.0.1",
        tls: null,
        isVerified: false,
        text: "127.0.0.1 127.0.0.1 - - - 127.0.0.1",
        doubt: null,
        localIp: "127.0.0.1",
      },
      tookMs: expect.any(Number),
    });
    const [mail] = await sink.ledger.received(1);
    expect(mail?.to).toEqual(["a@b.test", "c@b.test"]);
    expect(sink.ledger.faults).toEqual([]);
  });

  test(`${how}, a refused envelope is reset and the connection serves the next mail`, async () => {
    sink.options.pipelining = pipelining;
    expect(inShort(await send(["refuse-550@b.test", "defer-452@b.test"]))).toEqual(["rcpt 550", "rcpt 452"]);
    expect(inShort(await send("a@b.test", "mail-from-550@a.test"))).toEqual(["mail 550"]);
    expect(inShort(await send(["a@b.test", "b@b.test"], "mail-from-451@a.test"))).toEqual([
      "mail 451",
      "mail 451",
    ]);
    expect(inShort(await send("refuse-data-554@b.test"))).toEqual(["dot 554"]);
    expect(inShort(await send("a@b.test"))).toEqual(["dot 250"]);
    expect(sink.ledger.faults).toEqual([]);
    expect(sink.connections).toBe(1);
  });

  test(`${how}, a 421 to one recipient is the answer for all that had none, and ends the connection`, async () => {
    sink.options.pipelining = pipelining;
    const replies = await send(["refuse-550@b.test", "a@b.test", "defer-421@b.test", "c@b.test"]);
    expect(inShort(replies)).toEqual(["rcpt 550", "rcpt 421", "rcpt 421", "rcpt 421"]);
    expect(inShort(await send("a@b.test"))).toEqual(["dot 250"]);
    expect(sink.connections).toBe(2);
  });
}

test("an answer that is lost after the whole message is told from a refusal", async () => {
  expect(inShort(await send("drop-after-data@b.test"))).toEqual(["dot ECONNRESET"]);
  expect(sink.ledger.mails).toHaveLength(1);
});

test("when no answer comes to the final dot the wait has an end", async () => {
  const sent = send("hang-after-data@b.test");
  await sink.ledger.replied("hang-after-data@b.test", 1);
  under.pass(301_000);
  const [reply] = await sent;
  expect(reply).toMatchObject({ phase: "dot", code: null, error: "TIMEOUT" });
  expect(reply?.text).toContain("timed out, awaiting the answer to the final dot");
});

test("a large message that breaks off half-way was certainly not delivered", async () => {
  const peer = await openPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.hearEnvelope();
    talk.say("354 go on");
    talk.break();
  });
  const other = relayTo(peer.port);
  const large = Buffer.alloc(32 * 1024 * 1024, "0123456789\r\n");
  const [reply] = await other.relay.send(mailTo("a@b.test"), large, ALWAYS);
  expect(reply).toMatchObject({ phase: "data", code: null });
  await other.relay.close(0);
  await peer.close();
});

test("a large message arrives whole, and a receiver that refuses it half-way is heard", async () => {
  const large = Buffer.concat([MESSAGE, Buffer.alloc(6 * 1024 * 1024, "01234567\r\n.")]);
  expect(
    inShort(await send("a@b.test").then(() => under.relay.send(mailTo("b@b.test"), large, ALWAYS))),
  ).toEqual(["dot 250"]);
  expect(sink.ledger.faults.filter((fault) => !fault.includes("message line"))).toEqual([]);

  const peer = await openPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.hearEnvelope();
    talk.say("354 go on", "552 5.3.4 that is too much");
  });
  const other = relayTo(peer.port);
  const [reply] = await other.relay.send(mailTo("a@b.test"), Buffer.alloc(64 * 1024 * 1024, "x\r\n"), ALWAYS);
  expect(reply).toMatchObject({ phase: "data", code: 552 });
  await other.relay.close(0);
  await peer.close();
});

test.each([
  "a@b.test>\r\nRCPT TO:<victim@c.test",
  "a\r@b.test",
  "a\n@b.test",
  "a b@b.test",
  "<a@b.test>",
  "a@b.test SIZE=1",
  "a@b\u0000.test",
  "zoë@b.test",
  "a",
  '"a"b"@b.test',
  `${"a".repeat(400)}@b.test`,
])("the address %j never reaches the wire", async (address) => {
  expect(inShort(await send(address))).toEqual(["session ADDRESS_UNSAFE"]);
  expect(inShort(await send("a@b.test", address))).toEqual(["session ADDRESS_UNSAFE"]);
  expect(sink.connections).toBe(0);
});

test("quoted local parts and the null sender do", async () => {
  const peer = await openPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.takeMail();
    await talk.hear("QUIT");
  });
  const other = relayTo(peer.port);
  const replies = await other.relay.send(mailTo('"a \\" b"@b.test', ""), MESSAGE, ALWAYS);
  expect(inShort(replies)).toEqual(["dot 250"]);
  expect(peer.talks[0]?.heard.slice(1, 3)).toEqual(["MAIL FROM:<>", 'RCPT TO:<"a \\" b"@b.test>']);
  await other.relay.close(0);
  await peer.close();
});

test("what the receiver cannot take is not offered, and what it can is announced", async () => {
  const peer = await openPeer(async (talk) => {
    await talk.hello(
      "PIPELINING",
      ...(talk.number === 1
        ? ["SIZE 100"]
        : [talk.number === 2 ? "SIZE 0" : "SIZE -1", "8BITMIME", "SMTPUTF8"]),
    );
    for (;;) await talk.takeMail();
  });
  const plain = relayTo(peer.port);
  const utf8Mail = { from: "zoë@a.test", to: ["a@b.test"], utf8: true };
  expect(inShort(await plain.relay.send(utf8Mail, MESSAGE, ALWAYS))).toEqual([
    "session SMTPUTF8_NOT_OFFERED",
  ]);
  const big = Buffer.alloc(101, "x\r\n");
  expect(inShort(await plain.relay.send(mailTo("a@b.test"), big, ALWAYS))).toEqual(["session SIZE_EXCEEDED"]);
  expect(inShort(await plain.relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS))).toEqual(["dot 250"]);
  expect(peer.talks[0]?.heard).toContain(`MAIL FROM:<sender@a.test> SIZE=${MESSAGE.length}`);

  const able = relayTo(peer.port);
  await able.relay.send(utf8Mail, MESSAGE, ALWAYS);
  await able.relay.send(mailTo("a@b.test"), Buffer.from("\r\nZoë\r\n"), ALWAYS);
  const mails = peer.talks[1]?.heard.filter((line) => line.startsWith("MAIL"));
  expect(mails?.map((line) => Buffer.from(line, "latin1").toString())).toEqual([
    `MAIL FROM:<zoë@a.test> SIZE=${MESSAGE.length} BODY=8BITMIME SMTPUTF8`,
    "MAIL FROM:<sender@a.test> SIZE=8 BODY=8BITMIME",
  ]);
  const wrong = relayTo(peer.port);
  expect(inShort(await wrong.relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS))).toEqual(["dot 250"]);
  for (const { relay } of [plain, able, wrong]) await relay.close(0);
  await peer.close();
});

test("a mail that was taken back does not leave, not even after the receiver said go on", async () => {
  const never = { mayBegin: () => false };
  expect(inShort(await under.relay.send(mailTo("a@b.test"), MESSAGE, never))).toEqual(["session WITHDRAWN"]);
  const once = [true, false];
  const late = { mayBegin: () => once.shift() as boolean };
  expect(inShort(await under.relay.send(mailTo("a@b.test"), MESSAGE, late))).toEqual(["session WITHDRAWN"]);
  expect(inShort(await send("a@b.test"))).toEqual(["dot 250"]);
  expect(sink.ledger.mails).toHaveLength(1);
});
