/**
 * The auditor of `npm run fault`: it finds nothing where nothing is wrong, and each kind of wrong by its
 * name.
 */
import { describe, expect, test } from "vitest";
import { audit } from "../fault/campaign/audit.ts";
import type { Aftermath, FinalRun, History, Operation } from "../fault/campaign/history.ts";
import {
  aftermathOf,
  answered,
  copy,
  delivered,
  historyOf,
  life,
  perfect,
  recipientOf,
  second,
  sent,
  shop,
  spell,
  tried,
} from "../rig/history.ts";

const UNKNOWN = {
  name: "application_error",
  message: "Outcome unknown, retry with the same Idempotency-Key.",
};
const OVER = { name: "quota_exceeded" };

function rules(history: History, after: Aftermath | null = null): string[] {
  return [...new Set(audit(history, after).violations.map(({ rule }) => rule))].sort();
}

test("where everything is as it should be, nothing is found", () => {
  const { history, after } = perfect(1, 2, 3);
  expect(audit(history, after)).toMatchObject({
    lost: 0,
    overQuota: 0,
    overCap: 0,
    repeats: [],
    violations: [],
  });
});

describe("what was accepted", () => {
  test("and does not exist is lost", () => {
    const { history } = perfect(1, 2);
    const { after } = perfect(1);
    const verdict = audit({ ...history, copies: [copy(1)] }, after);
    expect(verdict.lost).toBe(1);
    expect(verdict.violations).toMatchObject([{ rule: "lost", subject: "mail-2" }]);
  });

  test("and is called delivered, though the sink never took it, is lost", () => {
    const { history, after } = perfect(1, 2);
    expect(audit({ ...history, copies: [copy(1)] }, after).lost).toBe(1);
  });

  test("is lost for one of its recipients alone, too", () => {
    const { history, after } = perfect(1);
    const [operation] = history.operations as [Operation];
    operation.mails = [
      { isValid: true, recipients: [recipientOf(1), "two@receiver.test"], counted: 1, scheduledAt: null },
    ];
    const email = delivered(1, { marks: "dd", weight: 2 });
    expect(audit(history, { ...after, emails: [email] }).lost).toBe(1);
  });

  test("ends", () => {
    const { history, after } = perfect(1);
    const open = delivered(1, { status: "deferred", marks: "o" });
    expect(rules(history, { ...after, emails: [open] })).toContain("not final");
  });

  test("is canceled only when somebody asked for that", () => {
    const { history } = perfect(1);
    const after = canceled();
    expect(rules({ ...history, copies: [] }, after)).toEqual(["canceled by nobody"]);
    const cancellation = sent(2, { kind: "cancel", mails: [], emailId: "mail-1", tries: [answered(200)] });
    expect(
      rules({ ...history, copies: [], operations: [...history.operations, cancellation] }, after),
    ).toEqual([]);
  });

  test("is not canceled by a cancellation that was refused", () => {
    const { history } = perfect(1);
    const refused = sent(2, { kind: "cancel", mails: [], emailId: "mail-1", tries: [unavailable()] });
    const operations = [...history.operations, refused];
    expect(rules({ ...history, copies: [], operations }, canceled())).toEqual(["canceled by nobody"]);
  });

  test("bounces only when the sink refused it", () => {
    const { history, after } = perfect(1);
    const emails = [
      delivered(1, {
        status: "bounced",
        marks: "b",
        events: [{ type: "bounced", recipient: recipientOf(1) }],
      }),
    ];
    const tallies = [
      { workspaceId: shop.id, attempted: 1, delivered: 0, deferred: 0, bounced: 1, failed: 0 },
    ];
    const refusing = new Map([[recipientOf(1), { times: 1, replies: ["550 5.1.1 no such user"] }]]);
    const deferring = new Map([[recipientOf(1), { times: 1, replies: ["451 4.7.1 greylisted"] }]]);
    const bounced = { ...after, emails, tallies };
    expect(rules({ ...history, copies: [], named: refusing }, bounced)).toEqual([]);
    expect(rules({ ...history, copies: [], named: deferring }, bounced)).toEqual(["bounced unrefused"]);
  });

  test("can be read at once", () => {
    const read = sent(2, {
      kind: "read",
      mails: [],
      emailId: "mail-1",
      tries: [answered(404, {}, { askedAt: second(2.1) })],
    });
    expect(rules(historyOf({ operations: [sent(1), read] }))).toEqual(["forgotten"]);
    const earlier = sent(2, {
      kind: "read",
      mails: [],
      emailId: "mail-1",
      tries: [answered(404, {}, { askedAt: second(1.5) })],
    });
    expect(rules(historyOf({ operations: [sent(1), earlier] }))).toEqual([]);
  });
});

describe("what was refused", () => {
  const refused = sent(1, { tries: [unavailable()] });

  test("never leaves", () => {
    expect(rules(historyOf({ operations: [refused], copies: [copy(1)] }))).toEqual(["refused yet sent"]);
  });

  test("does not leave before it is asked for again, either", () => {
    const again = answered(200, { id: "mail-1" }, { askedAt: second(4), answeredAt: second(5) });
    const operations = [sent(1, { tries: [unavailable(), again] })];
    expect(rules(historyOf({ operations, copies: [copy(1)] }))).toEqual(["refused yet sent"]);
    const later = copy(1, { begunAt: second(4.5), completeAt: second(4.5), answeredAt: second(4.5) });
    expect(rules(historyOf({ operations, copies: [later] }))).toEqual([]);
  });

  test("is not kept", () => {
    const after = { ...perfect(1).after };
    const named = new Map([[recipientOf(1), { times: 1, replies: [] }]]);
    expect(rules(historyOf({ operations: [refused], copies: [copy(1)], named }), after)).toEqual([
      "refused yet kept",
      "refused yet sent",
    ]);
  });

  test("may leave when nobody knows whether it was, or when another request is under way", () => {
    const lost = sent(1, { tries: [tried({ kind: "lost", why: "ECONNRESET" })] });
    const unknown = sent(1, { tries: [answered(500, UNKNOWN)] });
    const open = { ...refused, open: 1 };
    for (const operation of [lost, unknown, open])
      expect(rules(historyOf({ operations: [operation], copies: [copy(1)] }))).toEqual([]);
  });

  test("a mail that nobody asked for is a stranger", () => {
    const { history, after } = perfect(1);
    const copies = [...history.copies, copy(7, { origin: null })];
    expect(rules({ ...history, copies }, after)).toEqual(["stranger"]);
  });
});

describe("one idempotency key", () => {
  test("has one answer", () => {
    const tries = [answered(200, { id: "mail-1" }), answered(200, { id: "mail-9" })];
    const { history, after } = perfect(1);
    expect(rules({ ...history, operations: [sent(1, { idempotencyKey: "k", tries })] }, after)).toEqual([
      "one key, two answers",
    ]);
  });

  test("has one effect", () => {
    const { history, after } = perfect(1);
    const twin = delivered(1, { id: "mail-9" });
    const copies = [...history.copies, copy(1, { emailId: "mail-9", messageId: "mail-9@acme.test" })];
    expect(rules({ ...history, copies }, { ...after, emails: [...after.emails, twin] })).toContain(
      "one key, two effects",
    );
  });
});

describe("a quota", () => {
  const small = { ...shop, quota: { period: "day" as const, limit: 2 } };

  test("is exact, by what callers were told alone", () => {
    const operations = [1, 2, 3].map((n) => sent(n));
    const verdict = audit(historyOf({ tenants: [small], operations }), null);
    expect(verdict).toMatchObject({ overQuota: 1, violations: [{ rule: "over quota" }] });
  });

  test("counts what was accepted without anybody knowing", () => {
    const { history, after } = perfect(1, 2, 3);
    const operations = history.operations.map((one) => ({ ...one, tries: [answered(500, UNKNOWN)] }));
    expect(audit({ ...history, tenants: [small], operations }, after).overQuota).toBe(1);
  });

  test("refuses nobody for whom there is room", () => {
    const { history, after } = perfect(1);
    const refused = sent(2, { tries: [answered(429, OVER)] });
    const both = { ...history, operations: [...history.operations, refused] };
    expect(rules({ ...both, tenants: [small] }, after)).toEqual(["refused in vain"]);
    expect(rules({ ...both, tenants: [{ ...small, quota: { period: "day", limit: 1 } }] }, after)).toEqual(
      [],
    );
  });

  test("is counted by the ledger as it was used", () => {
    const { history, after } = perfect(1, 2);
    const ledgers = [{ workspaceId: shop.id, monthUsed: 3, dayUsed: 3, waiting: 0 }];
    expect(rules(history, { ...after, ledgers })).toEqual(["ledger"]);
  });
});

describe("a cap", () => {
  const capped = { ...shop, isCapped: true };
  const caps = (...stages: [at: number, cap: number][]) =>
    stages.map(([at, cap]) => ({ workspaceId: shop.id, at: second(at), cap }));
  const at = (n: number, seconds: number) =>
    copy(n, { begunAt: second(seconds), completeAt: second(seconds) });

  test("holds in every window of an hour, as the sink saw it", () => {
    const operations = [1, 2, 3].map((n) => sent(n));
    const history = historyOf({ tenants: [capped], operations, caps: caps([0, 2]) });
    expect(audit({ ...history, copies: [at(1, 3), at(2, 4), at(3, 3_590)] }, null).overCap).toBe(1);
    expect(audit({ ...history, copies: [at(1, 3), at(2, 4), at(3, 3_604)] }, null).overCap).toBe(0);
  });

  test("counts a repetition once", () => {
    const operations = [1, 2].map((n) => sent(n));
    const copies = [{ ...at(1, 3), answeredAt: null }, at(1, 20), at(2, 4)];
    expect(
      audit(historyOf({ tenants: [capped], operations, copies, caps: caps([0, 2]) }), null).overCap,
    ).toBe(0);
  });

  test("is the one in force at that time", () => {
    const operations = [1, 2, 3].map((n) => sent(n));
    const copies = [at(1, 3), at(2, 4), at(3, 20)];
    const raised = historyOf({ tenants: [capped], operations, copies, caps: caps([0, 2], [10, 3]) });
    expect(audit(raised, null).overCap).toBe(0);
    expect(audit({ ...raised, caps: caps([0, 2], [30, 3]) }, null).overCap).toBe(1);
  });

  test("lets the oldest go first", () => {
    const operations = [1, 2, 3, 4].map((n) =>
      sent(n, {
        tries: [answered(200, { id: `mail-${n}` }, { askedAt: second(n), answeredAt: second(n + 0.5) })],
      }),
    );
    const history = historyOf({ tenants: [capped], operations, caps: caps([0, 1], [10, 2], [20, 3]) });
    expect(rules({ ...history, copies: [at(1, 5), at(2, 12), at(3, 22)] })).toEqual([]);
    expect(rules({ ...history, copies: [at(1, 5), at(4, 12), at(3, 22)] })).toEqual(["overtaken"]);
  });

  test("lets another go where the oldest has had its turn and is deferred", () => {
    const operations = [1, 2, 3].map((n) =>
      sent(n, {
        tries: [answered(200, { id: `mail-${n}` }, { askedAt: second(n), answeredAt: second(n + 0.5) })],
      }),
    );
    const history = historyOf({ tenants: [capped], operations, caps: caps([0, 2], [10, 3]) });
    expect(rules({ ...history, copies: [at(2, 5)] })).toEqual([]);
    expect(rules({ ...history, copies: [at(2, 5), at(3, 6)] })).toEqual(["overtaken"]);
  });
});

describe("scheduled mail", () => {
  const scheduled = (time: number) =>
    sent(1, {
      mails: [{ isValid: true, recipients: [recipientOf(1)], counted: 1, scheduledAt: second(time) }],
    });
  const moved = (time: number, ...tries: Operation["tries"]) =>
    sent(2, { kind: "reschedule", mails: [], emailId: "mail-1", newTime: second(time), tries });
  const goesAt = (seconds: number) => [copy(1, { begunAt: second(seconds), completeAt: second(seconds) })];

  test("never goes before its time", () => {
    expect(rules(historyOf({ operations: [scheduled(10)], copies: goesAt(9) }))).toEqual(["too early"]);
    expect(rules(historyOf({ operations: [scheduled(10)], copies: goesAt(10) }))).toEqual([]);
  });

  test("goes at the time it was moved to; at either when nobody knows", () => {
    const late = [scheduled(10), moved(20, answered(200))];
    expect(rules(historyOf({ operations: late, copies: goesAt(15) }))).toEqual(["too early"]);
    const unknown = [scheduled(10), moved(20, tried({ kind: "lost", why: "ECONNRESET" }))];
    expect(rules(historyOf({ operations: unknown, copies: goesAt(15) }))).toEqual([]);
  });

  test("never goes once it is canceled", () => {
    const cancellation = sent(2, { kind: "cancel", mails: [], emailId: "mail-1", tries: [answered(200)] });
    expect(rules(historyOf({ operations: [sent(1), cancellation], copies: [copy(1)] }))).toEqual([
      "canceled yet sent",
    ]);
  });
});

describe("an answer", () => {
  test("of the inside is none", () => {
    expect(
      rules(
        historyOf({ operations: [sent(1, { tries: [answered(500, { message: "An unexpected error" })] })] }),
      ),
    ).toEqual(["answer"]);
    expect(
      rules(historyOf({ operations: [sent(1, { tries: [answered(401, { name: "invalid_api_key" })] })] })),
    ).toEqual(["answer"]);
  });

  test("comes, unless the process stood still or ended", () => {
    const operations = [
      sent(1, { tries: [tried({ kind: "lost", why: "no answer in time" }, { answeredAt: second(21) })] }),
    ];
    expect(rules(historyOf({ operations }))).toEqual(["unanswered"]);
    expect(rules(historyOf({ operations, spells: [spell("frozen", "api-1", 5, 15)] }))).toEqual([]);
    const ended = life("api-1.1", {
      told: { at: second(5), signal: "SIGKILL" },
      ended: { at: second(5), status: null, signal: "SIGKILL" },
    });
    expect(rules(historyOf({ operations, lives: [ended] }))).toEqual([]);
  });
});

describe("a process", () => {
  const ended = { at: second(9), status: 1, signal: null };

  test("does not end by itself", () => {
    expect(rules(historyOf({ lives: [life("keeper-1.1", { ended })] }))).toEqual(["died"]);
  });

  test("may fail to start only while something is missing", () => {
    const stillborn = life("keeper-1.2", { startedAt: second(5), readyAt: null, ended });
    expect(rules(historyOf({ lives: [stillborn] }))).toEqual(["died"]);
    expect(rules(historyOf({ lives: [stillborn], spells: [spell("outage", null, 4, 10)] }))).toEqual([]);
  });

  test("ends in time when it is told to", () => {
    const slow = life("keeper-1.1", {
      told: { at: second(1), signal: "SIGTERM" },
      ended: { ...ended, at: second(20) },
    });
    expect(rules(historyOf({ lives: [slow] }))).toEqual(["slow end"]);
  });
});

describe("a workspace that is to move", () => {
  const moved = { workspaceId: shop.id, to: "west", from: second(1), runs: 3, pauseMs: null, said: "killed" };

  test("is there at the end", () => {
    const history = historyOf({ moves: [{ ...moved, endedAt: null }] });
    expect(rules(history, aftermathOf())).toEqual(["move"]);
    expect(rules(historyOf({ moves: [{ ...moved, endedAt: second(9) }] }), aftermathOf())).toEqual([]);
  });

  test("is paused for less than a second, unless a store does not answer", () => {
    const history = (pauseMs: number, more = {}) =>
      historyOf({ moves: [{ ...moved, endedAt: second(9), pauseMs }], ...more });
    const judged = (pauseMs: number, more = {}) => rules(history(pauseMs, more), aftermathOf());
    expect(judged(1_000)).toEqual([]);
    expect(judged(1_001)).toEqual(["pause"]);
    expect(judged(1_001, { spells: [spell("outage", null, 4, 6)] })).toEqual([]);
    expect(judged(1_001, { spells: [spell("outage", null, 10, 12)] })).toEqual(["pause"]);
    expect(judged(1_001, { spells: [spell("cut", "api-1", 4, 6)] })).toEqual(["pause"]);
  });

  test("leaves nothing behind", () => {
    expect(rules(historyOf(), aftermathOf({ inTwoCells: ["mail-1"] }))).toEqual(["in two cells"]);
  });
});

describe("the counts", () => {
  test("are those of the outcomes", () => {
    const { history, after } = perfect(1, 2);
    const tallies = [
      { workspaceId: shop.id, attempted: 2, delivered: 3, deferred: 0, bounced: 0, failed: 0 },
    ];
    expect(rules(history, { ...after, tallies })).toEqual(["tally"]);
  });

  test("a suppressed recipient of a mail to several was tried before, or not at all", () => {
    const { history, after } = perfect(1);
    const emails = [delivered(1, { marks: "ds", weight: 2, status: "suppressed" })];
    const counted = (attempted: number) => [
      { workspaceId: shop.id, attempted, delivered: 1, deferred: 0, bounced: 0, failed: 0 },
    ];
    const verdictOf = (attempted: number) =>
      rules(history, { ...after, emails, tallies: counted(attempted) }).includes("tally");
    expect([0, 1, 2, 3].map(verdictOf)).toEqual([true, false, false, true]);
  });

  test("no recipient has more outcomes than the sink was asked for it", () => {
    const { history, after } = perfect(1);
    const event = { type: "delivery_delayed", recipient: recipientOf(1) };
    const email = delivered(1, { events: [event, { type: "delivered", recipient: recipientOf(1) }] });
    const tallies = [
      { workspaceId: shop.id, attempted: 1, delivered: 1, deferred: 1, bounced: 0, failed: 0 },
    ];
    expect(rules(history, { ...after, emails: [email], tallies })).toEqual(["outcome twice"]);
  });

  test("an attempt whose connection broke before the sink read the recipient is an outcome, too", () => {
    const { history, after } = perfect(1);
    const detail = "127.0.0.1:25: read ECONNRESET, awaiting the answer to MAIL";
    const event = { type: "delivery_delayed", recipient: recipientOf(1), detail };
    const email = delivered(1, { events: [event, { type: "delivered", recipient: recipientOf(1) }] });
    const tallies = [
      { workspaceId: shop.id, attempted: 1, delivered: 1, deferred: 1, bounced: 0, failed: 0 },
    ];
    expect(rules(history, { ...after, emails: [email], tallies })).toEqual([]);
  });
});

describe("an automation", () => {
  const event = sent(1, {
    kind: "event",
    mails: [],
    address: "contact-1@people.test",
    event: "ordered",
    tries: [answered(202, { id: "evt_1" })],
  });
  const contact = {
    id: "c1",
    address: "contact-1@people.test",
    firstName: null,
    status: "subscribed",
    tags: [],
  };
  const run: FinalRun = {
    id: "r1",
    workspaceId: shop.id,
    automation: "thanks",
    contactId: "c1",
    eventId: "evt_1",
    state: "finished",
    reason: null,
    steps: [
      { position: "0", kind: "send", result: "done", detail: "mail-5" },
      { position: "1", kind: "tag", result: "done", detail: null },
    ],
  };
  const letter = delivered(5, {
    isAutomated: true,
    subject: "a 1 thanks",
    to: [contact.address],
    events: [],
  });
  const told = (more: Partial<Aftermath> = {}) =>
    rules(
      historyOf({ operations: [event], copies: [copy(5, { origin: null, recipients: [contact.address] })] }),
      aftermathOf({
        emails: [letter],
        runs: [run],
        contacts: [contact],
        events: [{ id: "evt_1", operation: 1 }],
        tallies: [{ workspaceId: shop.id, attempted: 1, delivered: 0, deferred: 0, bounced: 0, failed: 0 }],
        ...more,
      }),
    );

  test("takes every step once", () => {
    expect(told()).toEqual([]);
    expect(told({ runs: [{ ...run, steps: run.steps.slice(0, 1) }] })).toEqual(["run"]);
    expect(told({ runs: [{ ...run, steps: [...run.steps, ...run.steps] }] })).toEqual(["run"]);
  });

  test("ends", () => {
    expect(told({ runs: [{ ...run, state: "active" }] })).toEqual(["run"]);
    expect(told({ runs: [{ ...run, state: "stopped", reason: "given up after 10 tries" }] })).toEqual([
      "run",
    ]);
  });

  test("writes one mail for each step, and none without", () => {
    const extra = { ...letter, id: "mail-6" };
    expect(told({ emails: [letter, extra] })).toContain("effect without step");
    expect(told({ emails: [] })).toContain("step without effect");
  });

  test("lets nobody enter twice who may enter once", () => {
    expect(told({ runs: [run, { ...run, id: "r2", eventId: "evt_2" }] })).toContain("run");
  });

  test("keeps the event it was told of, once", () => {
    expect(told({ events: [] })).toEqual(["lost"]);
    expect(
      told({
        events: [
          { id: "evt_1", operation: 1 },
          { id: "evt_2", operation: 1 },
        ],
      }),
    ).toEqual(["one key, two effects"]);
  });
});

describe("a contact", () => {
  const address = "contact-1@people.test";
  const step = (
    n: number,
    kind: Operation["kind"],
    tries: Operation["tries"],
    sets: Operation["sets"] = null,
  ) => sent(n, { kind, mails: [], address, sets, tries });
  const added = step(1, "contact", [answered(201)], { firstName: "one" });
  const there = { id: "c1", address, firstName: "one", status: "subscribed", tags: [] };
  const told = (operations: Operation[], more: Partial<Aftermath>) =>
    rules(historyOf({ operations }), aftermathOf(more));

  test("is as it was last told to be", () => {
    expect(told([added], { contacts: [there] })).toEqual([]);
    expect(told([added], { contacts: [] })).toEqual(["lost"]);
    const renamed = step(2, "edit", [answered(200)], { firstName: "two" });
    expect(told([added, renamed], { contacts: [there] })).toEqual(["lost"]);
    const maybe = step(2, "edit", [tried({ kind: "lost", why: "ECONNRESET" })], { firstName: "two" });
    expect(told([added, maybe], { contacts: [there] })).toEqual([]);
  });

  test("that is there is found", () => {
    const missed = step(2, "edit", [answered(404)], { firstName: "two" });
    expect(told([added, missed], { contacts: [there] })).toEqual(["forgotten"]);
  });

  test("that an erasure may still reach may be gone, and is there again when it was added long after", () => {
    const hungUp = tried(
      { kind: "lost", why: "the caller hung up" },
      { askedAt: second(5), answeredAt: second(6) },
    );
    const erased = step(2, "erase", [hungUp]);
    const addedAt = (n: number) =>
      step(3, "contact", [answered(201, {}, { askedAt: second(n - 1), answeredAt: second(n) })]);
    const missedAt = (n: number) =>
      step(4, "edit", [answered(404, {}, { askedAt: second(n), answeredAt: second(n) })]);
    expect(told([added, erased, addedAt(8), missedAt(9)], { contacts: [] })).toEqual([]);
    expect(told([added, erased, addedAt(80), missedAt(81)], { contacts: [there] })).toEqual(["forgotten"]);
  });

  test("that was erased is nowhere", () => {
    const erased = step(2, "erase", [answered(200, {}, { askedAt: second(5), answeredAt: second(6) })]);
    expect(told([added, erased], { contacts: [] })).toEqual([]);
    expect(told([added, erased], { contacts: [there] })).toEqual(["not erased"]);
    const letter = delivered(3, {
      to: [address],
      subject: "a 1 first",
      isAutomated: true,
      marks: "x",
      status: "canceled",
      attempts: 0,
      events: [],
    });
    expect(told([added, erased], { emails: [letter] })).toContain("still kept");
  });
});

function unavailable() {
  return answered(503, { name: "service_unavailable" });
}

function canceled(): Aftermath {
  return aftermathOf({
    emails: [delivered(1, { status: "canceled", marks: "x", attempts: 0, events: [] })],
    ledgers: [{ workspaceId: shop.id, monthUsed: 1, dayUsed: 1, waiting: 0 }],
  });
}
