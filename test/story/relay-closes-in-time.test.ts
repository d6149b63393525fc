/** Closing: what is under way is finished, what waits comes back, and the deadline holds. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { ALWAYS, mailTo, openPeer, type RelayUnderTest, relayTo } from "../rig/peer.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");
const LONG_MS = 10_000;

let sink: Sink;

beforeEach(async () => {
  sink = await openSink();
});

afterEach(() => sink.close());

async function send({ relay }: RelayUnderTest, to = "a@b.test"): Promise<string> {
  const [reply] = await relay.send(mailTo(to), MESSAGE, ALWAYS);
  return `${reply?.phase} ${reply?.code ?? reply?.error}`;
}

test("a mail under way gets its answer; those behind it come back unsent", async () => {
  const under = relayTo(sink.port);
  const slow = send(under, "slow-100@b.test");
  const behind = [send(under), send(under)];
  await expect.poll(() => under.relay.figures.waiting).toBe(2);
  await under.relay.close(LONG_MS);
  expect(await slow).toBe("dot 250");
  expect(await Promise.all(behind)).toEqual(["session CLOSING", "session CLOSING"]);
  expect(await send(under)).toBe("session CLOSING");
  await expect.poll(() => sink.openConnections).toBe(0);
});

test("idle connections are told QUIT", async () => {
  const peer = await openPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.takeMail();
    await talk.hear("QUIT");
    talk.say("221 bye");
  });
  const under = relayTo(peer.port);
  await send(under);
  await under.relay.close(LONG_MS);
  await peer.talks[0]?.gone();
  expect(peer.talks[0]?.heard.at(-1)).toBe("QUIT");
  await peer.close();
});

test("what is not answered by the deadline is given up, as possibly delivered", async () => {
  const under = relayTo(sink.port);
  const hanging = send(under, "hang-after-data@b.test");
  await sink.ledger.replied("hang-after-data@b.test", 1);
  await under.relay.close(20);
  expect(await hanging).toBe("dot CLOSING");
});

test("what the receiver has all of is waited for longer than what it has not", async () => {
  const under = relayTo(sink.port);
  const slow = send(under, "slow-300@b.test");
  await sink.ledger.replied("slow-300@b.test", 1);
  await under.relay.close(20, LONG_MS);
  expect(await slow).toBe("dot 250");
  const peer = await openPeer(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.hearEnvelope();
    await talk.gone();
  });
  const another = relayTo(peer.port);
  const hanging = send(another);
  await expect.poll(() => peer.talks[0]?.heard.at(-1)).toBe("DATA");
  await another.relay.close(20, LONG_MS);
  expect(await hanging).toMatch(/ CLOSING$/);
  await peer.close();
});

test("a connection that is being opened is given up at once", async () => {
  const peer = await openPeer(async (talk) => talk.gone());
  const under = relayTo(peer.port);
  const sent = send(under);
  await expect.poll(() => peer.talks.length).toBe(1);
  await under.relay.close(LONG_MS);
  expect(await sent).toBe("session CLOSING");
  await peer.close();
});

test("closing what was never used, or twice, is no trouble", async () => {
  const under = relayTo(sink.port);
  await under.relay.close(LONG_MS);
  await under.relay.close(LONG_MS);
});
