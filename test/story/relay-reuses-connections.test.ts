/** Connections are kept, used again, and given up in time; a dead one costs no mail an attempt. */
import { afterEach, expect, test } from "vitest";
import type { Reply } from "../../src/smtp/reply.ts";
import {
  ALWAYS,
  mailTo,
  openPeer,
  type RelayUnderTest,
  relayTo,
  type ScriptedPeer,
  type Talk,
} from "../rig/peer.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");
const CHAINED = ["MAIL FROM:<sender@a.test>", "RCPT TO:<a@b.test>", "DATA"];

const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function newSink(): Promise<Sink> {
  const sink = await openSink();
  open.push(sink);
  return sink;
}

async function newPeer(script: (talk: Talk) => Promise<void>): Promise<ScriptedPeer> {
  const peer = await openPeer(script);
  open.push(peer);
  return peer;
}

function newRelay(port: number, options: Parameters<typeof relayTo>[1] = {}): RelayUnderTest {
  // mails are chained only where a receiver answers quickly
  const under = relayTo(port, { isTimeStill: true, ...options });
  open.push({ close: () => under.relay.close(0) });
  return under;
}

async function send({ relay }: RelayUnderTest, to = "a@b.test"): Promise<Reply> {
  const [reply] = await relay.send(mailTo(to), MESSAGE, ALWAYS);
  return reply as Reply;
}

function sendMany(under: RelayUnderTest, count: number, to?: string): Promise<Reply[]> {
  return Promise.all(Array.from({ length: count }, () => send(under, to)));
}

function allTaken(replies: Reply[]): boolean {
  return replies.every(({ phase, code }) => phase === "dot" && code === 250);
}

test("a hundred mails at once share as many connections as the pool has, and leave well-spoken", async () => {
  const sink = await newSink();
  const under = newRelay(sink.port, { pool: 4 });
  expect(allTaken(await sendMany(under, 100))).toBe(true);
  expect(sink.connections).toBe(4);
  expect(sink.ledger.mails).toHaveLength(100);
  expect(sink.ledger.faults).toEqual([]);
  expect(under.relay.figures).toEqual({ waiting: 0, conversations: 4, idle: 4, trouble: null });
});

test("one mail at a time uses the connection that was used last; the others grow idle and are ended", async () => {
  const quits: number[] = [];
  const peer = await newPeer(async (talk) => {
    await talk.hello("PIPELINING");
    for (;;) {
      await Promise.race([talk.takeMail(), talk.gone()]);
      if (talk.unheard.startsWith("QUIT") || talk.heard.at(-1) === "QUIT") quits.push(talk.number);
    }
  });
  const under = newRelay(peer.port, { pool: 3 });
  await sendMany(under, 3);
  for (let n = 0; n < 5; n++) await send(under);
  const counts = peer.talks.map((talk) => talk.heard.filter((line) => line === "(message)").length);
  expect(counts.sort()).toEqual([1, 1, 6]);
  expect(under.relay.figures.idle).toBe(3);
  under.pass(10_001);
  await Promise.all(peer.talks.map((talk) => talk.gone()));
  expect(under.relay.figures.conversations).toBe(0);
});

test("a connection is ended with QUIT after its share of mails, or when it is old", async () => {
  const sink = await newSink();
  const under = newRelay(sink.port, { limits: { conversationDeliveriesMax: 3 } });
  expect(allTaken(await sendMany(under, 7))).toBe(true);
  expect(sink.ledger.mails.map((mail) => mail.connection)).toEqual([1, 1, 1, 2, 2, 2, 3]);

  const old = newRelay(sink.port);
  for (let n = 0; n <= 40; n++) {
    await send(old);
    old.pass(9_000);
  }
  // the one mail that finds it older than 300 s is its last
  const carriers = sink.ledger.mails.slice(7).map((mail) => mail.connection);
  expect(carriers).toEqual([...Array(35).fill(4), ...Array(6).fill(5)]);
  expect(sink.ledger.faults).toEqual([]);
});

test.each(["closes", "says 421 and closes", "is found closing"])(
  "a peer that %s while idle costs the next mail nothing",
  async (manner) => {
    const peer = await newPeer(async (talk) => {
      await talk.hello("PIPELINING");
      await talk.takeMail();
      if (talk.number > 1) await talk.gone();
      if (manner === "is found closing") await talk.hear("MAIL");
      if (manner !== "closes") talk.say("421 4.4.2 timeout");
      talk.break();
    });
    const under = newRelay(peer.port);
    expect(allTaken([await send(under), await send(under)])).toBe(true);
    expect(peer.talks).toHaveLength(2);
    expect(peer.surprises).toEqual([]);
  },
);

test("when a whole pool has died unnoticed, every mail finds a fresh connection", async () => {
  let taken = 0;
  const peer = await newPeer(async (talk) => {
    await talk.hello("PIPELINING");
    for (let n = 0; n < 1 || talk.number > 4; n++) {
      await talk.takeMail();
      taken++;
    }
    await talk.hear("MAIL"); // and never a word again
    await talk.gone();
  });
  const under = newRelay(peer.port, { pool: 4, limits: { waitMsMax: 10_000_000 } });
  await sendMany(under, 4);
  expect(allTaken(await under.until(sendMany(under, 4)))).toBe(true);
  expect(taken).toBe(8);
});

test("a peer that dies on every mail is not tried for ever", async () => {
  const peer = await newPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.hear("MAIL");
    talk.break();
  });
  expect(await send(newRelay(peer.port))).toMatchObject({ phase: "mail", error: "ECONNRESET" });
  expect(peer.talks).toHaveLength(1);
});

test("under load the next envelope leaves together with the final dot", async () => {
  const together: string[][] = [];
  const peer = await newPeer(async (talk) => {
    await talk.hello("PIPELINING");
    for (let n = 0; n < 5; n++) {
      await talk.hearEnvelope();
      talk.say("354 go on");
      await talk.hearMessage();
      together.push(talk.unheard.split("\r\n").filter((line) => line !== ""));
      talk.say("250 2.0.0 taken");
    }
  });
  const under = newRelay(peer.port);
  const replies = await Promise.all(["a", "a", "a", "a", "a"].map((name) => send(under, `${name}@b.test`)));
  expect(allTaken(replies)).toBe(true);
  // the first tells how quickly this peer answers, and nobody waits behind the last
  expect(together).toEqual([[], CHAINED, CHAINED, CHAINED, []]);
});

test("without PIPELINING nothing is chained", async () => {
  const sink = await newSink();
  sink.options.pipelining = false;
  const under = newRelay(sink.port);
  expect(allTaken(await sendMany(under, 10))).toBe(true);
  expect(sink.ledger.faults).toEqual([]);
});

test("a refusal among chained mails concerns only its own", async () => {
  const sink = await newSink();
  const under = newRelay(sink.port);
  const to = [
    "a@b.test",
    "b@b.test",
    "refuse-data-554@b.test",
    "c@b.test",
    "refuse-550@b.test",
    "d@b.test",
    "e@b.test",
  ];
  const replies = await Promise.all(to.map((address) => send(under, address)));
  expect(replies.map(({ phase, code }) => `${phase} ${code}`)).toEqual([
    "dot 250",
    "dot 250",
    "dot 554",
    "dot 250",
    "rcpt 550",
    "dot 250",
    "dot 250",
  ]);
  expect(sink.ledger.mails.map((mail) => mail.to[0])).toEqual([
    "a@b.test",
    "b@b.test",
    "c@b.test",
    "d@b.test",
    "e@b.test",
  ]);
  expect(sink.ledger.faults).toEqual([]);
});

test.each(["421 4.7.0 enough for today", "break"])(
  "a mail chained to one that meets %s is carried elsewhere",
  async (end) => {
    const peer = await newPeer(async (talk) => {
      await talk.hello("PIPELINING");
      await talk.takeMail();
      if (talk.number === 1) {
        await talk.hearEnvelope();
        talk.say("354 go on");
        await talk.hearMessage();
        await talk.hear("MAIL");
        if (end !== "break") talk.say(end);
        talk.break();
      }
      for (;;) await talk.takeMail();
    });
    const under = newRelay(peer.port);
    const replies = await sendMany(under, 4);
    expect(replies.map(({ phase, code }) => `${phase} ${code}`)).toEqual([
      "dot 250",
      end === "break" ? "dot null" : "dot 421",
      "dot 250",
      "dot 250",
    ]);
  },
);

test("a mail chained to one that gets no answer is taken back and carried elsewhere", async () => {
  let hung = (): void => {};
  const isHanging = new Promise<void>((resolve) => {
    hung = resolve;
  });
  let answerLate = (): void => {};
  const peer = await newPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.takeMail();
    if (talk.number === 1) {
      await talk.hearEnvelope();
      talk.say("354 go on");
      await talk.hearMessage();
      await talk.hear("MAIL");
      answerLate = () => talk.say("250 at last", "250 sender", "250 recipient", "354 go on");
      hung();
      await talk.gone();
      expect(talk.unheard).toBe("RCPT TO:<a@b.test>\r\nDATA\r\n");
      return;
    }
    for (;;) await talk.takeMail();
  });
  const under = newRelay(peer.port, { pool: 1 });
  const [first, hanging, chained] = [send(under), send(under), send(under)];
  expect(allTaken([await first])).toBe(true);
  await isHanging;
  const wider = under.relay.figures;
  expect(wider).toMatchObject({ waiting: 0, conversations: 1 });
  under.pass(1_001);
  await expect.poll(() => under.relay.figures.waiting).toBe(1);
  answerLate();
  expect(await hanging).toMatchObject({ phase: "dot", code: 250, text: "250 at last" });
  expect(allTaken([await chained])).toBe(true);
  expect(peer.talks).toHaveLength(2);
  expect(peer.surprises).toEqual([]);
});

test("mails that hang do not hold up the others", async () => {
  const sink = await newSink();
  const under = newRelay(sink.port, { pool: 4, isTimeStill: false });
  await sendMany(under, 8);
  const hanging = sendMany(under, 3, "hang-after-data@b.test");
  const others = sendMany(under, 50);
  under.pass(0);
  await sink.ledger.received(8);
  expect(allTaken(await others)).toBe(true);
  expect((await under.until(hanging)).map(({ error }) => error)).toEqual(["TIMEOUT", "TIMEOUT", "TIMEOUT"]);
});
