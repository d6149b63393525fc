/**
 * What an attempt makes of the time for which an e-mail has been tried: it goes on with answers, and with
 * nothing else.
 */
import { expect, test } from "vitest";
import { type Mailbox, parseMailbox } from "../../src/address.ts";
import { attempted, judged } from "../../src/outcome/attempt.ts";
import type { OpenEmail } from "../../src/record/mail/bagleases.ts";
import { type Reply, replyOf, troubleOf } from "../../src/smtp/reply.ts";

const NOW = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const recipients = ["one@a.test", "two@b.test"].map((text) => parseMailbox(text) as Mailbox);
const bag = { workspaceId: "w", id: "b", generation: 0, token: "t" };
const rules = {
  carriesTo: "smarthost" as const,
  retrySchedule: [300],
  lifetimeMs: HOUR_MS,
  hasFeedback: () => false,
  hashOf: (identity: string) => Buffer.from(identity),
  countsSoft: false,
  onOutcome: () => {},
  providerOf: () => "",
  random: () => 0,
};

const untried = { marks: "oo", attempts: 0, sentAt: null, triedSince: null, triedMs: null } as OpenEmail;
const tried = { ...untried, attempts: 1, sentAt: NOW - 40_000, triedSince: NOW - 40_000 };
const stopped = { ...tried, triedSince: null, triedMs: 30_000 };

const taken = replyOf("dot", 250, "250 taken");
const later = replyOf("rcpt", 451, "451 later");
const away = troubleOf("connect", "ECONNREFUSED", "nobody is there");

const noteOf = (email: OpenEmail, replies: Reply[], tookMs = 0) =>
  attempted(
    bag,
    email,
    recipients,
    replies.map((reply) => judged(reply, email, NOW, rules)),
    { beganAt: NOW, at: NOW + tookMs, shown: "" },
    rules,
  ).note;

test("it stops where nobody could be asked, at the beginning of the attempt", () => {
  expect(noteOf(tried, [away, away], HOUR_MS).lifetime).toEqual({ stoppedAtMs: 40_000 });
  expect(noteOf(tried, [taken, away]).lifetime).toEqual({ stoppedAtMs: 40_000 });
  expect(noteOf(untried, [taken, away]).lifetime).toEqual({ stoppedAtMs: 0 });
});

test("it goes on with an answer about what is open, as if it had never waited", () => {
  expect(noteOf(stopped, [later, away], 500).lifetime).toEqual({ since: NOW - 30_000 });
});

test("nothing is written where nothing changes: most mail is never stopped", () => {
  expect(noteOf(untried, [later, later]).lifetime).toBeNull();
  expect(noteOf(untried, [away, away]).lifetime).toBeNull();
  expect(noteOf(untried, [taken, taken]).lifetime).toBeNull();
  expect(noteOf(tried, [later, later]).lifetime).toBeNull();
  expect(noteOf(stopped, [away, away]).lifetime).toBeNull();
});

test("it is over when it was tried for too long, not when an attempt or a wait took long", () => {
  const whys = (email: OpenEmail, tookMs: number) => noteOf(email, [later, later], tookMs).status;
  expect(whys(tried, 2 * HOUR_MS)).toBe("deferred");
  expect(whys({ ...tried, triedSince: NOW - HOUR_MS - 1 }, 0)).toBe("bounced");
  expect(whys({ ...stopped, triedMs: HOUR_MS }, 0)).toBe("deferred");
  expect(whys({ ...stopped, triedMs: HOUR_MS + 1 }, 0)).toBe("bounced");
});
