/**
 * How a recipient's or a sender's address asks the sink to behave. The part before `@` (and before a `+`, so
 * that many addresses can ask for the same) is the request; any other address is simply accepted:
 *
 *   defer-451@          RCPT is answered 451; any 4xx. After a 421 the sink hangs up, as the code says
 *   refuse-550@         RCPT is answered 550; any 5xx
 *   defer-data-451@     the final dot is answered 451
 *   refuse-data-554@    the final dot is answered 554
 *   refuse-550-5.7.1@   any of these with its enhanced status code
 *   once-451@           RCPT is answered 451 the first time this address is named, then accepted
 *   slow-200@           the final dot is answered after 200 ms; the message is kept, also when the client has
 *                       left by then
 *   hang-after-data@    the final dot is never answered
 *   drop-in-data@       the connection breaks when the first bytes of the message arrive; nothing is kept
 *   drop-after-data@    the message is kept, and the connection breaks instead of the answer to the final dot
 *   mail-from-550@      as a sender: MAIL is answered 550
 */
export type Manner =
  | { kind: "accept" }
  | { kind: "reply to rcpt"; reply: string }
  | { kind: "reply to rcpt once"; reply: string }
  | { kind: "reply to dot"; reply: string }
  | { kind: "slow dot"; delayMs: number }
  | { kind: "hang after data" }
  | { kind: "drop in data" }
  | { kind: "drop after data" };

const ACCEPT: Manner = { kind: "accept" };
const PLAIN: Record<string, Manner> = {
  "hang-after-data": { kind: "hang after data" },
  "drop-in-data": { kind: "drop in data" },
  "drop-after-data": { kind: "drop after data" },
};
const REPLY = /^(?:(once)|(?:defer|refuse)(-data)?)-([45]\d\d)(?:-([45]\.\d{1,3}\.\d{1,3}))?$/;
const SLOW = /^slow-(\d{1,6})$/;
const MAIL_FROM = /^mail-from-([45]\d\d)(?:-([45]\.\d{1,3}\.\d{1,3}))?$/;

export function mannerOf(recipient: string): Manner {
  const local = requestOf(recipient);
  if (!local.includes("-")) return ACCEPT;
  const plain = PLAIN[local];
  if (plain) return plain;
  const slow = SLOW.exec(local);
  if (slow) return { kind: "slow dot", delayMs: Number(slow[1]) };
  const [, once, atDot, code, enhanced] = REPLY.exec(local) ?? [];
  if (code === undefined) return ACCEPT;
  const reply = replyText(Number(code), enhanced);
  return { kind: once ? "reply to rcpt once" : atDot ? "reply to dot" : "reply to rcpt", reply };
}

/** What the sink answers to MAIL from this sender; null: it is welcome. */
export function refusalOfSender(sender: string): string | null {
  const [, code, enhanced] = MAIL_FROM.exec(requestOf(sender)) ?? [];
  return code === undefined ? null : replyText(Number(code), enhanced);
}

const WORDS: Record<number, [enhanced: string, words: string]> = {
  421: ["4.3.2", "service not available, closing the connection"],
  450: ["4.2.1", "mailbox busy"],
  451: ["4.7.1", "greylisted, try again later"],
  452: ["4.2.2", "mailbox full"],
  550: ["5.1.1", "no such user"],
  552: ["5.2.2", "mailbox full"],
  553: ["5.1.3", "mailbox name not allowed"],
  554: ["5.7.1", "refused by policy"],
};

export function replyText(code: number, enhanced?: string): string {
  const [usual, words] = WORDS[code] ?? [`${Math.floor(code / 100)}.0.0`, "as you asked"];
  return `${code} ${enhanced ?? usual} ${words}`;
}

function requestOf(address: string): string {
  const local = address.slice(0, Math.max(0, address.lastIndexOf("@"))).toLowerCase();
  const plus = local.indexOf("+");
  return plus === -1 ? local : local.slice(0, plus);
}
