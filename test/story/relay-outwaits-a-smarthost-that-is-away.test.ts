/** No smarthost, no hurry: bounded attempts, bounded waiting, and mails that flow again by themselves. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { ALWAYS, mailTo, type RelayUnderTest, relayTo } from "../rig/peer.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");

let sink: Sink;
const relays: RelayUnderTest[] = [];

beforeEach(async () => {
  sink = await openSink();
});

afterEach(async () => {
  for (const { relay } of relays.splice(0)) await relay.close(0);
  await sink.close();
});

function newRelay(options: Parameters<typeof relayTo>[1] = {}): RelayUnderTest {
  const under = relayTo(sink.port, options);
  relays.push(under);
  return under;
}

function send({ relay }: RelayUnderTest) {
  return relay.send(mailTo(["a@b.test", "c@b.test"]), MESSAGE, ALWAYS);
}

test("a mail that waited too long for a connection comes back unsent, with the reason for each recipient", async () => {
  await sink.down();
  const under = newRelay();
  const replies = await under.until(send(under));
  expect(replies).toHaveLength(2);
  for (const reply of replies) {
    expect(reply).toMatchObject({ phase: "connect", code: null, error: "ECONNREFUSED" });
    expect(reply.text).toContain(`127.0.0.1:${sink.port}`);
  }
  expect(under.relay.figures).toMatchObject({ waiting: 0, conversations: 0 });
});

test("mails that wait go out when the smarthost is back", async () => {
  await sink.down();
  const under = newRelay({ pool: 5 });
  const sent = Array.from({ length: 20 }, () => send(under));
  await expect.poll(() => under.relay.figures.trouble?.error).toBe("ECONNREFUSED");
  expect(under.faults).toHaveLength(1);
  await sink.up();
  for (const replies of await Promise.all(sent)) expect(replies.map(({ code }) => code)).toEqual([250, 250]);
  expect(under.relay.figures.trouble).toBeNull();
});

test("a smarthost that turns everyone away is asked by one connection at a time, ever more seldom", async () => {
  sink.turn({ greetingCode: 554 });
  const under = newRelay({ pool: 10, limits: { waitMsMax: 10_000_000 }, isTimeStill: true });
  const sent = Array.from({ length: 50 }, () => send(under));
  await expect.poll(() => under.relay.figures.trouble?.code).toBe(554);
  // the pool was opened at once; from then on it is one by one
  await expect.poll(() => sink.connections).toBe(10);
  await expect.poll(() => under.relay.figures.conversations).toBe(0);
  for (let n = 1; n <= 3; n++) {
    under.pass(5_001);
    await expect.poll(() => sink.connections).toBe(10 + n);
    await expect.poll(() => under.relay.figures.conversations).toBe(0);
  }
  sink.clearUp();
  under.pass(5_001);
  for (const replies of await Promise.all(sent)) expect(replies[0]?.code).toBe(250);
});

test("a smarthost that allows fewer connections than the pool has is served by those", async () => {
  const under = newRelay({ pool: 3 });
  await Promise.all([send(under), send(under)]);
  sink.turn({ greetingCode: 421 });
  const sent = Array.from({ length: 30 }, () => send(under));
  for (const replies of await Promise.all(sent)) expect(replies[0]?.code).toBe(250);
});

test("no more wait than may; the rest hear at once that it is too much", async () => {
  await sink.down();
  const under = newRelay({ limits: { waitingMax: 3 } });
  const sent = Array.from({ length: 3 }, () => send(under));
  expect((await send(under)).map(({ error }) => error)).toEqual(["BUSY", "BUSY"]);
  await under.until(Promise.all(sent));
});

test("a rate in all is kept, and what waits while others get their turn is not sent back", async () => {
  const under = newRelay({ pool: 3, ratePerSecond: 100, limits: { waitMsMax: 150 }, isTimeStill: true });
  const sent = Array.from({ length: 40 }, () => send(under));
  // the first, and a tenth of a second that may run ahead
  await sink.ledger.received(11);
  for (let taken = 11; taken < sent.length; taken++) {
    expect(sink.ledger.mails).toHaveLength(taken);
    under.pass(10);
    await sink.ledger.received(taken + 1);
  }
  const replies = (await Promise.all(sent)).flat();
  expect(new Set(replies.map(({ code }) => code))).toEqual(new Set([250]));
});

test("a rate per connection is kept", async () => {
  const each = newRelay({ pool: 2, conversationRatePerSecond: 50 });
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: 40 }, () => send(each)));
  expect(performance.now() - startedAt).toBeGreaterThan(280);
});
