/**
 * What an e-mail of the record says in its message: the same for whoever sends it and whoever shows what was
 * sent.
 */
import type { Mailbox } from "./address.ts";
import type { MessageContent } from "./message/compose.ts";
import type { Attachment } from "./message/tree.ts";
import { type Extra, eachOnce, mailboxesOf, messageIdOf } from "./record/mail/emails.ts";
import type { Head } from "./rules/email.ts";

/**
 * Who stands in the header, and everyone the mail goes to, each once: to before cc before bcc, as the marks
 * are.
 */
export type People = { to: Mailbox[]; cc: Mailbox[]; replyTo: Mailbox[]; recipients: readonly Mailbox[] };

export function readPeople({ to, cc, bcc, reply_to, shown }: Head): People {
  const all = { to: mailboxesOf(to), cc: mailboxesOf(cc) };
  const recipients = eachOnce([...all.to, ...all.cc, ...mailboxesOf(bcc)]);
  const named = shown === undefined ? all : { to: mailboxesOf(shown.to), cc: mailboxesOf(shown.cc) };
  return { to: named.to, cc: named.cc, replyTo: mailboxesOf(reply_to), recipients };
}

export type Composable = {
  id: string;
  head: Head;
  html: string | null;
  plain: string | null;
  extra: Extra | null;
  /** When the first attempt began; null: there was none. */
  sentAt: number | Date | null;
};

/** `at`: now, when it is sent for the first time. */
export function contentOf(
  { id, head, html, plain, extra, sentAt }: Composable,
  from: Mailbox,
  { to, cc, replyTo }: People,
  attachments: readonly Attachment[],
  at: number | Date,
  mark: string,
): MessageContent {
  return {
    messageId: messageIdOf(id, from),
    // the first attempt's, so that a retry is the same mail
    date: new Date(sentAt ?? at),
    from,
    to,
    cc,
    replyTo,
    subject: head.subject,
    html,
    text: plain,
    headers: extra?.headers ?? {},
    attachments,
    mark,
  };
}
