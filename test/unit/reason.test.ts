import fc from "fast-check";
import { expect, test } from "vitest";
import { ENDINGS, OPEN_STATUSES } from "../../src/rules/email.ts";
import { reasonOf, type Situation, type WaitReason } from "../../src/rules/reason.ts";

const NOW = Date.parse("2026-11-22T06:00:00Z");
const CASES = 10_000;

const situation = (more: Partial<Situation>): Situation => ({
  status: "accepted",
  waitingFor: null,
  nextAttemptAt: null,
  lastReply: null,
  lastDomain: null,
  heldBy: null,
  heldFor: null,
  isUnderWay: false,
  isPaused: false,
  isSuspended: false,
  ...more,
});
const later = new Date(NOW + 90_000);

const held: Partial<Situation> = {
  status: "deferred",
  heldBy: "example.com",
  heldFor: "too many complaints",
};

test.each<[Partial<Situation>, string | null]>([
  [
    { ...held, nextAttemptAt: later },
    "Mail to example.com is suspended until 2026-11-22 06:01:30 UTC: too many complaints.",
  ],
  [held, "Mail to example.com is suspended until an operator resumes it: too many complaints."],
  [
    { ...held, nextAttemptAt: new Date(NOW - 1) },
    "Mail to example.com is no longer suspended; it is tried within seconds.",
  ],
  [{ ...held, heldFor: null }, "Mail to example.com is no longer suspended; it is tried within seconds."],
  [{}, "It is in the queue and will be sent next."],
  [{ isUnderWay: true }, "It is being sent now."],
  [
    { status: "waiting", waitingFor: "cap_day", isPaused: true },
    "Its stream is paused, since too much of its mail bounced or was complained about; it goes on when the pause ends.",
  ],
  [{ isSuspended: true }, "The workspace is suspended; the e-mail goes on when it is resumed."],
  [{ isSuspended: true, isUnderWay: true }, "It is being sent now."],
  [
    { status: "scheduled", waitingFor: "scheduled", nextAttemptAt: later },
    "It is scheduled for 2026-11-22 06:01:30 UTC.",
  ],
  [
    { status: "waiting", waitingFor: "cap_hour", nextAttemptAt: later },
    "The hourly sending cap is used up; room is expected from 2026-11-22 06:01:30 UTC, for the oldest e-mails first.",
  ],
  [
    { status: "waiting", waitingFor: "cap_day", nextAttemptAt: new Date(NOW - 1) },
    "The daily sending cap is used up; the oldest e-mails go first.",
  ],
  [
    { status: "waiting", waitingFor: "quota_month", nextAttemptAt: later },
    "The monthly quota is used up; it goes on from 2026-11-22 06:01:30 UTC.",
  ],
  [
    {
      status: "deferred",
      waitingFor: "deferred",
      nextAttemptAt: later,
      lastReply: "451 4.3.0 Try again later",
      lastDomain: "example.net",
    },
    "Not delivered to example.net yet: 451 4.3.0 Try again later. The next attempt is at 2026-11-22 06:01:30 UTC.",
  ],
  [
    {
      status: "deferred",
      waitingFor: "deferred",
      nextAttemptAt: new Date(NOW - 1),
      lastDomain: "example.net",
    },
    "Not delivered to example.net yet. The next attempt is due now.",
  ],
  [{ status: "delivered" }, null],
  [{ status: "canceled" }, null],
])("%o", (more, sentence) => {
  expect(reasonOf(situation(more), null, NOW)).toBe(sentence);
});

test("an end is explained by the last word about it", () => {
  const history = [
    { type: "delivery_delayed", at: "", recipient: "a@example.net", detail: "451 Busy" },
    { type: "bounced", at: "", recipient: "a@example.net", detail: "550 5.1.1 No such user" },
    { type: "delivered", at: "", recipient: "b@example.net", detail: "250 Ok" },
  ];
  expect(reasonOf(situation({ status: "bounced" }), history, NOW)).toBe(
    "a@example.net: 550 5.1.1 No such user.",
  );
  expect(reasonOf(situation({ status: "failed" }), history, NOW)).toBeNull();
});

test("of any situation: one sentence or two for what is open, with the time when that is to come and only then", () => {
  const waits = fc.constantFrom<WaitReason>("scheduled", "cap_hour", "cap_day", "quota_month", "deferred");
  const any = fc.record({
    status: fc.constantFrom<string>(...OPEN_STATUSES, ...ENDINGS.map(([, status]) => status)),
    wait: waits,
    atMs: fc.integer({ min: NOW - 86_400_000, max: NOW + 31 * 86_400_000 }),
    reply: fc.option(fc.string({ minLength: 1, maxLength: 80 }).filter((text) => text.trim() !== "")),
    isUnderWay: fc.boolean(),
    isSuspended: fc.boolean(),
  });
  fc.assert(
    fc.property(any, ({ status, wait, atMs, reply, isUnderWay, isSuspended }) => {
      const waitsOf: Record<string, WaitReason> = { scheduled: "scheduled", deferred: "deferred" };
      const isWaiting = ["scheduled", "waiting", "deferred"].includes(status);
      const waitingFor = !isWaiting
        ? null
        : (waitsOf[status] ?? (wait === "scheduled" || wait === "deferred" ? "cap_hour" : wait));
      const nextAttemptAt = isWaiting ? new Date(atMs) : null;
      const found = situation({
        status,
        waitingFor,
        nextAttemptAt,
        lastReply: status === "deferred" ? reply : null,
        lastDomain: status === "deferred" ? "example.net" : null,
        isUnderWay,
        isPaused: false,
        isSuspended,
      });
      const sentence = reasonOf(found, null, NOW);
      if (!(OPEN_STATUSES as readonly string[]).includes(status)) return sentence === null;
      if (sentence === null || !/[.!?]$/.test(sentence)) return false;
      const isExplainedByTime = isWaiting && !isUnderWay && !isSuspended && atMs > NOW;
      const time = `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;
      if (sentence.includes(time) !== isExplainedByTime) return false;
      if (sentence.includes("suspended") !== (isSuspended && !isUnderWay) && !reply?.includes("suspended"))
        return false;
      return (
        !isWaiting ||
        isUnderWay ||
        isSuspended ||
        found.lastReply === null ||
        sentence.includes(found.lastReply.trim())
      );
    }),
    { numRuns: CASES },
  );
});
