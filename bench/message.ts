/**
 * A mail of the bench as the engine would write it: what floors and peers are given, so that all send the
 * same bytes.
 */
import { type Mailbox, parseMailbox } from "../src/address.ts";
import { newId } from "../src/ids.ts";
import { compose } from "../src/message/compose.ts";
import { mail } from "./mails.ts";

export async function finishedMessage(): Promise<Buffer> {
  const { from, to, subject, html } = mail(1);
  const now = Date.now();
  return compose({
    messageId: `<${newId(now)}@example.com>`,
    date: new Date(now),
    from: mailboxOf(from),
    to: [mailboxOf(to)],
    cc: [],
    replyTo: [],
    subject,
    html,
    text: null,
    headers: {},
    attachments: [],
  });
}

function mailboxOf(text: string): Mailbox {
  const mailbox = parseMailbox(text);
  if (!mailbox) throw new Error(`${text} is no address`);
  return mailbox;
}
