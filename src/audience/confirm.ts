/**
 * Confirmation mails: written when a change asked for one, and found again when whoever made the change did
 * not get to it. The id of the mail follows from what asked for it, so that two who write it write one. One
 * that cannot be written keeps back no other.
 */
import { parseMailbox } from "../address.ts";
import type { Clock } from "../clock.ts";
import { derivedId } from "../ids.ts";
import { noteMailed, type OwedConfirmation, owedConfirmations } from "../record/contacts/confirmations.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Extra, NewEmail } from "../record/mail/emails.ts";
import { CONFIRM_WITHIN_MS } from "../rules/contact.ts";
import type { Head } from "../rules/email.ts";
import type { Links } from "./links.ts";

const SWEEP_MAX = 200;
/** Whoever asked writes the mail at once; only after this is it taken for forgotten. */
const GRACE_MS = 3_000;

export type ConfirmationText = {
  subject: string;
  html: string | null;
  text: string | null;
  from: string | null;
  replyTo: string[];
};

export type ConfirmationParts = {
  sql: Sql;
  links: Links;
  clock: Clock;
  /** The sender when the text names none. */
  from: string;
  /** `submitOwn`. */
  write(mail: { workspaceId: string; handle: string; bulk: boolean; emails: NewEmail[] }): Promise<unknown>;
  /** The workspace's own words for it, or null. */
  textOf(owed: OwedConfirmation, confirmUrl: string): Promise<ConfirmationText | null>;
  onFault(error: unknown): void;
};

export class Confirmations {
  readonly #parts: ConfirmationParts;
  #sweeping: Promise<void> | null = null;
  /**
   * The next sweep leaves out as many: they could not be written, and there were more than one sweep takes.
   */
  #passed = 0;

  constructor(parts: ConfirmationParts) {
    this.#parts = parts;
  }

  /** The mail that a change of this contact asked for. */
  async send(workspaceId: string, contactId: string): Promise<void> {
    for (const owed of await owedConfirmations(this.#parts.sql, { workspaceId, contactId }, 1))
      await this.#write(owed);
  }

  /** Those that were left behind. One sweep at a time. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = null;
    });
    return this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const { sql, clock, onFault } = this.#parts;
    const now = clock.now();
    const span = { after: new Date(now - CONFIRM_WITHIN_MS), before: new Date(now - GRACE_MS) };
    const owed = await owedConfirmations(sql, span, SWEEP_MAX, this.#passed);
    if (owed.length < SWEEP_MAX) this.#passed = 0;
    for (const one of owed)
      try {
        await this.#write(one);
      } catch (error) {
        onFault(error);
        if (owed.length === SWEEP_MAX) this.#passed++;
      }
  }

  async #write(owed: OwedConfirmation): Promise<void> {
    const { sql, links, write, textOf } = this.#parts;
    const { workspaceId, handle, audienceId, contactId } = owed;
    const confirmUrl = links.confirmUrl({
      workspaceId,
      audienceId,
      contactId,
      askedAt: owed.askedAt.getTime(),
    });
    const own = (await textOf(owed, confirmUrl)) ?? plainConfirmation(owed, confirmUrl);
    await write({ workspaceId, handle, bulk: false, emails: [this.#emailOf(owed, own)] });
    await noteMailed(sql, owed);
  }

  #emailOf({ workspaceId, contactId, email, askedAt }: OwedConfirmation, own: ConfirmationText): NewEmail {
    const { from = null, subject, html, text, replyTo } = own;
    const head: Head = {
      from: from ?? this.#parts.from,
      to: [email],
      cc: [],
      bcc: [],
      reply_to: replyTo,
      subject,
    };
    const headText = JSON.stringify(head);
    return {
      workspaceId,
      id: derivedId(askedAt.getTime(), `confirmation ${workspaceId} ${contactId} ${askedAt.getTime()}`),
      keyId: null,
      writtenFor: contactId,
      bulk: false,
      stream: "",
      head: headText,
      weight: 1,
      bytes: headText.length + (html?.length ?? 0) + (text?.length ?? 0),
      html,
      plain: text,
      extra: JSON.stringify({ asks: { contactId, askedAt: askedAt.getTime() } } satisfies Extra),
      scheduledAt: null,
    };
  }
}

/** no-reply at the host of the public url; an address that nobody has when that is no mail domain. */
export function defaultSender(publicUrl: string): string {
  const address = `no-reply@${new URL(publicUrl).hostname}`;
  return parseMailbox(address) ? address : "no-reply@postrider.invalid";
}

/** The operator's words under the operator's sender: no caller can make them say anything else. */
function plainConfirmation(
  { audienceName, firstName }: OwedConfirmation,
  confirmUrl: string,
): ConfirmationText {
  const name = lettersOf(audienceName, "&") || "this sender";
  const called = lettersOf(firstName ?? "");
  const greeting = called === "" ? "Hello," : `Hello ${called},`;
  const request = `please confirm that you want to receive e-mails from ${name}:`;
  const otherwise =
    "If you did not ask for this, ignore this e-mail: unless you confirm, you are not subscribed.";
  return {
    subject: `Please confirm: mail from ${name}`,
    text: `${greeting}\n\n${request}\n\n${confirmUrl}\n\nThe link works for 7 days. ${otherwise}\n`,
    html: `<p>${escaped(greeting)}</p>
<p>${escaped(request)}</p>
<p><a href="${escaped(confirmUrl)}">Confirm</a></p>
<p>The link works for 7 days. ${escaped(otherwise)}</p>
`,
    from: null,
    replyTo: [],
  };
}

const NAME_CHARS_MAX = 40;

/**
 * Letters of any script, spaces, apostrophes and hyphens: nothing that becomes a link, a number to call or
 * markup.
 */
function lettersOf(text: string, besides = ""): string {
  const kept = text.replace(/\s+/gu, " ").replace(new RegExp(`[^\\p{L}\\p{M} '’${besides}-]+`, "gu"), "");
  return [...kept.replace(/ {2,}/g, " ").trim()].slice(0, NAME_CHARS_MAX).join("").trim();
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
