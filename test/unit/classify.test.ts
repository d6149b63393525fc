/** What a reply makes of a mail. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classify, concernsOperator, isThrottled } from "../../src/outcome/classify.ts";
import type { Outcome } from "../../src/outcome/outcome.ts";
import { type Phase, replyOf, troubleOf } from "../../src/smtp/reply.ts";

const PHASES: Phase[] = [
  "route",
  "connect",
  "tls",
  "greeting",
  "helo",
  "auth",
  "mail",
  "rcpt",
  "data",
  "dot",
  "session",
];

function said(phase: Phase, wire: string): Outcome {
  return classify(replyOf(phase, Number(wire.slice(0, 3)), wire), false);
}

/** `kind why category`, as far as it has them. */
function inShort(outcome: Outcome): string {
  if (outcome.kind === "delivered") return "delivered";
  if (outcome.kind === "bounced") return `bounced ${outcome.why} ${outcome.category}`;
  return `${outcome.kind} ${outcome.why}`;
}

describe("a reply", () => {
  test.each<[Phase, string, string]>([
    ["dot", "250 2.0.0 Ok: queued as 4F1A", "delivered"],
    ["dot", "251 taken", "delivered"],

    ["rcpt", "450 4.2.0 greylisted", "deferred temporary"],
    ["rcpt", "452 4.5.3 too many recipients", "deferred temporary"],
    ["mail", "451 4.3.0 try later", "deferred temporary"],
    ["data", "451 4.3.0 try later", "deferred temporary"],
    ["dot", "454 Throttling failure: Maximum sending rate exceeded.", "deferred temporary"],
    ["mail", "421 4.7.0 too many connections", "deferred closing"],
    ["dot", "421 4.4.2 timeout exceeded", "deferred closing"],

    ["rcpt", "550 5.1.1 <x@y.test>: user unknown", "bounced refused hard"],
    ["rcpt", "550 5.1.10 the domain takes no mail", "bounced refused hard"],
    ["rcpt", "550 5.2.1 the mailbox is disabled", "bounced refused hard"],
    ["rcpt", "552 5.2.2 mailbox full", "bounced refused soft"],
    ["dot", "552 5.3.4 message too big", "bounced refused soft"],
    ["dot", "554 5.7.1 rejected as spam", "bounced refused block"],
    ["rcpt", "554 5.7.1 client host blocked using zen.spamhaus.org", "bounced refused block"],
    ["dot", "554 5.6.0 malformed", "bounced refused soft"],
    ["data", "554 5.5.0 not here", "bounced refused soft"],
    ["rcpt", "550 5.4.1 Recipient address rejected: Access denied", "bounced refused hard"],

    ["rcpt", "550 No such user here", "bounced refused hard"],
    ["rcpt", "550 Unknown recipient", "bounced refused hard"],
    ["rcpt", "550 5.1.0 Address rejected: user x@y.test does not exist", "bounced refused hard"],
    ["rcpt", "550 Requested action not taken: mailbox unavailable", "bounced refused soft"],
    ["rcpt", "554 Your host is listed: blacklisted", "bounced refused block"],
    ["rcpt", "550 unknown user, or blocked by policy", "bounced refused block"],

    ["mail", "550 5.7.1 sender domain not allowed", "deferred our standing"],
    ["mail", "553 5.7.1 not owned by user", "deferred our standing"],
    ["mail", "530 5.7.0 must issue STARTTLS first", "deferred our standing"],
    ["mail", "501 5.1.7 bad sender address syntax", "bounced refused soft"],
    ["mail", "552 message size exceeds fixed maximum", "bounced refused soft"],
    ["mail", "550 5.6.7 non-ASCII addresses not permitted", "bounced refused soft"],
    ["rcpt", "554 5.7.1 <x@y.test>: Relay access denied", "deferred our standing"],
    ["rcpt", "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain", "deferred our standing"],
    ["rcpt", "550 relay not permitted", "deferred our standing"],
    ["rcpt", "503 5.5.1 MAIL first", "deferred our standing"],
    ["data", "530 5.7.0 Authentication required", "deferred our standing"],
    ["dot", "554 Transaction failed: Sending paused for this account.", "deferred our standing"],
    [
      "dot",
      "554 Message rejected: Email address is not verified. The following identities failed",
      "deferred our standing",
    ],

    ["greeting", "554 5.7.1 go away", "unsent turned away"],
    ["greeting", "421 too busy", "unsent unreachable"],
    ["helo", "550 your name is not welcome", "unsent turned away"],
    ["tls", "454 TLS not available", "unsent unreachable"],
    ["auth", "535 5.7.8 bad credentials", "unsent turned away"],
    ["auth", "454 4.7.0 temporary authentication failure", "unsent unreachable"],
  ])("%s %s", (phase, wire, expected) => {
    expect(inShort(said(phase, wire))).toBe(expected);
  });

  test("its first digit wins over an enhanced code of another class", () => {
    expect(inShort(said("rcpt", "450 5.1.1 user unknown"))).toBe("deferred temporary");
    expect(inShort(said("rcpt", "550 4.1.1 user unknown"))).toBe("bounced refused hard");
  });

  test("a 2xx delivers nothing before the dot", () => {
    for (const phase of PHASES)
      if (phase !== "dot") expect(said(phase, "250 fine").kind).not.toBe("delivered");
  });
});

describe("without a reply", () => {
  test.each<[Phase, string, string]>([
    ["connect", "ECONNREFUSED", "unsent unreachable"],
    ["connect", "TIMEOUT", "unsent unreachable"],
    ["tls", "DEPTH_ZERO_SELF_SIGNED_CERT", "unsent turned away"],
    ["tls", "ECONNRESET", "unsent unreachable"],
    ["tls", "TLS_NOT_OFFERED", "unsent turned away"],
    ["auth", "AUTH_NOT_OFFERED", "unsent turned away"],
    ["greeting", "GARBLED", "unsent unreachable"],
    ["mail", "ECONNRESET", "deferred network"],
    ["rcpt", "TIMEOUT", "deferred network"],
    ["data", "ECONNRESET", "deferred network"],
    ["dot", "ECONNRESET", "deferred lost answer"],
    ["dot", "TIMEOUT", "deferred lost answer"],
    ["dot", "GARBLED", "deferred lost answer"],
    ["session", "BUSY", "unsent busy"],
    ["session", "CLOSING", "unsent stopped"],
    ["session", "WITHDRAWN", "unsent stopped"],
    ["session", "KEY_UNUSABLE", "unsent unsigned"],
    ["session", "KEY_UNREAD", "unsent stopped"],
    ["session", "CONTENT_UNREAD", "unsent stopped"],
    ["session", "ADDRESS_UNSAFE", "bounced unsendable soft"],
    ["session", "SMTPUTF8_NOT_OFFERED", "bounced unsendable soft"],
    ["session", "SIZE_EXCEEDED", "bounced unsendable soft"],
  ])("%s %s", (phase, error, expected) => {
    expect(inShort(classify(troubleOf(phase, error, "words"), false))).toBe(expected);
  });
});

describe("where the receivers themselves are spoken to", () => {
  test.each<[Phase, string, string]>([
    ["greeting", "421 too busy", "deferred unreachable"],
    ["greeting", "554 5.7.1 go away", "deferred our standing"],
    ["helo", "550 your name is not welcome", "deferred our standing"],
    ["rcpt", "550 5.1.1 user unknown", "bounced refused hard"],
    ["dot", "250 taken", "delivered"],
  ])("%s %s", (phase, wire, expected) => {
    const reply = replyOf(phase, Number(wire.slice(0, 3)), wire);
    expect(inShort(classify(reply, false, "receivers"))).toBe(expected);
  });

  test.each<[Phase, string, string | null, string]>([
    ["route", "NO_DOMAIN", "5.1.2", "bounced nobody there hard"],
    ["route", "NO_MAIL", "5.1.10", "bounced nobody there hard"],
    ["route", "ADDRESS_BARRED", "5.4.4", "bounced nobody there soft"],
    ["route", "NO_HOST", "4.4.4", "deferred unreachable"],
    ["route", "DNS_FAILED", "4.4.3", "deferred unreachable"],
    ["connect", "ECONNREFUSED", null, "deferred unreachable"],
    ["tls", "TLS_NOT_OFFERED", null, "deferred our standing"],
    ["dot", "ECONNRESET", null, "deferred lost answer"],
    ["session", "BUSY", null, "unsent busy"],
  ])("%s %s", (phase, error, enhanced, expected) => {
    const reply = troubleOf(phase, error, "words", enhanced);
    expect(inShort(classify(reply, false, "receivers"))).toBe(expected);
  });
});

test("what is too old bounces with its last reply, unless it is decided already", () => {
  const greylisted = replyOf("rcpt", 450, "450 4.2.0 greylisted");
  expect(classify(greylisted, true)).toEqual({
    kind: "bounced",
    reply: greylisted,
    why: "expired",
    category: "expired",
    reason: "greylisted",
    confidence: "high",
  });
  const away = troubleOf("connect", "ECONNREFUSED", "connect ECONNREFUSED");
  expect(inShort(classify(away, true, "receivers"))).toBe("bounced expired expired");
  const broken = troubleOf("route", "DNS_FAILED", "4.4.3 DNS about a.test: ESERVFAIL", "4.4.3");
  expect(inShort(classify(broken, true, "receivers"))).toBe("bounced expired expired");
  expect(inShort(classify(replyOf("dot", 250, "250 taken"), true))).toBe("delivered");
  expect(inShort(classify(replyOf("rcpt", 550, "550 5.1.1 unknown"), true))).toBe("bounced refused hard");
});

test("nothing expires before a receiver could be asked", () => {
  const away = troubleOf("connect", "ECONNREFUSED", "connect ECONNREFUSED");
  expect(inShort(classify(away, true))).toBe("unsent unreachable");
  expect(inShort(classify(troubleOf("session", "BUSY", "busy"), true))).toBe("unsent busy");
  expect(inShort(classify(troubleOf("session", "KEY_UNUSABLE", "no key"), true))).toBe("unsent unsigned");
  const silent = troubleOf("route", "DNS_SILENT", "4.4.3 DNS about a.test: ETIMEOUT", "4.4.3");
  expect(inShort(classify(silent, true, "receivers"))).toBe("deferred unreachable");
});

test("silence of DNS is the domain's own fault after a second lifetime", () => {
  const silent = troubleOf("route", "DNS_SILENT", "4.4.3 DNS about a.test: ETIMEOUT", "4.4.3");
  expect(inShort(classify(silent, true, "receivers", true))).toBe("bounced expired expired");
  expect(inShort(classify(troubleOf("session", "BUSY", "busy"), true, "receivers", true))).toBe(
    "unsent busy",
  );
});

test("an operator is called for what waiting does not mend", () => {
  expect(concernsOperator(said("auth", "535 5.7.8 bad credentials"))).toBe(true);
  expect(concernsOperator(said("mail", "550 5.7.1 sender not allowed"))).toBe(true);
  expect(concernsOperator(said("rcpt", "550 5.1.1 user unknown"))).toBe(false);
  expect(concernsOperator(said("rcpt", "450 4.2.0 greylisted"))).toBe(false);
});

test("whatever is said, only 2xx to the dot delivers and nothing below 500 bounces before its time", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...PHASES),
      fc.integer({ min: 200, max: 599 }),
      fc.string({ unit: "binary", maxLength: 80 }),
      fc.boolean(),
      (phase, code, words, isExpired) => {
        const outcome = classify(replyOf(phase, code, `${code} ${words}`), isExpired);
        if (code < 500 && outcome.kind === "bounced") expect(outcome.why).toBe("expired");
        if (outcome.kind === "delivered") expect([phase, Math.floor(code / 100)]).toEqual(["dot", 2]);
      },
    ),
  );
});

describe("the text of a reply", () => {
  test("is the receiver's own words, on one line", () => {
    expect(replyOf("rcpt", 550, "550-5.1.1 The mailbox\n550-5.1.1 does not\n550 5.1.1 exist")).toEqual({
      phase: "rcpt",
      code: 550,
      enhanced: "5.1.1",
      text: "550-5.1.1 The mailbox 5.1.1 does not 5.1.1 exist",
      error: null,
    });
  });

  test("is read as UTF-8", () => {
    const wire = Buffer.from("550 5.1.1 Postfach für Zoë unbekannt").toString("latin1");
    expect(replyOf("rcpt", 550, wire).text).toBe("550 5.1.1 Postfach für Zoë unbekannt");
  });

  test("has no enhanced code where none stands", () => {
    expect(replyOf("rcpt", 550, "550 5.1.1.1 no").enhanced).toBeNull();
    expect(replyOf("rcpt", 550, "550 version 5.1.1").enhanced).toBeNull();
    expect(replyOf("rcpt", 550, "550").enhanced).toBeNull();
  });

  test("can be stored anywhere, whatever came over the wire", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 3_000 }), (words) => {
        const wire = Buffer.from(words).toString("latin1");
        for (const { text } of [replyOf("dot", 550, `550 ${wire}`), troubleOf("dot", "GARBLED", words)]) {
          expect(text.length).toBeLessThanOrEqual(500);
          expect(text).not.toMatch(/\p{Cc}/u);
          expect(text.isWellFormed()).toBe(true);
        }
      }),
    );
  });
});

test.each<[string, boolean]>([
  ["451 4.7.28 Our system has detected an unusual rate of unsolicited mail", true],
  ["421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints", true],
  ["450 4.7.1 Too many messages from your address, slow down", true],
  ["450 4.2.0 greylisted, try again in five minutes", false],
  ["452 4.2.2 mailbox full", false],
  ["451 4.3.0 try later", false],
  ["550 5.7.1 blocked", false],
  ["250 2.0.0 Ok", false],
])("%s is told for reputation or rate: %s", (wire, expected) => {
  expect(isThrottled(said("dot", wire), "receivers")).toBe(expected);
});
