/**
 * Bounces in words: what systems write that send no report of RFC 3464, or one that says little. First it
 * must be sure that a message is a bounce at all: by words that only mail systems write, or by bounce words
 * in a message whose sender or subject is that of a mail system. Then each line that names an address is
 * followed by what was said about it.
 *
 * Promises: linear time on bounded text. A message that no rule knows is none. Of a bounce that names nobody
 * the recipient is null: whom it is about is said by the return path that it came to.
 */

import type { Fate } from "./fate.ts";
import { type Fields, field, wordsIn } from "./mime.ts";
import { type RefusedAt, refusedAt } from "./refusedat.ts";
import { isAnswer, isNameless, isOfDaemon, isOfMailSystem } from "./sender.ts";

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
    says: /did not reach the following recipient|delivery has failed to these recipients|konnte folgende(?:n|\(n\))? empfänger nicht erreichen|n'a pas atteint le\(?s?\)? ?destinataire|no (?:ha llegado a|llegó a) los siguientes destinatarios|non ha raggiunto i(?:l|\(?l?\)?) ?(?:seguenti? )?destinatari|heeft de volgende geadresseerde\(n\) niet bereikt|não (?:atingiu|alcançou) os seguintes destinatários|次の受信者に届きませんでした|fehler bei der nachrichtenzustellung an folgende empfänger|impossible de remettre votre message aux destinataires|no se pudo entregar el mensaje a estos destinatarios/i,
  },
  {
    name: "MDaemon",
    says: /the following addresses did not receive a copy of your message/i,
    begins: /the following addresses did not receive/i,
  },
  { name: "LSMTP", says: /^error-for:/im, begins: /^error-for:/im },
  {
    name: "Gmail, Microsoft",
    says: /del[ie]very to the following recipients? (?:failed permanently|has been delayed|failed|was aborted)|message (?:wasn't|couldn't be) delivered to \S{1,320}@|your message to \S{1,320}@\S{1,250} couldn't be delivered/i,
  },
  {
    name: "Notes and Domino",
    says: /------- failure reasons |^your message$(?:\n.{0,200}){1,8}\n(?:was not delivered to:|wurde nicht ausgeliefert an:)/im,
    begins: /------- failure reasons |was not delivered to:/i,
  },
  {
    name: "Sun Messaging Server",
    says: /your message cannot be delivered to the following recipients:/i,
    begins: /your message cannot be delivered to the following recipients:/i,
  },
  {
    name: "MailMarshal",
    says: /could not be delivered because of/i,
    begins: /could not be delivered because of/i,
  },
  {
    name: "Japanese providers",
    says: /the following addresses had delivery (?:errors|problems)|could not be delivered to: <|each of the following recipients was rejected by a remote mail server|the user\(s\) account is /i,
    begins:
      /the following addresses had delivery (?:errors|problems)|could not be delivered to: <|each of the following recipients was rejected|the user\(s\) account is /i,
  },
  {
    name: "MailEnable, hMailServer, CommuniGate, Courier, GroupWise, Exchange gateways",
    says: /the following recipient\(s\) could not be reached|did not reach some or all of the intended recipients|failed to deliver to '[^'\s]{1,320}'|this is a delivery status notification from|the message that you sent was undeliverable to the following|the email below could not be delivered to the following|error following rcpt command\)/i,
  },
  {
    name: "Yahoo and AOL",
    says: /sorry, we were unable to deliver your message to the following address|unable to deliver message to the following address/i,
  },
  {
    name: "OpenSMTPD",
    says: /an error has occurred while attempting to deliver a message for|message is delayed for more than \S{1,20} \S{1,20} for the following list of recipients/i,
  },
  {
    name: "gateways of X.400",
    says: /your message was not delivered to:?\s{1,20}\S{1,64}@\S{1,250}\s{1,20}for the following reason/i,
  },
  {
    name: "mobile networks",
    says: /^message could not be delivered to mobile\.?\s{1,5}error:|^error message below:\s{1,5}[45]\d\d\b/im,
  },
];

const SUBJECT =
  /undeliver|non.?deliver|not (?:be )?deliver|deliver[\w ]{0,40}(?:fail|problem|error|warning|status)|returned? (?:mail|message)|mail (?:system )?(?:delivery )?(?:failed|failure|error|returned|rejected)|failure notice|error during delivery|nicht zustellbar|unzustellbar|non remis|user unknown|message (?:\S{1,40} )?delayed|échec (?:de|d')|zustellungsfehler|fehler bei der (?:zustellung|nachrichtenzustellung)|mancata consegna|errore di consegna|error de entrega|falha na entrega|afleverfout|配信エラー|送信障害|no entregado|no se (?:ha )?pud\w{1,4} entregar|devuelto|impossibile (?:recapitare|consegnare)|non recapitabile|não (?:foi )?(?:entregue|pôde)|devolvid[oa]|onbestelbaar|niet (?:afgeleverd|bezorgd)|niedostarcz|nie dostarczono|zwrot|nedoručiteln|nedoručen|kunne ikke leveres|ikke levert|olevererbart|kunde inte levereras|toimittaminen epäonnistui|kézbesíthetetlen|iletilemedi|teslim edilemedi|недостав|не доставлен|не может быть доставлен|退信|退回|无法送达|未送达|無法傳遞|配信不能|配信できません|届きません|エラーメール|반송|배달되지|전송 실패/i;
const WORDS =
  /(?:un|not |n[o']t |non-)(?:be )?(?:able to )?(?:been )?deliver|deliver(?:y|ing)? (?:\w{1,15} ){0,6}(?:failed|error|problem|failure|aborted|postponed)|fail(?:ed|ure)|fatal error|error while being processed|returned to sender|(?:user|recipient|address|mailbox|account)(?:es|\w)? (?:\S{1,60} ){0,3}(?:unknown|unavailable|not found|is full|is wrong|no longer valid)|unknown user|invalid (?:final delivery )?(?:user|recipient|mailbox|address)|no such user|does ?n[o']t exist|is not recognized|mailbox is full|exceed|quota|not accepting mail|rejected|undeliverable|n'existe pas|n'a pas pu|не может быть доставлено|<[^\s<>@]{1,64}@[^\s<>]{1,200}>:/i;
/** What WORDS says, elsewhere. Without accents where systems leave them out. */
const WORDS_ABROAD =
  /nicht (?:\S{1,30} ){0,2}(?:zugestellt|ausgeliefert|übermittelt|erreicht)|(?:empfänger|adresse|benutzer|postfach) (?:\S{1,40} ){0,3}(?:unbekannt|nicht gefunden|existiert nicht|voll)|(?:n'a|n'ont) (?:pas )?(?:\S{1,20} )?(?:pu )?(?:[eê]tre )?(?:remis|d[eé]livr[eé]|distribu[eé]|livr[eé])|(?:destinataire|adresse|utilisateur|boite) (?:\S{1,40} ){0,3}(?:inconnu|introuvable|inexistant|invalide)|no (?:se )?(?:ha )?(?:pud\w{1,4}|puede|fue) (?:ser )?(?:posible )?entrega\w{1,3}|(?:usuario|destinatario|cuenta) (?:\S{1,40} ){0,3}(?:desconocid|inexistente|no existe)|n[aã]o (?:p[oô]de|foi|pode) (?:ser )?(?:poss[ií]vel )?entreg|impossibile (?:recapitare|consegnare)|non (?:[eè] stato possibile|pu[oò] essere|[eè] stat[oa]) (?:recapitat|consegnat)|(?:utente|destinatario|indirizzo|casella) (?:\S{1,40} ){0,3}(?:sconosciut|inesistente|non esiste)|kon(?:den)? niet (?:\S{1,30} ){0,3}(?:worden )?(?:afgeleverd|bezorgd)|nie (?:mo[zż]na|uda[lł]o si[eę]|mog[lł]a|zosta[lł]a) (?:\S{1,30} ){0,4}dor[eę]cz|nie (?:\S{1,30} ){0,3}dostarczy|ne(?:lze|mohla|byla|bylo) (?:\S{1,30} ){0,3}doru[cč]|kunne ikke (?:\S{1,30} ){0,2}(?:leveres|sendes)|kunde inte (?:\S{1,30} ){0,2}levereras|ei voitu toimittaa|(?:teslim|iletil)\S{0,6} ?edilemedi|iletilemedi|не (?:может|могло|удалось|было|была|доставлен)\S{0,2} ?(?:быть )?доставл?|退信|退回|无法(?:送达|投递)|未能送达|未送达|無法(?:傳遞|送達)|配信でき|配達でき|届けでき|お届けすることができません|送信できません|반송|배달(?:할 수 없|하지 못|되지)|전달(?:할 수 없|하지 못)/iu;
/** It will be tried again. */
const DELAY =
  /not (?:yet )?been delivered (?:to (?:one or more|all) of its recipients|because|after)|no action is required on your part|need to (?:re-?send|take any action)|attempts (?:to deliver )?will (?:be made|continue)|continue to (?:be made|try|attempt)|this is (?:just )?a warning|warning message only|advisory-only|transient non-fatal|has been delayed|could not be delivered for more than|is delayed for more than|has not yet been delivered/i;
/** What is over after so many attempts, although a warning of before is quoted. */
const OVER = /permanent|giving up|given up|failed permanently/i;

/** Where the mail that could not be delivered begins: what it says is the sender's. */
const QUOTE =
  /^[-*=#_>|+\s]{0,80}(?:below (?:(?:this|the next) line )?is a copy|(?:this is )?(?:here is )?a copy of (?:the|your)|(?:the )?(?:original|unsent|undelivered|returned|old) (?:message|mail)|start of returned|(?:the )?(?:message )?headers? (?:of|and top|follows)|your (?:original )?message (?:follows|header|was:)|message (?:header|body|text(?! rejected by))|begin (?:original|copied)|forwarded message|the attachment contains|the first \d|received: |included is a copy of|please reply to <?postmaster@)/i;

const LINES_MAX = 1_000;
const LINE_CHARS_MAX = 1_000;
/** About one recipient. */
const LINES_EACH_MAX = 100;
const CHARS_EACH_MAX = 8_000;
const FATES_MAX = 50;
const TEXT_CHARS_MAX = 500;
const ADDRESS =
  /(?:^|[\s<"'(:;[=])([a-z0-9!#$%&*+/?^_`{|}~.-]{1,64}@[a-z0-9.-]{1,200}\.[a-z0-9-]{2,24})(?![\w@])/i;
/** Lines that name somebody else: who sent the mail, or who is to be asked. */
const OF_OTHERS =
  /\((?:ultimately )?generated (?:from|by) |mail from(?! command)|postmaster|mailer-?daemon|^\s*(?:from|sender|reply-to|message-id|return-path)\s*:/i;

/** Which address led to one that failed. */
const EXPANDED = /\(expanded from:? {0,3}[^\s)]{1,330}\)/i;

type FoundWords = Fate & { lines: string[] };

/** `isReturned`: a mail, or its header, is attached. */
export function bounceInWords(header: Fields, words: string, isReturned: boolean): Fate[] {
  const begins = bounceBegins(header, words, isReturned);
  return begins === null ? [] : fatesInWords(header, words.slice(begins));
}

/** Of words that are known to be those of a bounce. */
export function fatesInWords(header: Fields, words: string): Fate[] {
  const lines = linesOf(words);
  const action = actionIn(words);
  const { lead, found } = foundIn(lines, action);
  const named = namedIn(header);
  const told = named.length > 0 ? found.filter(({ recipient }) => named.includes(recipient ?? "")) : found;
  const untold = named.filter((one) => told.every(({ recipient }) => recipient !== one));
  const before = wordsOf(lead);
  const fates = told.map(({ lines, ...fate }) => ({ ...fate, ...replyIn(wordsOf(lines), before) }));
  if (fates.length > 0 && untold.length === 0) return fates;
  const all = wordsOf(lines.slice(0, LINES_EACH_MAX));
  if (fates.length + untold.length === 0) return [{ ...freshFate(null, action), ...replyIn(all, NO_WORDS) }];
  // the same words are about each of these, and are read once
  const reply = replyIn(all, before);
  return [...fates, ...untold.map((one) => ({ ...freshFate(one, action), ...reply }))];
}

function actionIn(words: string): Fate["action"] {
  if (ARRIVED.test(words) && !WORDS.test(words)) return "delivered";
  return DELAY.test(words) && !OVER.test(words) ? "delayed" : "failed";
}
const ARRIVED =
  /successful delivery|successfully (?:delivered|relayed)|relayed; expect no further|relayed to non-dsn/i;

/** Where the words about recipients begin; null: it is no bounce. */
function bounceBegins(header: Fields, words: string, isReturned: boolean): number | null {
  const own = words.replace(CITED, "");
  const flat = own.replace(/\s+/g, " ");
  const writer = WRITERS.find(({ says }) => says.test(own) || says.test(flat)) ?? null;
  if (!header.has(FAILED) && !isBounce(header, { own, flat }, writer !== null, isReturned)) return null;
  return writer?.begins ? Math.max(0, words.search(writer.begins)) : 0;
}

/** Lines of another message; Sendmail shows its own commands with three. */
const CITED = /^>(?!>>).*$/gm;

/**
 * People write to return paths too, of parcels that could not be delivered and of mail that came back to
 * them. The less a sender is a mail system by its name, the more must be said that only mail systems say.
 */
function isBounce(header: Fields, { own, flat }: Said, isWriters: boolean, isReturned: boolean): boolean {
  const saysFailure = isWriters || [WORDS, WORDS_ABROAD, DELAY].some((words) => words.test(flat));
  if (isOfDaemon(header)) return saysFailure;
  if (!saysFailure || (isAnswer(header) && !header.has("auto-submitted"))) return false;
  const isTitled = SUBJECT.test(wordsIn(header, "subject").slice(0, LINE_CHARS_MAX));
  const isTechnical = isWriters || TECHNICAL.test(own);
  const comesBack = isReturned || hasQuote(own);
  if (isOfMailSystem(header)) return isTechnical || (isTitled && (comesBack || namesSomebody(own)));
  return isWriters && (isTitled || comesBack || isNameless(header));
}

/** Without what it cites, by lines and as one. */
type Said = { own: string; flat: string };

function hasQuote(words: string): boolean {
  return words.split("\n", LINES_MAX).some((line) => QUOTE.test(line.slice(0, LINE_CHARS_MAX)));
}

/** A reply of a server, or an address as servers name it. */
const TECHNICAL =
  /(?<![\d.])[45]\.\d\.\d{1,3}(?![\d.])|(?<![\d.#])[45]\d\d[ -](?=[#(\w"'<[])|^\s{0,20}<[^\s<>@]{1,64}@[^\s<>]{1,200}>:/m;

function namesSomebody(words: string): boolean {
  return linesOf(words).some((line) => !OF_OTHERS.test(line) && ADDRESS.test(line));
}

/** Exim names those who failed in the header. */
const FAILED = "x-failed-recipients";

function namedIn(header: Fields): string[] {
  const names = field(header, FAILED).split(",", FATES_MAX);
  return names.map((one) => one.trim().toLowerCase()).filter((one) => one.includes("@"));
}

/** Who is named, each with the lines from there on; `lead`: what was said before. */
function foundIn(lines: readonly string[], action: Fate["action"]): { lead: string[]; found: FoundWords[] } {
  const lead: string[] = [];
  const found: FoundWords[] = [];
  let current: FoundWords | undefined;
  for (const line of lines) {
    const address = OF_OTHERS.test(line) ? null : addressIn(line);
    const known = address === null ? current : found.find(({ recipient }) => recipient === address);
    if (address !== null && !known && found.length === FATES_MAX) break;
    current = known ?? (address === null ? undefined : { ...freshFate(address, action), lines: [] });
    if (current && !known) found.push(current);
    const about = current?.lines ?? lead;
    if (about.length < LINES_EACH_MAX) about.push(line.trim());
  }
  return { lead, found };
}

function addressIn(line: string): string | null {
  return ADDRESS.exec(line.replace(EXPANDED, ""))?.[1]?.toLowerCase() ?? null;
}

function freshFate(recipient: string | null, action: Fate["action"]): Fate {
  return { recipient, action, status: null, code: null, text: "", remote: null };
}

function linesOf(words: string): string[] {
  const lines: string[] = [];
  for (const line of words.split("\n", LINES_MAX)) {
    if (lines.length > 0 && QUOTE.test(line.slice(0, LINE_CHARS_MAX))) break;
    lines.push(line.slice(0, LINE_CHARS_MAX));
  }
  return lines;
}

/** Some lines, read once for all whom they are about. */
type ReadLines = {
  /** As one line, cut off where it is long. */
  text: string;
  refusedAt: RefusedAt | null;
};
const NO_WORDS: ReadLines = { text: "", refusedAt: null };

function wordsOf(lines: readonly string[]): ReadLines {
  return { text: oneLine(lines), refusedAt: refusedAt(lines.join("\n")) };
}

/**
 * What a server said: of the words about a recipient what looks like a reply, or else all of them. Some say
 * it first, and then of whom: `before` goes before what follows, which may still excuse the recipient.
 */
function replyIn(own: ReadLines, before: ReadLines): Partial<Fate> {
  const isToldBefore = !REPLY.test(own.text) && (REPLY.test(before.text) || isAddressAlone(own.text));
  const text = isToldBefore ? oneLine([before.text, own.text]) : own.text;
  const at = own.refusedAt ?? (isToldBefore ? before.refusedAt : null);
  const reply = REPLY.exec(text);
  const said = reply ? text.slice(reply.index).trimStart() : text;
  return {
    code: reply?.[1] === undefined ? null : Number(reply[1]),
    status: STATUS.exec(said)?.[1] ?? null,
    text: said.slice(0, TEXT_CHARS_MAX).toWellFormed(),
    remote: HOST.exec(text)?.[1] ?? null,
    ...(at !== null && { refusedAt: at }),
  };
}

function oneLine(lines: readonly string[]): string {
  return lines
    .join(" ")
    .slice(0, CHARS_EACH_MAX)
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim();
}

function isAddressAlone(text: string): boolean {
  const rest = text.replace(ADDRESS, "").replace(/[^\p{L}\p{N}]+/gu, "");
  return /^(?:smtp|rfc822|mailto)?$/i.test(rest);
}

const REPLY = /(?<![\d.#])([45]\d\d)[ -]{1,3}(?=[#(\w"'<[])/;
const STATUS = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.])/;
const HOST =
  /\b(?:host|server|from|while talking to|remote host|mta)\s{1,3}([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})/i;
