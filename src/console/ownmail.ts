/** Mail that the engine writes to people of the console, about what only they may see. */
import { newId } from "../ids.ts";
import type { Extra } from "../record/mail/emails.ts";
import type { Head } from "../rules/email.ts";
import { TRANSACTIONAL_STREAM } from "../rules/stream.ts";
import type { SubmitOwn } from "../submit.ts";

export type OwnMailParts = {
  /** Writes mail of the engine's own accord. */
  write: SubmitOwn;
  /** The operator's sender. */
  mailFrom: string;
};

/** `isOfAccount`: to somebody about their own account, whatever the workspace has on them. */
type PrivateMail = { to: string; subject: string; text: string; isOfAccount?: boolean };

/** `workspace`: among whose e-mails it is, without its contents. It counts for its caps; none keeps it. */
export async function mailPrivately(
  { write, mailFrom }: OwnMailParts,
  workspace: { id: string; handle: string },
  { to, subject, text, isOfAccount = false }: PrivateMail,
  now: number,
): Promise<void> {
  const head: Head = { from: mailFrom, to: [to], cc: [], bcc: [], reply_to: [], subject };
  const headText = JSON.stringify(head);
  // who may read the workspace's mail must not become who was sent the link
  const extra: Extra = { private: true, ...(isOfAccount && { account: true }) };
  const mail = {
    ...{ workspaceId: workspace.id, id: newId(now), keyId: null, ...TRANSACTIONAL_STREAM, head: headText },
    ...{ weight: 1, bytes: headText.length + text.length, html: null, plain: text, scheduledAt: null },
    extra: JSON.stringify(extra),
  };
  await write({ workspaceId: workspace.id, handle: workspace.handle, bulk: false, emails: [mail] });
}
