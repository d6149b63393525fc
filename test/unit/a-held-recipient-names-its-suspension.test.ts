import { expect, test } from "vitest";
import { type Mailbox, parseMailbox } from "../../src/address.ts";
import { attempted, judged } from "../../src/outcome/attempt.ts";
import type { OpenEmail } from "../../src/record/mail/bagleases.ts";
import { type Reply, replyOf, troubleOf } from "../../src/smtp/reply.ts";

const NOW = 1_800_000_000_000;
const MINUTE_MS = 60_000;
const recipients = ["one@a.test", "two@b.test"].map((text) => parseMailbox(text) as Mailbox);
const bag = { workspaceId: "w", id: "b", generation: 0, token: "t" };
const email = { marks: "oo", attempts: 0, sentAt: null, triedSince: null, triedMs: null } as OpenEmail;
const rules = {
  carriesTo: "receivers" as const,
  retrySchedule: [300],
  lifetimeMs: 3_600_000,
  hasFeedback: () => false,
  hashOf: (identity: string) => Buffer.from(identity),
  countsSoft: false,
  onOutcome: () => {},
  providerOf: () => "",
  random: () => 0,
};

const noteOf = (...replies: Reply[]) =>
  attempted(
    bag,
    email,
    recipients,
    replies.map((reply) => judged(reply, email, NOW, rules)),
    { beganAt: NOW, at: NOW, shown: "" },
    rules,
  ).note;
const held = (destination: string, minutes: number): Reply => ({
  ...troubleOf("session", "SUSPENDED", "suspended"),
  retryMs: minutes * MINUTE_MS,
  heldBy: destination,
});
const limited = (seconds: number): Reply => ({
  ...troubleOf("session", "LIMITED", "the limit is reached"),
  retryMs: seconds * 1_000,
});
const taken = replyOf("dot", 250, "250 taken");
const later = replyOf("rcpt", 451, "451 later");

test("it waits for the suspension that ends first, without an attempt", () => {
  expect(noteOf(held("a.test", 60), held("b.test", 10))).toMatchObject({
    attemptedAt: null,
    nextAt: NOW + 10 * MINUTE_MS,
    heldBy: "b.test",
    domain: "b.test",
    events: [],
    counts: {},
  });
});

test("a recipient whose turn comes sooner does not wait for the suspension of another", () => {
  expect(noteOf(held("a.test", 60), limited(12))).toMatchObject({ nextAt: NOW + 12_000, heldBy: null });
});

test("when the others got theirs, it waits for the suspension alone", () => {
  expect(noteOf(taken, held("b.test", 10))).toMatchObject({
    status: "deferred",
    marks: "do",
    nextAt: NOW + 10 * MINUTE_MS,
    heldBy: "b.test",
  });
});

test("when another is to be tried again, that is when it is tried again", () => {
  expect(noteOf(later, held("b.test", 10))).toMatchObject({ nextAt: NOW + 300_000, heldBy: null });
});

test("an e-mail is given its turn to the second, whatever else comes in a while", () => {
  expect(noteOf(limited(2), limited(3)).nextAt).toBe(NOW + 2_000);
});
