/**
 * What a reply makes of a mail: all policy about failure, as one pure function.
 *
 *   2xx to the final dot                     delivered; nothing else is
 *   no connection, or not let in
 *     by the smarthost                       unsent: nothing of the mail was tried
 *     by the receiver itself                 deferred: that was its attempt
 *   DNS knows of nobody to take it           bounced; while DNS fails, deferred
 *   4xx, or the connection broke             deferred
 *   421                                      deferred; the conversation ends itself politely
 *   complete, and no answer came             deferred, "lost answer": it may have arrived, a retry may repeat
 *                                            it
 *   5xx that blames the recipient or mail    bounced: hard, soft or block
 *   5xx that blames us                       deferred, "our standing": an operator can mend it, and it would
 *                                            otherwise bounce everybody's mail
 *   its domain's key cannot be used          unsent: it waits rather than goes unsigned
 *   deferred, and tried for too long         bounced, expired, with that last reply; but not while no
 *                                            receiver can be asked: what is unsent, and silence of DNS, which
 *                                            may be our own resolver's for as long again
 *
 * To whom a 5xx belongs: before MAIL always to us. To MAIL, to us as well (the sender's domain is not set up,
 * the account is barred: the recipients have no part in it), unless it names the mail's size, its content or
 * its sender's syntax. To RCPT, DATA and the dot, to the recipient or the mail, unless it says that we must
 * log in, may not relay or are suspended.
 *
 * The first digit of the reply decides between 4xx and 5xx even where the enhanced code contradicts it
 * (Postfix does the same). What a refusal says of the recipient, and how sure that is, stands in verdict.ts.
 */
import type { Phase, Reply } from "../smtp/reply.ts";
import type { Outcome } from "./outcome.ts";
import type { Reason } from "./replies.ts";
import { type Verdict, verdictOn } from "./verdict.ts";

type CarriesTo = "smarthost" | "receivers";

/** `isLongExpired`: it has been tried for twice as long as mail lives. */
export function classify(
  reply: Reply,
  isExpired: boolean,
  carriesTo: CarriesTo = "smarthost",
  isLongExpired = false,
): Outcome {
  const outcome = judge(reply, carriesTo);
  const isOver = reply.error === "DNS_SILENT" ? isLongExpired : isExpired;
  if (!isOver || outcome.kind !== "deferred") return outcome;
  const { reason, confidence } = verdictOf(reply, carriesTo);
  return { kind: "bounced", reply, why: "expired", category: "expired", reason, confidence };
}

/**
 * What a receiver defers because of who we are or how much we send: growing makes it worse. A greylist defers
 * everyone.
 */
const THROTTLING: ReadonlySet<Reason> = new Set(["rate_limited", "blocked", "policy", "spam", "sender"]);

export function isThrottled({ kind, reply }: Outcome, carriesTo: CarriesTo): boolean {
  const { code } = reply;
  if (kind !== "deferred" || code === null || code < 400 || code >= 500) return false;
  return THROTTLING.has(verdictOf(reply, carriesTo).reason);
}

/** Outcomes that no retry mends by itself. */
export function concernsOperator(outcome: Outcome): boolean {
  return (
    (outcome.kind === "deferred" && outcome.why === "our standing") ||
    (outcome.kind === "unsent" && (outcome.why === "turned away" || outcome.why === "unsigned"))
  );
}

function judge(reply: Reply, carriesTo: CarriesTo): Outcome {
  const { phase, code } = reply;
  if (phase === "session") return judgeStop(reply);
  if (phase === "route") return judgeRoute(reply, carriesTo);
  if (BEFORE_MAIL.has(phase)) {
    // what the receiver's own policy asks for is for the receiver to mend
    const isOurs = isTurnedAway(reply) && !isByReceiver(reply);
    return carriesTo === "smarthost"
      ? { kind: "unsent", reply, why: isOurs ? "turned away" : "unreachable" }
      : { kind: "deferred", reply, why: isOurs ? "our standing" : "unreachable" };
  }
  if (code === null) {
    return { kind: "deferred", reply, why: phase === "dot" ? "lost answer" : "network" };
  }
  if (code >= 200 && code < 300 && phase === "dot") return { kind: "delivered", reply };
  if (code === 421) return { kind: "deferred", reply, why: "closing" };
  if (code < 500) return { kind: "deferred", reply, why: "temporary" };
  if (blamesUs(reply)) return { kind: "deferred", reply, why: "our standing" };
  return { kind: "bounced", reply, why: "refused", ...verdictOf(reply, carriesTo) };
}

const BEFORE_MAIL: ReadonlySet<Phase> = new Set(["connect", "tls", "greeting", "helo", "auth"]);

/** Our own words with a code of RFC 3463, whose class says whether it can change. */
function judgeRoute(reply: Reply, carriesTo: CarriesTo): Outcome {
  return reply.enhanced?.startsWith("5.")
    ? { kind: "bounced", reply, why: "nobody there", ...verdictOf(reply, carriesTo) }
    : { kind: "deferred", reply, why: "unreachable" };
}

/** Some words mean more from one receiver than from another: its host is told where it spoke itself. */
function verdictOf({ phase, code, enhanced: status, text, via }: Reply, carriesTo: CarriesTo): Verdict {
  if (code === null && phase !== "route") return { category: "soft", reason: "network", confidence: "high" };
  const host = carriesTo === "receivers" ? via?.host : null;
  const isBeforeRecipient = phase === "mail" || BEFORE_MAIL.has(phase);
  return verdictOn({ code, status, text, host, isBeforeRecipient, isAfterMail: phase === "dot" });
}

/** Stopped on our side. */
function judgeStop(reply: Reply): Outcome {
  switch (reply.error) {
    case "ADDRESS_UNSAFE":
    case "SMTPUTF8_NOT_OFFERED":
    case "SIZE_EXCEEDED":
      return {
        kind: "bounced",
        reply,
        why: "unsendable",
        category: "soft",
        reason: "content",
        confidence: "high",
      };
    case "KEY_UNUSABLE":
      return { kind: "unsent", reply, why: "unsigned" };
    case "BUSY":
      return { kind: "unsent", reply, why: "busy" };
    default:
      return { kind: "unsent", reply, why: "stopped" };
  }
}

/** A host that is not there comes back; a refusal, a certificate or a password is mended by somebody. */
function isTurnedAway({ phase, code, error }: Reply): boolean {
  if (code !== null) return code >= 500;
  if (error === "TLS_NOT_OFFERED" || error === "AUTH_NOT_OFFERED") return true;
  return phase === "tls" && error !== null && /CERT|SIGNATURE|ERR_TLS|ERR_SSL|EPROTO/.test(error);
}

function isByReceiver({ phase, via }: Reply): boolean {
  return phase === "tls" && (via?.policy === "sts" || via?.policy === "dane");
}

/** 500-504: the conversation itself; 530-538: log in first. */
const CODES_ABOUT_US = new Set([500, 502, 503, 504, 530, 534, 535, 538]);
/** 5.1: wrong order of commands; 7.8-7.14: credentials and encryption; 7.54: Exchange does not relay. */
const DETAILS_ABOUT_US = new Set(["5.1", "7.8", "7.9", "7.10", "7.11", "7.12", "7.13", "7.14", "7.54"]);
const WORDS_ABOUT_US =
  /relay(?:ing)? (?:access )?(?:is )?(?:denied|prohibited|not (?:allowed|permitted))|unable to relay|not (?:allowed|permitted) to relay|authentication (?:is )?required|must (?:first )?(?:log ?in|authenticate)|sending (?:is |has been )?(?:paused|suspended)|(?:email address|domain) is not verified/i;
/** 1.7: sender's syntax; 2.3 and 3.4: too big; 6.x: content. */
const DETAILS_ABOUT_MAIL = /^(?:1\.7|2\.3|3\.4|6\.\d+)$/;

function blamesUs({ phase, code, enhanced, text }: Reply): boolean {
  const detail = enhanced?.slice(2) ?? "";
  if (phase === "mail") return !(code === 552 || DETAILS_ABOUT_MAIL.test(detail));
  return CODES_ABOUT_US.has(code as number) || DETAILS_ABOUT_US.has(detail) || WORDS_ABOUT_US.test(text);
}
