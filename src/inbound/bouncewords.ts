/**
 * Bounces in words: what systems write that send no report of RFC 3464, or one that says little. First it must be sure
 * that a message is a bounce at all, by what its writer always writes; then each line that names an address is followed
 * by what was said about it.
 *
 * Promises: linear time on bounded text. A message that no rule knows is none.
 */
import { type Fields, field } from "./mime.ts";
import type { Fate } from "./report.ts";

type Style = {
  /** Whose words they are. */
  writer: string;
  /** In the text. */
  says?: RegExp;
  /** In the subject or the sender. */
  subject?: RegExp;
  from?: RegExp;
  /** A field that only this system writes. */
  has?: string;
  /** Where the part about recipients begins; without it, anywhere. */
  begins?: RegExp;
  /** It will be tried again. */
  isDelay?: boolean;
};

/** Delays before failures of the same writer. The first that fits decides. */
const STYLES: readonly Style[] = [
  {
    writer: "Exim, while it still tries",
    has: "x-failed-recipients",
    says: /has not (?:yet )?been delivered|no action is required on your part/i,
    isDelay: true,
  },
  {
    writer: "Exim",
    says: /message that you sent has not yet been delivered to one or more of its recipients/i,
    begins: /address(?:es)? to which the message has not yet been delivered/i,
    isDelay: true,
  },
  { writer: "Exim", has: "x-failed-recipients", begins: /the following address(?:\(es\)|es)? failed/i },
  {
    writer: "Exim",
    says: /a message that you sent could not be delivered to (?:one or more|all) of its recipients/i,
    begins: /following address/i,
  },
  {
    writer: "qmail",
    says: /^hi\. (?:this is the |the )(?:qmail-send program|[\w -]{0,40}(?:deliver|mail) (?:agent|program|system))/im,
    begins: /^hi\. /im,
  },
  { writer: "qmail", says: /i'm afraid i wasn't able to deliver your message/i },
  {
    writer: "Postfix, while it still tries",
    says: /your message could not be delivered for more than|you do not need to (?:re-?send|resend) your message/i,
    isDelay: true,
  },
  {
    writer: "Postfix",
    says: /this is the (?:mail system|postfix program) at host/i,
    begins: /mail system|postfix program/i,
  },
  {
    writer: "Sendmail, while it still tries",
    says: /this is a warning message only|transient non-fatal errors -----/i,
    isDelay: true,
  },
  {
    writer: "Sendmail and AOL",
    says: /----- the following addresses had (?:permanent|delivery) (?:fatal )?(?:errors|problems) -----/i,
    begins: /----- the following addresses had/i,
  },
  {
    writer: "Sendmail",
    says: /----- transcript of session follows -----/i,
    begins: /transcript of session follows/i,
  },
  {
    writer: "Yahoo",
    says: /(?:unable|sorry, we were unable) to deliver (?:your )?message to the following address/i,
    begins: /unable to deliver/i,
  },
  {
    writer: "Exchange",
    says: /your message\s{1,20}(?:to:|subject:)|did not reach the following recipient|message wasn't delivered|couldn't be delivered|delivery has failed to these recipients/i,
    from: /system administrator|postmaster|mailer-daemon|microsoft/i,
    begins:
      /did not reach the following|delivery has failed to these|couldn't be delivered|wasn't delivered/i,
  },
  {
    writer: "Gmail",
    says: /delivery to the following recipient (?:failed permanently|has been delayed)|address not found|message blocked/i,
    from: /mailer-daemon/i,
  },
  {
    writer: "Courier",
    says: /this is a delivery status notification from|undeliverable mail|the original message was received on/i,
    from: /courier|mailer-daemon|postmaster/i,
  },
  {
    writer: "Domino",
    says: /could not be (?:sent|delivered) because|has been delayed|failure report/i,
    subject: /delivery failure/i,
  },
  {
    writer: "Smail, Groupwise, Postal and their like",
    says: /\|-+ message log follows|the message that you sent was undeliverable/i,
  },
  {
    writer: "whoever calls itself the mail system",
    says: /undeliver|not (?:be )?deliver|deliver(?:y|ing)? (?:has )?(?:failed|error|problem|failure)|permanent (?:fatal )?error|returned to sender|user unknown|no such user|does ?n[o']t exist/i,
    subject:
      /undeliver|deliver(?:y|ing)[\w ]{0,30}(?:fail|problem|error|notification|report|status)|returned mail|mail (?:delivery )?(?:failed|failure|error|returned)|failure notice|non-?delivery|nicht zustellbar|unzustellbar/i,
    from: /mailer-?daemon|postmaster|mail delivery|maildelivery|mail-?administrator|delivery subsystem|<>/i,
  },
];

/** Where the mail that could not be delivered begins: what it says is the sender's. */
const QUOTE =
  /^(?:-{2,}|\*{2,}|[>|+]-*)?[ \t]{0,10}(?:below this line is a copy|(?:this is )?a copy of (?:the|your) message|original message|unsent message|the (?:header|original)|your (?:original )?message (?:follows|header|was)|message header|undelivered message|returned message|begin (?:original|copied)|forwarded message)/i;

const LINES_MAX = 1_000;
const LINE_CHARS_MAX = 1_000;
const FATES_MAX = 50;
const TEXT_CHARS_MAX = 500;
const ADDRESS =
  /(?:^|[\s<"'(:;[])([a-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[a-z0-9.-]{1,200}\.[a-z0-9-]{2,24})(?![\w@])/i;

export function bounceInWords(header: Fields, words: string): Fate[] {
  const style = STYLES.find((one) => isWrittenBy(one, header, words));
  if (!style) return [];
  const lines = linesOf(words, style.begins);
  const fates: (Fate & { lines: string[] })[] = [];
  let about: (Fate & { lines: string[] }) | null = null;
  for (const line of lines) {
    const address = ADDRESS.exec(line)?.[1]?.toLowerCase() ?? null;
    const isNew = address !== null && !/\b(?:rcpt to|mail from|postmaster|mailer-daemon)\b/i.test(line);
    if (isNew && fates.every(({ recipient }) => recipient !== address)) {
      if (fates.length === FATES_MAX) break;
      about = {
        recipient: address,
        action: style.isDelay ? "delayed" : "failed",
        status: null,
        code: null,
        text: "",
        remote: null,
        lines: [],
      };
      fates.push(about);
    }
    about?.lines.push(line.trim());
  }
  const said = fates.map(({ lines: about, ...fate }) => withReply(fate, about));
  if (said.length > 0) return said;
  return failedOf(header, style).map((recipient) =>
    withReply(
      {
        recipient,
        action: style.isDelay ? "delayed" : "failed",
        status: null,
        code: null,
        text: "",
        remote: null,
      },
      lines,
    ),
  );
}

function isWrittenBy({ says, subject, from, has }: Style, header: Fields, words: string): boolean {
  if (has !== undefined && !header.has(has)) return false;
  if (subject && !subject.test(field(header, "subject").slice(0, LINE_CHARS_MAX))) return false;
  if (from && !from.test(`${field(header, "from")} ${field(header, "return-path")}`.slice(0, LINE_CHARS_MAX)))
    return false;
  return !says || says.test(words);
}

function linesOf(words: string, begins: RegExp | undefined): string[] {
  const from = begins ? Math.max(0, words.search(begins)) : 0;
  const lines: string[] = [];
  for (const line of words.slice(from).split("\n", LINES_MAX)) {
    if (lines.length > 0 && QUOTE.test(line.slice(0, LINE_CHARS_MAX))) break;
    lines.push(line.slice(0, LINE_CHARS_MAX));
  }
  return lines;
}

/** Exim names them in the header. */
function failedOf(header: Fields, { has }: Style): (string | null)[] {
  if (has === undefined) return [];
  const named = field(header, has)
    .split(",", FATES_MAX)
    .map((one) => one.trim().toLowerCase());
  return named.filter((one) => one.includes("@"));
}

/** What a server said: of the lines about a recipient those that look like a reply, or else all of them. */
function withReply(fate: Fate, about: readonly string[]): Fate {
  const text = about
    .join(" ")
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim();
  const reply = REPLY.exec(text);
  const said = reply ? text.slice(reply.index).trimStart() : text;
  const host = HOST.exec(text)?.[1] ?? null;
  return {
    ...fate,
    code: reply?.[1] === undefined ? null : Number(reply[1]),
    status: STATUS.exec(said)?.[1] ?? null,
    text: said.slice(0, TEXT_CHARS_MAX).toWellFormed(),
    remote: host,
  };
}

const REPLY = /(?<![\d.#])([45]\d\d)[ -](?=[#(\w"'<[])/;
const STATUS = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.])/;
const HOST =
  /\b(?:host|server|from|while talking to|remote host|mta)\s{1,3}([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})/i;
