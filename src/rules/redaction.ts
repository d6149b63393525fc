/**
 * What an erasure makes of one e-mail. Pure. Whoever is erased is struck out of the header and of the
 * history; a mail that is still to go goes without them, or is canceled when nobody else is left; once
 * nothing of it is open, its subject and contents go too.
 */
import { identity, parseMailbox } from "../address.ts";
import { withoutConnection } from "./connection.ts";
import { endingOf, type Head, type HistoryEntry, isOpen, OPEN_MARK } from "./email.ts";

/** Of the addresses that stand for erased ones. */
export const ERASED_DOMAIN = "erased.invalid";

/** A mail's recipients stay as many and as different as its marks: the letters count them in order. */
function erasedAddress(n: number): string {
  return `${n === 0 ? "erased" : `erased-${n + 1}`}@${ERASED_DOMAIN}`;
}

export type RedactableEmail = {
  id: string;
  head: Head;
  status: string;
  marks: string | null;
  weight: number;
  history: HistoryEntry[] | null;
};

export type RedactedEmail = RedactableEmail & {
  /** Nothing is open: the contents go. */
  isOver: boolean;
  /** It was to go, and will not. */
  isCanceled: boolean;
};

/** Whom a mail names. */
export function identitiesOf({ to, cc, bcc, reply_to, shown }: Head): string[] {
  return [...to, ...cc, ...bcc, ...reply_to, ...shownIn(shown)].flatMap((text) => {
    const mailbox = parseMailbox(text);
    return mailbox ? [identity(mailbox.address)] : [];
  });
}

function shownIn(shown: Head["shown"]): string[] {
  return shown ? [...shown.to, ...shown.cc] : [];
}

/** The mail without these people, or null when it was not to any of them. */
export function redact(
  mail: RedactableEmail,
  identities: ReadonlySet<string>,
  at: string,
): RedactedEmail | null {
  const isOfErased = (text: string): boolean => {
    const mailbox = parseMailbox(text);
    return mailbox !== null && identities.has(identity(mailbox.address));
  };
  const { head } = mail;
  const redact = (list: readonly string[], first: number): string[] =>
    list.map((text, n) => (isOfErased(text) ? erasedAddress(first + n) : text));
  const envelope = [...head.to, ...head.cc, ...head.bcc].map(isOfErased);
  const beside = [...head.reply_to, ...shownIn(head.shown)];
  if (!envelope.includes(true) && !beside.some(isOfErased)) return null;

  const wasOpen = isOpen(mail.status);
  const marks = [...(mail.marks ?? OPEN_MARK.repeat(mail.weight))];
  let isCancellation = false;
  envelope.forEach((isOfThem, n) => {
    if (!isOfThem || !wasOpen || marks[n] !== OPEN_MARK) return;
    marks[n] = "x";
    isCancellation = true;
  });
  const ending = endingOf(marks.join(""));
  const isOver = !wasOpen || ending !== null;
  const erased = identitiesOf(head).filter((person) => identities.has(person));
  const history = (mail.history ?? []).map((entry) => redacted(entry, isOfErased, erased));
  if (isCancellation)
    history.push({ type: "canceled", at, recipient: erasedAddress(0), detail: "the contact was erased" });
  return {
    ...mail,
    head: {
      ...head,
      to: redact(head.to, 0),
      cc: redact(head.cc, head.to.length),
      bcc: redact(head.bcc, head.to.length + head.cc.length),
      reply_to: redact(head.reply_to, 0),
      subject: isOver ? "" : head.subject,
      ...(head.shown && { shown: { to: redact(head.shown.to, 0), cc: redact(head.shown.cc, 0) } }),
    },
    marks: isCancellation ? marks.join("") : mail.marks,
    status: wasOpen && ending ? ending : mail.status,
    history,
    isOver,
    isCanceled: wasOpen && isOver,
  };
}

/**
 * A reply may repeat the address, also a reply about somebody else; a host may belong to the person's own
 * domain.
 */
function redacted(
  entry: HistoryEntry,
  isOfErased: (text: string) => boolean,
  erased: readonly string[],
): HistoryEntry {
  const { detail, ...silent } = entry;
  if (entry.recipient !== undefined && isOfErased(entry.recipient)) {
    const redactedEntry = { ...silent, recipient: erasedAddress(0) };
    if (silent.attempt !== undefined) redactedEntry.attempt = withoutConnection(silent.attempt);
    return redactedEntry;
  }
  const said = detail === undefined ? "" : identity(detail);
  return erased.some((person) => said.includes(person)) ? silent : entry;
}
