/**
 * What a refusal says about the recipient: category, reason, and how sure that is. Pure; the words stand in
 * replies.ts.
 *
 *   a rule of that receiver                        decides; but that nobody is there, only where nothing else
 *                                                  says otherwise
 *   words that blame rate, quota, lists, sender    somebody may be there, whatever the code says
 *   words that say that nobody is there            dead, unless the code says something else of a living
 *                                                  mailbox, or it is the sender who is not there, or a
 *                                                  thing (then the code decides)
 *   a code that says that nobody is there          dead, unless the words blame policy, us or the hour
 *   else                                           what the code says
 *
 * Promises: hard only when sure, since hard suppresses: never on a 4xx, never on a code that its own words
 * contradict. An address that the reply repeats, and the names of hosts, are no words. Time is linear in the
 * reply, of which the first 2,000 characters count.
 */
import {
  BLOCKLIST_SITES,
  CLOSED,
  DEAD,
  DISABLED,
  INACTIVE,
  LIVING_PERHAPS,
  LIVING_SURELY,
  type PhraseGroup,
  REASON_OF_DETAIL,
  RECEIVER_RULES,
  RECEIVERS,
  RECIPIENT_NOUNS,
  type Reason,
  SENDER_NOUNS,
  THING_NOUNS,
} from "./replies.ts";

/**
 * `hard`: nobody is there, and nobody will be: a candidate for suppression. `block`: they do not want it from
 * us.
 */
export type BounceCategory = "hard" | "soft" | "block" | "expired";

export type RefusedReply = {
  /** Of the reply, if there was one. */
  readonly code: number | null;
  /** RFC 3463, as `5.1.1`: of the reply or of the report's Status field. */
  readonly status: string | null;
  readonly text: string;
  /** Who answered. */
  readonly host?: string | null | undefined;
  /** To MAIL or before it: whoever is missing is no recipient. */
  readonly isBeforeRecipient?: boolean;
  /** To the whole mail, after DATA. */
  readonly isAfterMail?: boolean;
};

/**
 * `high`: code and words agree, or a rule knows that receiver. `medium`: one of them says so. `low`: a guess.
 */
export type Confidence = "high" | "medium" | "low";

export type Verdict = {
  readonly category: Exclude<BounceCategory, "expired">;
  readonly reason: Reason;
  readonly confidence: Confidence;
};

const TEXT_CHARS_MAX = 2_000;
const WORD_CHARS_MAX = 64;
/** A ligature may be eighteen letters when it is written out. */
const WORDS_CHARS_MAX = 2_000;

export function verdictOn(refusal: RefusedReply): Verdict {
  const facts = factsOf(refusal);
  const opinion = opinionOn(facts);
  const isAboutUs = refusal.isBeforeRecipient === true && GONE.has(opinion.reason);
  const { reason, confidence } = isAboutUs ? { ...opinion, reason: "sender" as const } : opinion;
  return { category: categoryOf(reason, confidence, facts), reason, confidence };
}

/** The patterns are compiled at their first uses, which takes some 100 ms: not while mail is under way. */
export function warmUp(): void {
  for (const text of ["user", "用户", "user", "用户"]) verdictOn({ code: 550, status: null, text });
}

type Facts = {
  /** The class of the refusal: only 5 is final. */
  isFinal: boolean;
  code: number | null;
  /** `1.1` of 5.1.1: the one that says most. */
  detail: string;
  raw: string;
  words: string;
  host: string;
  isAfterMail: boolean;
};
type Opinion = { reason: Reason; confidence: Confidence };

const GONE: ReadonlySet<Reason> = new Set([
  "user_unknown",
  "user_moved",
  "mailbox_disabled",
  "domain_unknown",
  "no_mail",
]);
const REFUSED: ReadonlySet<Reason> = new Set(["blocked", "policy", "authentication", "sender", "spam"]);

/** 1.7: the sender's syntax; 2.3 and 3.4: too big; 6.x: its form. */
const OF_THE_MAIL = /^(?:1\.7|2\.3|3\.4|6\.\d+)$/;

function categoryOf(reason: Reason, confidence: Confidence, { isFinal, detail }: Facts): Verdict["category"] {
  if (!isFinal) return "soft";
  if (GONE.has(reason)) return confidence === "low" ? "soft" : "hard";
  if (detail.startsWith("7.")) return "block";
  return REFUSED.has(reason) && !OF_THE_MAIL.test(detail) ? "block" : "soft";
}

function opinionOn(facts: Facts): Opinion {
  const { detail, words, code } = facts;
  const living = blocklisted(facts) ?? spokenOf(SURELY, words);
  const known = ruleFor(facts, living !== null);
  if (known) return { reason: known, confidence: "high" };

  const byCode = REASON_OF_DETAIL[detail] ?? (code === 556 ? "no_mail" : null);
  const isDeadByCode = byCode !== null && GONE.has(byCode);
  if (living) return { reason: living, confidence: isDeadByCode ? "medium" : "high" };
  const absent = placesOf(ABSENT, words);
  const forGood = placesOf(FOR_GOOD, words);
  const shut = placesOf(SHUT, words);
  if (isSenderMissing([...absent, ...forGood, ...shut], words, isDeadByCode))
    return { reason: "sender", confidence: "medium" };

  const perhaps = spokenOf(PERHAPS, words);
  const isThing = isThingMissing([...absent, ...forGood]);
  const dead = isThing ? undefined : absent[0]?.reason;
  if (dead) {
    if (isDeadByCode) return { reason: dead, confidence: "high" };
    const isContradicted =
      LIVING_DETAILS.has(detail) ||
      detail.startsWith("6.") ||
      (code !== null && LIVING_CODES.has(code)) ||
      (perhaps !== null && detail.startsWith("7."));
    return { reason: dead, confidence: isContradicted ? "low" : "medium" };
  }
  const isClosed = !isThing && forGood.length > 0;
  if ((isClosed || shut.length > 0) && !perhaps) {
    const isSure = isDeadByCode || detail === "2.1";
    const isLikely = isClosed && !LIVING_DETAILS.has(detail) && !/^[67]\./.test(detail);
    return { reason: "mailbox_disabled", confidence: isSure ? "high" : isLikely ? "medium" : "low" };
  }
  if (perhaps) return { reason: perhaps, confidence: isDeadByCode ? "low" : "medium" };
  if (byCode) return { reason: byCode, confidence: "medium" };
  return { reason: byReplyCode(facts), confidence: "low" };
}

/** Codes that say something of a mailbox that is there. */
const LIVING_DETAILS: ReadonlySet<string> = new Set([
  "1.7",
  "1.8",
  "2.2",
  "2.3",
  "3.1",
  "3.4",
  "4.3",
  "4.6",
  "4.7",
  "5.3",
  "5.4",
  "7.8",
  "7.9",
  "7.10",
  "7.11",
  "7.12",
  "7.14",
]);
/** Of the conversation: a command or its parameters, and credentials. */
const LIVING_CODES: ReadonlySet<number> = new Set([500, 501, 502, 503, 504, 530, 534, 535, 538, 555]);

function byReplyCode({ code, detail, words }: Facts): Reason {
  if (detail.startsWith("7.")) return "policy";
  if (detail.startsWith("6.")) return "content";
  if (code === 552) return "mailbox_full";
  if (code === 551) return "relay";
  if (detail.startsWith("4.")) return "network";
  if (detail.startsWith("3.")) return "system";
  return words.includes(" mailbox unavailable ") ? "mailbox_inactive" : "unknown";
}

// ---- the refusal as facts

const REPLY_CODE = /(?<![\d.])([245]\d\d)(?![\d.])/;
const STATUS = /(?<![\d.])([245])\.(\d{1,3})\.(\d{1,3})(?!\.?\d)/g;
/** "Other": as good as no code. */
const VAGUE: ReadonlySet<string> = new Set(["", "0.0", "1.0", "2.0", "3.0", "4.0", "5.0"]);
/** Around the reply of another host, whatever that says. */
const WRAPPING = /unknown address error/g;

function factsOf({ code, status, text, host, isAfterMail = false }: RefusedReply): Facts {
  const raw = text.slice(0, TEXT_CHARS_MAX).toLowerCase().replace(WRAPPING, "");
  const said = [...raw.matchAll(STATUS)].map(([, kind, subject, detail]) => ({
    kind,
    detail: `${Number(subject)}.${Number(detail)}`,
  }));
  const given = status === null ? null : { kind: status.charAt(0), detail: status.slice(2) };
  // what the text quotes is the receiver's own, the field beside it may be a translation
  const telling = said.find(({ detail }) => !VAGUE.has(detail)) ?? given ?? said[0];
  const quoted = REPLY_CODE.exec(raw)?.[1];
  const firstCode = code ?? (quoted === undefined ? null : Number(quoted));
  const kind = firstCode !== null ? String(firstCode).charAt(0) : (given?.kind ?? said[0]?.kind ?? "5");
  return {
    isFinal: kind === "5" && (code !== null || given?.kind !== "4"),
    code: firstCode,
    detail: telling?.detail ?? "",
    raw,
    words: wordsOf(text.slice(0, TEXT_CHARS_MAX)),
    host: (host ?? "").toLowerCase().replace(/\.$/, ""),
    isAfterMail,
  };
}

const SEPARATORS = /[\s<>()"[\]{},;=|]+/;
const IDEOGRAM = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー]/gu;
/** As in `l'adresse`. */
const ELISION = /(?<!\p{L})(\p{L})['’](?=\p{L})/gu;

/** One space around every word, every ideogram a word of its own: a phrase is found by its words. */
function wordsOf(text: string): string {
  const words: string[] = [" "];
  for (const token of text.replace(/\.(?=\p{Lu}\p{Ll})/gu, " ").split(SEPARATORS)) {
    if (token.includes("@")) words.push("@ ", plain(behindAddress(token)));
    else if (!isHostname(token)) words.push(plain(token.slice(0, WORD_CHARS_MAX)));
  }
  return words.join("").slice(0, WORDS_CHARS_MAX).replace(WRAPPING, "").replace(/ +/g, " ");
}

/** As in `kim@example.net:blocked`. */
function behindAddress(token: string): string {
  const colon = token.indexOf(":", token.lastIndexOf("@"));
  return colon < 0 ? "" : token.slice(colon + 1, colon + 1 + WORD_CHARS_MAX);
}

function isHostname(token: string): boolean {
  return token.includes("://") || /^[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}[.:/]?$/.test(token);
}

/** Lower case, without accents and apostrophes; what else is no letter or digit parts words. */
function plain(token: string): string {
  if (/^[A-Za-z0-9]*$/.test(token)) return `${token.toLowerCase()} `;
  const folded = token
    .replace(ELISION, "$1 ")
    .normalize("NFKD")
    .replace(/[\p{M}'’`´]/gu, "")
    .toLowerCase()
    .replaceAll("ł", "l")
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .replace(IDEOGRAM, " $& ");
  return `${folded} `;
}

// ---- the phrases as patterns

type CompiledPhrase = { reason: Reason; said: RegExp };

/**
 * `..` is up to five words; no part can match the same words in two ways, so that a search takes linear time.
 * Without the flag `u`: each of its characters is found without it, too, in a third of the time where a reply
 * has letters beyond Latin-1.
 */
function patternOf(phrase: string): string {
  return phrase
    .replace(/[äöü]/g, (umlaut) => `(${umlaut.normalize("NFKD").charAt(0)}e?)`)
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .trim()
    .replace(/ \.\. /g, " (?:\\S+ ){0,5}")
    .replace(/\((?!\?)/g, "(?:")
    .replace(/\*/g, "\\S*")
    .replace(IDEOGRAM, "$& ");
}

function compile(groups: readonly PhraseGroup[]): CompiledPhrase[] {
  return groups.map(({ reason, phrases }) => ({
    reason,
    said: new RegExp(` (?:${phrases.map(patternOf).join("|")}) ?(?<= )`),
  }));
}

const SURELY = compile(LIVING_SURELY);
const PERHAPS = compile([...LIVING_PERHAPS, ...INACTIVE]);
const ABSENT = compile(DEAD);
const FOR_GOOD = compile(CLOSED);
const SHUT = compile(DISABLED);
const [SENDER] = compile([SENDER_NOUNS]) as [CompiledPhrase];
const [RECIPIENT] = compile([RECIPIENT_NOUNS]) as [CompiledPhrase];
const [THING] = compile([THING_NOUNS]) as [CompiledPhrase];

function spokenOf(patterns: readonly CompiledPhrase[], words: string): Reason | null {
  return patterns.find(({ said }) => said.test(words))?.reason ?? null;
}

type SaidPlace = { reason: Reason; place: RegExpExecArray };

/** The first place of each group that is said at all. */
function placesOf(patterns: readonly CompiledPhrase[], words: string): SaidPlace[] {
  return patterns.flatMap(({ reason, said }) => {
    const place = said.exec(words);
    return place === null ? [] : [{ reason, place }];
  });
}

/** Beside any words of a missing address, or, where a code alone says so, anywhere. */
function isSenderMissing(missing: readonly SaidPlace[], words: string, isDeadByCode: boolean): boolean {
  if (missing.length === 0) return isDeadByCode && SENDER.said.test(words) && !RECIPIENT.said.test(words);
  return missing.some(({ place }) => isOfSender(place));
}

/** A certificate, a record, a permission: the words of a missing address speak of that. */
function isThingMissing(missing: readonly SaidPlace[]): boolean {
  return missing.length > 0 && missing.every(({ place }) => isOfThing(place));
}

const RIGHT_BEFORE = /(?:\S+ ){0,3}$/;

function isOfThing({ 0: found, index, input }: RegExpExecArray): boolean {
  const before = RIGHT_BEFORE.exec(input.slice(Math.max(0, index - CHARS_BESIDE_MAX), index + 1))?.[0] ?? "";
  return THING.said.test(` ${before}${found.trimStart()}`);
}

const BEFORE = /(?:\S+ ){0,5}$/;
const BEHIND = /^(?:\S+ ){0,3}/;
const CHARS_BESIDE_MAX = 6 * WORD_CHARS_MAX;

function isOfSender({ 0: found, index, input }: RegExpExecArray): boolean {
  if (SENDER.said.test(found)) return true;
  if (RECIPIENT.said.test(found)) return false;
  const end = index + found.length;
  const before = BEFORE.exec(input.slice(Math.max(0, index - CHARS_BESIDE_MAX), index + 1))?.[0] ?? "";
  const behind = BEHIND.exec(input.slice(end, end + CHARS_BESIDE_MAX))?.[0] ?? "";
  return SENDER.said.test(` ${before}${found.trimStart()}${behind}`);
}

function blocklisted({ raw }: Facts): Reason | null {
  return BLOCKLIST_SITES.some((site) => raw.includes(site)) ? "blocked" : null;
}

const RULES = RECEIVER_RULES.map((rule) => ({
  ...rule,
  said: rule.phrase === undefined ? null : new RegExp(` ${patternOf(rule.phrase)} ?(?<= )`),
}));

function ruleFor({ detail, raw, words, host, isAfterMail }: Facts, isLiving: boolean): Reason | null {
  const rule = RULES.find(
    (one) =>
      !(isLiving && GONE.has(one.reason)) &&
      (one.detail === undefined || one.detail === detail) &&
      (one.literal === undefined || raw.includes(one.literal)) &&
      (one.said === null || one.said.test(words)) &&
      (one.isFrom === undefined || isHostOf(one.receiver, host)) &&
      (one.isAfterMail === undefined || isAfterMail) &&
      !(one.said !== null && GONE.has(one.reason) && isDoubtful(words, one.said)),
  );
  return rule?.reason ?? null;
}

/** What a rule knows by words common to many is no more sure than what else is said. */
function isDoubtful(words: string, said: RegExp): boolean {
  const place = said.exec(words);
  return spokenOf(PERHAPS, words.replace(said, " ")) !== null || (place !== null && isOfSender(place));
}

function isHostOf(receiver: string, host: string): boolean {
  const domains: readonly string[] = RECEIVERS[receiver as keyof typeof RECEIVERS] ?? [];
  return domains.some((domain) => host === domain || host.endsWith(`.${domain}`));
}
