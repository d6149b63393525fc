/**
 * At which command of the conversation a reported refusal came, where the words around it say so. Before RCPT
 * it is about us, whatever it says: `no such user` to MAIL FROM is the sender's address.
 *
 * Promises: pure; linear time. Where a text names several commands the one that excuses the recipient counts.
 */
export type RefusedAt = "helo" | "mail" | "rcpt" | "dot";

/** As in `in reply to`, `after`, `did not like our`: Postfix, Exim, GMX, DragonFly. Lines wrap anywhere. */
const AT =
  /\b(?:to|for|on|at|in|during|after|by|did not like our)\s{1,20}(?:the\s{1,20})?(?:SMTP\s{1,20})?(?:command\s{1,20})?(?:pipelined\s{1,20})?["'(]{0,2}/
    .source;

const SAID: readonly (readonly [RefusedAt, RegExp])[] = [
  // the second is qmail's
  ["mail", new RegExp(`${AT}MAIL\\s{1,20}F(?:ROM|rom)\\b|\\bbut sender was rejected`)],
  [
    "helo",
    new RegExp(
      `${AT}(?:EHLO|HELO|LHLO|initial (?:server )?(?:greeting|connection))\\b|refused to talk to me|but (?:greeting failed|my name was rejected)`,
    ),
  ],
  [
    "dot",
    /in reply to end\s{1,20}of DATA|after (?:pipelined )?end\s{1,20}of data|did not like our (?:final )?DATA/i,
  ],
  ["rcpt", new RegExp(`${AT}RCPT\\s{1,20}T[Oo]\\b|does not like recipient`)],
];

/**
 * Commands and replies as they went, in the arrows of Sendmail and Courier, of MDaemon behind the time, and
 * in hMailServer's words. A command stands at most so far before the end of its line.
 */
const COMMAND = /(?:>>>|-->|sent:) {0,5}(MAIL F|RCPT T|DATA|EHLO|HELO)/i;
const COMMAND_LINE_CHARS_MAX = 620;
/** What the line after it begins with, and the lines of a longer reply. */
const REPLIES =
  /(?:\s{0,20}(?:Remote server )?replied:|[^\n<>]{0,60}<<<|[^\n<>]{0,60}<--) {0,5}(5[^\n]{0,600}(?:\n[^\n<>]{0,60}(?:<<<|<--) {0,5}5[^\n]{0,600}){0,20})/iy;
const EXCHANGES_MAX = 50;
const AT_OF: Record<string, RefusedAt> = {
  MAIL: "mail",
  RCPT: "rcpt",
  DATA: "dot",
  EHLO: "helo",
  HELO: "helo",
};

/** A refusal in a transcript: the command, and the lines of the reply. */
export type RefusedCommand = { at: RefusedAt; replies: string[] };

const MILDEST_FIRST: readonly RefusedAt[] = ["mail", "helo", "dot", "rcpt"];

/** null: the words do not say. */
export function refusedAt(words: string): RefusedAt | null {
  return whereOf(refusalsIn(words));
}

/** All that words say of it, to be asked about several recipients. */
export type Refusals = { commands: RefusedAt[]; exchanges: RefusedCommand[] };

export function refusalsIn(words: string): Refusals {
  return { commands: commandsIn(words), exchanges: exchangesIn(words) };
}

/** Of whomever they are about. */
export function whereOf({ commands, exchanges }: Refusals): RefusedAt | null {
  return mildestOf([...commands, ...exchanges.map(({ at }) => at)]);
}

/** Named in words, not in a transcript. */
function commandsIn(words: string): RefusedAt[] {
  return SAID.filter(([, said]) => said.test(words)).map(([at]) => at);
}

/** Line by line: one expression for all of it would read the rest of a line again from each command in it. */
function exchangesIn(words: string): RefusedCommand[] {
  const text = words.replaceAll("\r", "");
  const exchanges: RefusedCommand[] = [];
  for (let at = 0; exchanges.length < EXCHANGES_MAX; ) {
    const lineEnd = text.indexOf("\n", at);
    if (lineEnd < 0) break;
    const line = text.slice(Math.max(at, lineEnd - COMMAND_LINE_CHARS_MAX), lineEnd);
    at = lineEnd + 1;
    const command = COMMAND.exec(line)?.[1];
    if (command === undefined) continue;
    REPLIES.lastIndex = at;
    const reply = REPLIES.exec(text)?.[1];
    if (reply === undefined) continue;
    at = REPLIES.lastIndex;
    const replies = reply.split("\n").map((one) => flat(one.replace(/^[^\n<>]{0,60}(?:<<<|<--)/, "")));
    exchanges.push({ at: AT_OF[command.slice(0, 4).toUpperCase()] as RefusedAt, replies });
  }
  return exchanges;
}

export function mildestOf(all: readonly RefusedAt[]): RefusedAt | null {
  return MILDEST_FIRST.find((at) => all.includes(at)) ?? null;
}

/** Which command was answered with this reply; null: none of these. */
export function answeredWith(text: string, exchanges: readonly RefusedCommand[]): RefusedAt | null {
  const wanted = flat(text);
  return mildestOf(exchanges.filter(({ replies }) => replies.includes(wanted)).map(({ at }) => at));
}

function flat(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
