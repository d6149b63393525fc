import type { ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { newId } from "../../src/ids.ts";
import type { HeldWebhook, SpanEvent } from "../../src/record/outbox/dispatch.ts";
import { egressRules } from "../../src/webhooks/endpoint.ts";
import { newSecret, SecretSealer } from "../../src/webhooks/secret.ts";
import { EndpointSender, type Stream } from "../../src/webhooks/sender.ts";
import { openReceiver, type Receiver } from "../rig/hookreceiver.ts";

const RULES = egressRules([{ address: "127.0.0.0", prefix: 8 }]);
const SEALER = new SecretSealer("a secret of this test, long enough");
const NO_DNS = { resolve4: () => Promise.reject(), resolve6: () => Promise.reject() } as never;

let receiver: Receiver;
const senders: EndpointSender[] = [];
beforeAll(async () => {
  receiver = await openReceiver();
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  for (const sender of senders) sender.end();
  await receiver.close();
});

function senderTo(receiver: Receiver, replay: HeldWebhook["replay"] = null): EndpointSender {
  return senderOf(heldFor(receiver, replay));
}

/** An endpoint that was told ten events. */
function heldFor(receiver: Receiver, replay: HeldWebhook["replay"] = null): HeldWebhook {
  const key = { workspaceId: newId(0), id: newId(0) };
  return {
    ...key,
    endpoint: receiver.url(),
    secrets: SEALER.seal(key, [{ secret: newSecret(), until: null }]),
    ...{ events: null, cursor: 10, failures: 0, retryAt: null, updatedAt: new Date(0), isOpen: true, replay },
  };
}

function senderOf(held: HeldWebhook): EndpointSender {
  const sender = new EndpointSender(held, {
    ...{ sealer: SEALER, rules: RULES, dns: NO_DNS },
    ...{ now: () => Date.now(), random: () => 0, onChange: () => {} },
  });
  senders.push(sender);
  return sender;
}

function eventOf(subjectId: string, sequence: number): SpanEvent {
  const nothing = { email: null, contact: null, domain: null, cap: null, entry: null, detail: null };
  const what = { type: "email.sent", at: new Date(0), subjectId, sequence };
  return { ...nothing, ...what, place: 0, isWanted: true, isBehind: false };
}

/** What is sent from now on is answered by the test. */
function answers(): ServerResponse[] {
  const open: ServerResponse[] = [];
  receiver.answerWith = (_, response) => open.push(response);
  return open;
}

/** What takes a tenth of a second would get a row. */
function standStill(): void {
  const now = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => now);
}

test("what waits behind an event that has no row gets none either: nothing would let it go", async () => {
  standStill();
  const sender = senderTo(receiver, { id: newId(0), cursor: 4, last: 5 });
  const open = answers();
  const [main, replayed] = sender.spans.map(({ stream }) => stream) as [Stream, Stream];
  const subject = newId(0);
  sender.takeSpan(replayed, [eventOf(subject, 5)], 5, 0);
  sender.takeSpan(main, [eventOf(subject, 11)], 11, 0);
  expect(sender.report()).toMatchObject({ rows: [], progress: { cursor: 10 } });
  await expect.poll(() => open).toHaveLength(1);
  // its owner disables it now
  sender.close();
  open[0]?.end("ok");
  await expect.poll(() => sender.isSending).toBe(false);
  expect(sender.report()).toMatchObject({ rows: [], freed: [], progress: { cursor: 10 } });
});

test("a replay goes as far as the endpoint was told, and what lies beyond is told in its turn", async () => {
  const replay = { id: newId(0), cursor: 7, last: 20 };
  const held = heldFor(receiver);
  const open = answers();
  expect(senderOf({ ...held, replay }).spans.map(({ stream }) => stream.last)).toEqual([null, 10]);
  const sender = senderOf(held);
  const [main] = sender.spans.map(({ stream }) => stream) as [Stream];
  const subject = newId(0);
  sender.takeSpan(main, [eventOf(newId(1), 11), eventOf(subject, 12)], 12, 0);
  await expect.poll(() => open).toHaveLength(2);
  open[0]?.end("ok");
  await expect.poll(() => sender.inHand).toBe(1);
  // told a moment ago, and not written down
  sender.follow({ ...held, replay });
  // what is being told for the first time is not overtaken by what was told of the same e-mail before
  expect(sender.spans.map(({ stream }) => stream)).toEqual([main]);
  open[1]?.end("ok");
  await expect.poll(() => sender.inHand).toBe(0);
  const [, replayed] = sender.spans.map(({ stream }) => stream) as [Stream, Stream];
  expect(replayed).toMatchObject({ readTo: 7, last: 12 });
  sender.takeSpan(main, [eventOf(subject, 13)], 13, 0);
  expect(sender.spans.map(({ stream }) => stream)).toEqual([main, replayed]);
  await expect.poll(() => open).toHaveLength(3);
  open[2]?.end("ok");
});

test("a replay of nothing that the endpoint was told is over at once", () => {
  const replay = { id: newId(0), cursor: 10, last: 20 };
  const held = heldFor(receiver);
  const sender = senderOf({ ...held, replay });
  expect(sender.spans).toHaveLength(1);
  expect(sender.hasNews).toBe(true);
  expect(sender.report()?.progress).toMatchObject({ cursor: 10, replay: { id: replay.id, isOver: true } });
  expect(sender.report()).toBe(null);
  const next = { id: newId(0), cursor: 30, last: 40 };
  sender.follow({ ...held, replay: next });
  expect(sender.report()?.progress).toMatchObject({ cursor: 10, replay: { id: next.id, isOver: true } });
});

test("of one e-mail, what follows an event with a row has one too, which the first lets go", async () => {
  const sender = senderTo(receiver);
  const open = answers();
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  const subject = newId(0);
  sender.takeSpan(stream, [eventOf(subject, 11), eventOf(subject, 12)], 12, 0);
  await expect.poll(() => open).toHaveLength(1);
  const later = performance.now() + 200;
  vi.spyOn(performance, "now").mockImplementation(() => later);
  const report = sender.report();
  expect(report?.rows).toMatchObject([
    { sequence: 11, dueAt: expect.any(Number) },
    { sequence: 12, dueAt: null },
  ]);
  expect(report?.progress.cursor).toBe(12);
  open[0]?.end("ok");
  await expect.poll(() => open).toHaveLength(2);
  expect(sender.report()).toMatchObject({ done: [{ sequence: 11 }], freed: [{ subjectId: subject }] });
  open[1]?.end("ok");
});

test("contents that were read long ago are read again before they are sent", async () => {
  const sender = senderTo(receiver);
  const open = answers();
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  const events = Array.from({ length: 6 }, (_, n) => eventOf(newId(n), 11 + n));
  sender.takeSpan(stream, events, 16, 0);
  // as many as it has connections
  await expect.poll(() => open).toHaveLength(4);
  const later = performance.now() + 11_000;
  vi.spyOn(performance, "now").mockImplementation(() => later);
  open[0]?.end("ok");
  await expect.poll(() => sender.inHand).toBe(3);
  expect(sender.report()?.rows.filter(({ sequence }) => sequence > 14)).toMatchObject([
    { sequence: 15, tries: 0, dueAt: expect.any(Number) },
    { sequence: 16, tries: 0, dueAt: expect.any(Number) },
  ]);
  expect(open).toHaveLength(4);
});

test("a row that was read before its event was taken does not send it again", async () => {
  const sender = senderTo(receiver);
  const open = answers();
  const due = { ...eventOf(newId(0), 9), webhookId: sender.key.id, tries: 1 };
  sender.takeDue([due]);
  await expect.poll(() => open).toHaveLength(1);
  open[0]?.end("ok");
  await expect.poll(() => sender.inHand).toBe(0);
  sender.takeDue([due]);
  expect(sender.inHand).toBe(0);
  expect(sender.report()).toMatchObject({ done: [{ sequence: 9 }] });
});

test("of events with very many addresses few are in hand", () => {
  const sender = senderTo(receiver);
  answers();
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  const to = Array.from({ length: 50 }, () => "a".repeat(1_000));
  const head = { from: "a@example.com", to, cc: [], bcc: [], reply_to: [], subject: "many" };
  const email = { head, createdAt: new Date(0).toISOString(), entry: null, tags: null };
  let sequence = 11;
  const take = (count: number) => {
    const events = Array.from({ length: count }, () => ({ ...eventOf(newId(sequence), sequence++), email }));
    sender.takeSpan(stream, events, sequence - 1, 0);
  };
  expect(sender.room).toBe(48);
  take(1);
  take(sender.room);
  expect(sender.inHand).toBeLessThan(15);
  expect(sender.room).toBe(0);
});

test("events that the log held no longer are told of once nobody reads that part of it again", async () => {
  const own = await openReceiver();
  const open = new Map<unknown, ServerResponse>();
  own.answerWith = ({ event }, response) => open.set(event.data.email_id, response);
  const sender = senderTo(own);
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  const [before, behind] = [newId(0), newId(0)];
  standStill();
  sender.takeSpan(stream, [eventOf(before, 11)], 11, 0);
  sender.takeSpan(stream, [eventOf(behind, 20)], 20, 8);
  sender.skipTo(stream, 25);
  await expect.poll(() => open.size).toBe(2);
  // whoever takes up the endpoint from here finds the gap again
  expect(sender.report()?.progress).toMatchObject({ cursor: 10, missed: 0 });
  open.get(before)?.end("ok");
  await expect.poll(() => sender.inHand).toBe(1);
  expect(sender.report()?.progress).toMatchObject({ cursor: 19, missed: 8 });
  open.get(behind)?.end("ok");
  await expect.poll(() => sender.inHand).toBe(0);
  expect(sender.report()?.progress).toMatchObject({ cursor: 25, missed: 5 });
  await own.close();
});

test("an answer to what was sent before ends no pause that the receiver asked for", async () => {
  const sender = senderTo(receiver);
  const open = answers();
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  sender.takeSpan(stream, [eventOf(newId(0), 11), eventOf(newId(1), 12)], 12, 0);
  await expect.poll(() => open).toHaveLength(2);
  open[0]?.writeHead(429, { "retry-after": "3600" }).end();
  await expect.poll(() => sender.report()?.progress.retryAt).toBeGreaterThan(Date.now());
  open[1]?.end("ok");
  await expect.poll(() => sender.isSending).toBe(false);
  expect(sender.spans).toEqual([]);
  // it was being read when the receiver asked for the pause
  sender.takeSpan(stream, [eventOf(newId(2), 13)], 13, 0);
  expect(sender.isSending).toBe(false);
  expect(stream.readTo).toBe(12);
});

test("of an endpoint that is gone its owner hears, whatever else it answers", async () => {
  const sender = senderTo(receiver);
  const open = answers();
  const [stream] = sender.spans.map(({ stream }) => stream) as [Stream];
  sender.takeSpan(stream, [eventOf(newId(0), 11), eventOf(newId(1), 12)], 12, 0);
  await expect.poll(() => open).toHaveLength(2);
  open[0]?.writeHead(410).end();
  await expect.poll(() => sender.spans).toEqual([]);
  open[1]?.end("ok");
  await expect.poll(() => sender.isSending).toBe(false);
  expect(sender.report()).toMatchObject({ progress: { isGone: true, failingSince: expect.any(Number) } });
});
