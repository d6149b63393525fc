/**
 * What a refusal says about the recipient: never hard for the living, always for whoever is gone, in bounded
 * time.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classify } from "../../src/outcome/classify.ts";
import {
  CLOSED,
  DEAD,
  DISABLED,
  INACTIVE,
  LIVING_PERHAPS,
  LIVING_SURELY,
  RECEIVER_RULES,
  RECIPIENT_NOUNS,
  SENDER_NOUNS,
  THING_NOUNS,
} from "../../src/outcome/replies.ts";
import { verdictOn, warmUp } from "../../src/outcome/verdict.ts";
import { replyOf } from "../../src/smtp/reply.ts";
import { GONE, LIVING, type Listed } from "../oracle/lists.ts";
import { costOf } from "../rig/held.ts";

const PHRASES = [
  ...[LIVING_SURELY, LIVING_PERHAPS, INACTIVE, DEAD, CLOSED, DISABLED].flat(),
  SENDER_NOUNS,
  RECIPIENT_NOUNS,
  THING_NOUNS,
];
const VERDICT_MS_MAX = 10;

function code(text: string): number {
  return Number(text.slice(0, 3));
}

/** As the receiver's words come over the wire in a conversation. */
function categorySaid(text: string): string {
  const wire = Buffer.from(text).toString("latin1");
  const outcome = classify(replyOf("rcpt", code(text), wire), false);
  return outcome.kind === "bounced" ? outcome.category : outcome.kind;
}

/** As a delivery report quotes it. */
function categoryReported(text: string): string {
  return verdictOn({ code: null, status: null, text }).category;
}

describe("a list of curated replies", () => {
  test(`has at least 150 about living addresses, and none is hard`, () => {
    expect(LIVING.length).toBeGreaterThanOrEqual(150);
    const wrong = ({ reply }: Listed) => categorySaid(reply) === "hard" || categoryReported(reply) === "hard";
    expect(LIVING.filter(wrong)).toEqual([]);
  });

  test("has those about nobody, and all are hard", () => {
    const wrong = ({ reply }: Listed) => categorySaid(reply) !== "hard" || categoryReported(reply) !== "hard";
    expect(GONE.filter(wrong)).toEqual([]);
  });

  test("names the source of each line, as the table of phrases does", () => {
    expect([...LIVING, ...GONE].filter(({ source }) => source === "")).toEqual([]);
    expect([...PHRASES, ...RECEIVER_RULES].filter(({ source }) => source === "")).toEqual([]);
  });
});

describe("replies in more languages and from more receivers", () => {
  test.each([
    "550 Message was not accepted -- invalid mailbox. Local mailbox lazy@mail.test is unavailable: account is disabled",
    "550 Domain may not exist or DNS check failed [192.0.2.7]. https://service.mail.qq.com/detail/122/74",
    "550 5.1.1 Mailbox van ontvanger is vol",
    "550 5.1.1 Skrzynka odbiorcy jest pełna",
    "550 5.1.1 Alıcının posta kutusu dolu",
    "550 5.1.1 Mottagarens brevlåda är full",
    "550 5.1.1 A postafiók megtelt",
    "550 5.1.1 사서함이 가득 찼습니다",
    "550 5.1.1 Sie sind nicht berechtigt, an diesen Verteiler zu senden",
    "550 User's mailbox does not exist on this server at this time, please try again later",
    "554 IP=192.0.2.7 - A problem occurred. (Ask your postmaster for help or to contact tosa@rx.t-online.test to clarify.)",
    "550 5.2.0 192.0.2.7 blocked. Error code: 554ip BL000010",
    "550 5.2.0 Mail rejete. Mail rejected. ofr_506 [506]",
    "550 permanent failure for one or more recipients (kim@corp.test:blocked)",
  ])("somebody may be there: %s", (reply) => {
    expect(categorySaid(reply)).not.toBe("hard");
    expect(categoryReported(reply)).not.toBe("hard");
  });

  test.each([
    "554 30 Sorry, your message to gone@yahoo.test cannot be delivered. This mailbox is disabled (554.30).",
    "550 #5.1.0 Address rejected.",
    "550 Ukjent mottaker",
    "550 Okänd mottagare",
    "550 Tuntematon vastaanottaja",
    "550 Ismeretlen címzett",
    "550 Utilizator necunoscut",
    "550 Άγνωστος παραλήπτης",
  ])("nobody is there: %s", (reply) => {
    expect([categorySaid(reply), categoryReported(reply)]).toEqual(["hard", "hard"]);
  });
});

describe("hard needs to be sure", () => {
  test.each<[string, string | null, string, string]>([
    ["a code without words", "5.1.1", "550 5.1.1", "hard user_unknown medium"],
    ["a code and words", "5.1.1", "550 5.1.1 no such user", "hard user_unknown high"],
    ["words without a code", null, "550 no such user", "hard user_unknown medium"],
    ["a code that speaks of a full mailbox", "5.2.2", "552 5.2.2 no such user", "soft user_unknown low"],
    ["a code whose words speak of us", "5.1.1", "550 5.1.1 not welcome", "block spam low"],
    ["a reply that is not final", "4.1.1", "450 4.1.1 no such user", "soft user_unknown high"],
    ["a report's own code beside the receiver's", "5.0.0", "550 5.1.1 refused", "hard user_unknown medium"],
    ["nothing", null, "", "soft unknown low"],
  ])("%s", (_, status, text, expected) => {
    const { category, reason, confidence } = verdictOn({ code: code(text) || null, status, text });
    expect(`${category} ${reason} ${confidence}`).toBe(expected);
  });

  test("what is common to many is hard only from the receiver that means it", () => {
    const refusal = { code: 550, status: null, text: "550 Requested action not taken: mailbox unavailable" };
    expect(verdictOn(refusal).category).toBe("soft");
    expect(verdictOn({ ...refusal, host: "mx00.gmx.net" }).category).toBe("hard");
    expect(verdictOn({ ...refusal, host: "mx00.gmx.net.example.org" }).category).toBe("soft");
  });

  test.each<[string, string, string]>([
    ["mx01.mail.icloud.com", "550 5.1.1 <gone@icloud.example>: inactive email address", "hard"],
    ["mx.corp.example", "550 5.1.1 <kim@corp.example>: inactive email address", "soft"],
    ["mx01.mail.icloud.com", "550 5.2.1 <kim@icloud.example>: inactive email address", "soft"],
    ["cluster1.eu.messagelabs.com", "553 Recipient mailbox is not allowed", "hard"],
    ["mx.corp.example", "553 Recipient mailbox is not allowed", "block"],
    ["cxr.mx.a.cloudfilter.net", "550 5.1.1 <gone@cox.net> recipient rejected", "hard"],
    ["cxr.mx.a.cloudfilter.net", "550 5.1.1 <kim@cox.net> recipient rejected (mailbox locked)", "soft"],
  ])("%s: %s is %s", (host, text, expected) => {
    const status = /\d\.\d\.\d/.exec(text)?.[0] ?? null;
    expect(verdictOn({ code: code(text), status, text, host }).category).toBe(expected);
  });
});

test("an address or a host in a reply is no word of it", () => {
  for (const text of [
    "550 5.7.1 <no-such-user@user-unknown.example>: refused",
    "550 5.7.1 mx.no-such-user.example refused it",
    "550 see https://user-unknown.example/no/such/user",
  ])
    expect(categorySaid(text)).not.toBe("hard");
  expect(categorySaid("550 5.1.1 <spam@blacklist.example>: user unknown")).toBe("hard");
});

test("whatever is said, a reply that is not final is never hard", () => {
  const words = fc.constantFrom(
    ...PHRASES.flatMap(({ phrases }) => phrases),
    "5.1.1",
    "550",
    "@",
    "no such user",
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 8 }), fc.integer({ min: 400, max: 499 }), (said, reply) => {
      expect(verdictOn({ code: reply, status: null, text: `${reply} ${said.join(" ")}` }).category).toBe(
        "soft",
      );
    }),
  );
});

test("a hostile reply takes no time", () => {
  const parts = [
    "user ",
    "unknown ",
    "a",
    " ",
    "@",
    "a@",
    "5.1.1 ",
    "5.1.",
    "(",
    "mailbox ",
    "用户",
    "é",
    ".",
    "not ",
    "sender ",
    "your ",
    "\u0301",
  ];
  warmUp();
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 4 }), (some) => {
      const text = some.join("").repeat(50_000).slice(0, 50_000);
      const cost = costOf(() => verdictOn({ code: 550, status: null, text }), VERDICT_MS_MAX);
      expect(cost).toBeLessThan(VERDICT_MS_MAX);
    }),
    // words that need two bytes a letter, and that half of the phrases begin with
    { numRuns: 300, examples: [[["mailbox ", "\u0301"]]] },
  );
});
