/**
 * Receivers are strangers, and so is whoever words the replies of a domain that a large provider hosts: what
 * they answer can keep back their own mail, and nobody else's.
 */
import { beforeEach, expect, test } from "vitest";
import { readShaping, type ShapingRules } from "../../src/shaping/file.ts";
import { ruleFor, Shaper } from "../../src/shaping/match.ts";
import { Shaping } from "../../src/shaping/shaping.ts";
import { replyOf } from "../../src/smtp/reply.ts";
import { costOf } from "../rig/held.ts";

const OWN = { name: "", address: null, helo: null, since: null };
const BIG = ["mx1.big.test", "mx2.big.test"];
const RULES: ShapingRules = {
  providers: { big: { mx: ["big.test"], domains: ["mail.test"] } },
  rules: [{ match: {}, on_reply: [{ words: ["stop it"], do: { suspend_minutes: 60 } }] }],
};
const STOP = replyOf("dot", 550, "550 5.7.1 stop it at once");

let set: string[];
let reasons: string[];
let shaping: Shaping;
beforeEach(() => {
  set = [];
  reasons = [];
  shaping = new Shaping({
    holds: {
      isEmpty: true,
      version: 0,
      suspensionOf: () => null,
      factorOf: () => 1,
      senderLimitOf: () => null,
      set: ({ destination, reason }) => {
        set.push(destination);
        reasons.push(reason ?? "");
      },
    },
    rooms: {
      enter: () => {
        throw new Error("nothing is limited");
      },
      leave: () => {},
      takeOne: () => Promise.resolve(0),
    },
    clock: { now: () => 0, given: () => 0 },
    ownSource: OWN,
  });
  shaping.follow(RULES);
});

const hear = (hosts: readonly string[], domain: string, reply = STOP) =>
  shaping.heard(reply, domain, shaping.shapeOf({ hosts, domain }, OWN), OWN);

test("a provider is suspended only by what it answers about its own mailboxes", () => {
  hear(BIG, "mail.test");
  expect(set).toEqual(["big"]);
});

test("a domain that the provider hosts speaks for itself alone, whatever its owner lets it say", () => {
  hear(BIG, "customer.test");
  expect(set).toEqual(["customer.test"]);
});

test("who names a host of the provider beside his own speaks for himself alone", () => {
  hear([...BIG, "mx.evil.test"], "evil.test");
  hear(["mx.evil.test", "mx.big.test.evil.test"], "evil.test");
  hear(["notbig.test"], "evil.test");
  expect(set).toEqual(["evil.test", "evil.test", "evil.test"]);
});

test("who says that he is the provider's domain, but is not served by it, speaks for that domain alone", () => {
  hear(["mx.evil.test"], "mail.test");
  expect(set).toEqual(["mail.test"]);
});

test("the reason that others read names nobody whom the mail was for", () => {
  hear(["mx.evil.test"], "evil.test", replyOf("rcpt", 550, "550 <ann@evil.test>: stop it (Bob.B@mail.test)"));
  expect(reasons).toEqual(["550 <(address)>: stop it ((address))"]);
});

test("a smarthost's word about a recipient does not name another domain", () => {
  shaping.heard(
    replyOf("rcpt", 550, "550 stop it: other.test"),
    "one.test",
    shaping.shapeOf({ hosts: ["smtp.test"], domain: null }, OWN),
    OWN,
  );
  expect(set).toEqual(["one.test"]);
});

test("the worst phrases against the worst reply hold a worker for no 50 ms", () => {
  const phrase = (n: number) => `${"a".repeat(98)}${String.fromCharCode(98 + (n % 20))}a`;
  const words = (from: number) => Array.from({ length: 50 }, (_, n) => phrase(from + n));
  const rules: ShapingRules = {
    rules: [
      {
        match: {},
        on_reply: Array.from({ length: 4 }, (_, n) => ({ words: words(50 * n), do: { suspend_minutes: 1 } })),
      },
    ],
  };
  const { onReply } = new Shaper(readShaping(JSON.stringify(rules)), OWN).shapeOf(
    { hosts: ["mx.test"], domain: "a.test" },
    OWN,
  );
  const reply = replyOf("dot", 550, `550 ${"a".repeat(100_000)}`);
  expect(ruleFor(reply, onReply)).toBeNull();
  expect(costOf(() => ruleFor(reply, onReply), 50)).toBeLessThan(50);
  const more: ShapingRules = {
    rules: [...rules.rules, { match: {}, on_reply: [{ words: words(0), do: { suspend_minutes: 1 } }] }],
  };
  expect(() => readShaping(JSON.stringify(more))).toThrow(
    "All `words` of `rules` together must have at most 20000 characters.",
  );
});

test("there are no regular expressions to hang in: a pattern is a text like any other", () => {
  const rules: ShapingRules = {
    rules: [{ match: {}, on_reply: [{ words: ["(a+)+$"], do: { suspend_minutes: 1 } }] }],
  };
  const { onReply } = new Shaper(readShaping(JSON.stringify(rules)), OWN).shapeOf(
    { hosts: ["mx.test"], domain: "a.test" },
    OWN,
  );
  expect(ruleFor(replyOf("dot", 550, "550 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"), onReply)).toBeNull();
  expect(ruleFor(replyOf("dot", 550, "550 a text with (a+)+$ in it"), onReply)).not.toBeNull();
});
