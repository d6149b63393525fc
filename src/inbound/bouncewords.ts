/**
 * Bounces in words: what systems write that send no report of RFC 3464, or one that says little. First it must be sure
 * that a message is a bounce at all: by words that only mail systems write, or by bounce words in a message whose sender or
 * subject is that of a mail system. Then each line that names an address is followed by what was said about it.
 *
 * Promises: linear time on bounded text. A message that no rule knows is none. Of a bounce that names nobody the recipient
 * is null: whom it is about is said by the return path that it came to.
 */

import type { Fate } from "./fate.ts";
import { type Fields, field } from "./mime.ts";

type Writer = {
  name: string;
  /** Words of its own. */
  says: RegExp;
  /** Where the part about recipients begins; without it, at the first word. */
  begins?: RegExp;
};

const WRITERS: readonly Writer[] = [
  {
    name: "Exim",
    says: /a message that you sent (?:could not be delivered to|has not yet been delivered to|was rejected by)/i,
    begins:
      /following address|address(?:es)? to which the message|following message, addressed to|following error was given/i,
  },
  {
    name: "qmail",
    says: /^hi\. this is the |i'm afraid i wasn't able to deliver|sorry it didn't work out/im,
  },
  { name: "Postfix", says: /this is the (?:mail system|postfix program) at host/i },
  {
    name: "Sendmail and AOL",
    says: /-----\s?the following addresses had /i,
    begins: /-----\s?the following addresses had /i,
  },
  {
    name: "Sendmail",
    says: /----- transcript of session follows -----/i,
    begins: /transcript of session follows/i,
  },
  {
    name: "Exchange",
    says: /did not reach the following recipient|delivery has failed to these recipients/i,
  },
  {
    name: "MDaemon",
    says: /the following addresses did not receive a copy of your message/i,
    begins: /the following addresses did not receive/i,
  },
  { name: "LSMTP", says: /^error-for:/im, begins: /^error-for:/im },
  {
    name: "Gmail",
    says: /delivery to the following recipient(?:s)? (?:failed permanently|has been delayed|failed)/i,
  },
];

const SENDER =
  /mailer-?daemon|post-?master|mail[ ._-]{0,3}delivery|mail-?administrator|delivery[ ._-]subsystem|smtp[ _-]?(?:mail|gateway)|mdaemon|mail ?server|system administrator|antivirus|imss@|<>/i;
const SUBJECT =
  /undeliver|non.?deliver|not (?:be )?deliver|deliver[\w ]{0,40}(?:fail|problem|error|warning|status)|returned? (?:mail|message)|mail (?:system )?(?:delivery )?(?:failed|failure|error|returned|rejected)|failure notice|error during delivery|nicht zustellbar|unzustellbar|non remis|user unknown|message (?:\S{1,40} )?delayed|échec|mancata consegna|no entregado/i;
const WORDS =
  /(?:un|not |n[o']t |non-)(?:be )?(?:able to )?(?:been )?deliver|deliver(?:y|ing)? (?:\w{1,15} ){0,6}(?:failed|error|problem|failure|aborted|postponed)|fail(?:ed|ure)|fatal error|error while being processed|returned to sender|(?:user|recipient|address|mailbox|account)\w? (?:\S{1,60} ){0,3}(?:unknown|unavailable|not found|is full|is wrong|no longer valid)|unknown user|invalid (?:final delivery )?(?:user|recipient|mailbox|address)|no such user|does ?n[o']t exist|is not recognized|mailbox is full|quota|not accepting mail|rejected|undeliverable|n'existe pas|n'a pas pu|не может быть доставлено|<[^\s<>@]{1,64}@[^\s<>]{1,200}>:/i;
/** It will be tried again. */
const DELAY =
  /not (?:yet )?been delivered (?:to (?:one or more|all) of its recipients|because|after)|no action is required on your part|need to (?:re-?send|take any action)|attempts (?:to deliver )?will (?:be made|continue)|continue to (?:be made|try|attempt)|this is (?:just )?a warning|warning message only|advisory-only|transient non-fatal|has been delayed|could not be delivered for more than|has not yet been delivered/i;
/** What is over after so many attempts, although a warning of before is quoted. */
const OVER = /permanent|giving up|given up|failed permanently/i;

/** Where the mail that could not be delivered begins: what it says is the sender's. */
const QUOTE =
  /^[-*=#_>|+\s]{0,80}(?:below (?:(?:this|the next) line )?is a copy|(?:this is )?(?:here is )?a copy of (?:the|your)|(?:the )?(?:original|unsent|undelivered|returned|old) (?:message|mail)|start of returned|(?:the )?(?:message )?headers? (?:of|and top|follows)|your (?:original )?message (?:follows|header|was:)|message (?:header|body|text)|begin (?:original|copied)|forwarded message|the first \d|received: )/i;

const LINES_MAX = 1_000;
const LINE_CHARS_MAX = 1_000;
const FATES_MAX = 50;
const TEXT_CHARS_MAX = 500;
const ADDRESS =
  /(?:^|[\s<"'(:;[=])([a-z0-9!#$%&*+/?^_`{|}~.-]{1,64}@[a-z0-9.-]{1,200}\.[a-z0-9-]{2,24})(?![\w@])/i;
/** Lines that name somebody else: who sent the mail, or who is to be asked. */
const OF_OTHERS =
  /mail from|postmaster|mailer-?daemon|^\s*(?:from|sender|reply-to|message-id|return-path)\s*:/i;

type FoundWords = Fate & { lines: string[] };

export function bounceInWords(header: Fields, words: string): Fate[] {
  const begins = bounceBegins(header, words);
  return begins === null ? [] : fatesInWords(header, words.slice(begins));
}

/** Of words that are known to be those of a bounce. */
export function fatesInWords(header: Fields, words: string): Fate[] {
  const lines = linesOf(words);
  const action = DELAY.test(words) && !OVER.test(words) ? "delayed" : "failed";
  const found = foundIn(lines, action);
  const named = found.length > 0 ? found : namedIn(header).map((one) => freshFate(one, action, lines));
  const fates = named.length > 0 ? named : [freshFate(null, action, lines)];
  return fates.map(withReply);
}

/** Where the words about recipients begin; null: it is no bounce. */
function bounceBegins(header: Fields, words: string): number | null {
  const writer = WRITERS.find(({ says }) => says.test(words));
  if (writer) return writer.begins ? Math.max(0, words.search(writer.begins)) : 0;
  if (header.has(FAILED)) return 0;
  const from = `${field(header, "from") || "<>"} ${field(header, "return-path")}`.slice(0, LINE_CHARS_MAX);
  const subject = field(header, "subject").slice(0, LINE_CHARS_MAX);
  return (SENDER.test(from) || SUBJECT.test(subject)) && (WORDS.test(words) || DELAY.test(words)) ? 0 : null;
}

/** Exim names those who failed in the header. */
const FAILED = "x-failed-recipients";

function namedIn(header: Fields): string[] {
  const names = field(header, FAILED).split(",", FATES_MAX);
  return names.map((one) => one.trim().toLowerCase()).filter((one) => one.includes("@"));
}

function foundIn(lines: readonly string[], action: Fate["action"]): FoundWords[] {
  const found: FoundWords[] = [];
  for (const line of lines) {
    const address = OF_OTHERS.test(line) ? null : (ADDRESS.exec(line)?.[1]?.toLowerCase() ?? null);
    const isNew = address !== null && found.every(({ recipient }) => recipient !== address);
    if (isNew && found.length === FATES_MAX) break;
    if (isNew) found.push(freshFate(address, action, []));
    found.at(-1)?.lines.push(line.trim());
  }
  return found;
}

function freshFate(recipient: string | null, action: Fate["action"], lines: readonly string[]): FoundWords {
  return { recipient, action, status: null, code: null, text: "", remote: null, lines: [...lines] };
}

function linesOf(words: string): string[] {
  const lines: string[] = [];
  for (const line of words.split("\n", LINES_MAX)) {
    if (lines.length > 0 && QUOTE.test(line.slice(0, LINE_CHARS_MAX))) break;
    lines.push(line.slice(0, LINE_CHARS_MAX));
  }
  return lines;
}

/** What a server said: of the lines about a recipient what looks like a reply, or else all of them. */
function withReply({ lines, ...fate }: FoundWords): Fate {
  const text = lines
    .join(" ")
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim();
  const reply = REPLY.exec(text);
  const said = reply ? text.slice(reply.index).trimStart() : text;
  return {
    ...fate,
    code: reply?.[1] === undefined ? null : Number(reply[1]),
    status: STATUS.exec(said)?.[1] ?? null,
    text: said.slice(0, TEXT_CHARS_MAX).toWellFormed(),
    remote: HOST.exec(text)?.[1] ?? null,
  };
}

const REPLY = /(?<![\d.#])([45]\d\d)[ -](?=[#(\w"'<[])/;
const STATUS = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.])/;
const HOST =
  /\b(?:host|server|from|while talking to|remote host|mta)\s{1,3}([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})/i;
