/**
 * The e-mail that tells the owners of a workspace that an endpoint takes no events, by the operator's sender.
 * Its id follows from the endpoint and the time since when it fails: two who write it write one.
 */
import { parseMailbox } from "../address.ts";
import { derivedId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import type { NewEmail } from "../record/mail/emails.ts";
import { noteTold, type TroubledWebhook, webhooksToTell } from "../record/outbox/dispatch.ts";
import type { Head } from "../rules/email.ts";
import { TELL_AFTER_MS } from "../rules/webhook.ts";

const TOLD_MAX = 100;

export type TellParts = {
  sql: Sql;
  /** The operator's sender. */
  from: string;
  write(mail: {
    workspaceId: string;
    handle: string;
    bulk: boolean;
    emails: NewEmail[];
  }): Promise<{ kind: "written"; ids: readonly string[] } | { kind: "workspace gone" }>;
  onFault(error: unknown): void;
};

/** One mail that cannot be written keeps back no other. */
export async function tellOwners({ sql, from, write, onFault }: TellParts, now: number): Promise<void> {
  for (const troubled of await webhooksToTell(sql, new Date(now - TELL_AFTER_MS), TOLD_MAX))
    try {
      const { workspaceId, handle } = troubled;
      const emails = [emailTo(troubled, from)];
      const submitted = await write({ workspaceId, handle, bulk: false, emails });
      if (submitted.kind === "written") await noteTold(sql, troubled, submitted.ids[0] as string);
    } catch (error) {
      onFault(error);
    }
}

function emailTo(troubled: TroubledWebhook, from: string): NewEmail {
  const { workspaceId, id } = troubled;
  const since = troubled.failingSince.getTime();
  const owners = troubled.owners.filter((owner) => parseMailbox(owner) !== null);
  const head: Head = { from, to: owners, cc: [], bcc: [], reply_to: [], subject: subjectOf(troubled) };
  const headText = JSON.stringify(head);
  const plain = wordsTo(troubled);
  return {
    workspaceId,
    id: derivedId(since, `webhook ${workspaceId} ${id} ${since} ${troubled.disabledFor ?? ""}`),
    keyId: null,
    bulk: false,
    stream: "",
    head: headText,
    weight: owners.length,
    bytes: headText.length + plain.length,
    html: null,
    plain,
    extra: null,
    scheduledAt: null,
  };
}

function subjectOf({ disabledFor }: TroubledWebhook): string {
  return disabledFor === null ? "A webhook endpoint accepts no events" : "A webhook endpoint was disabled";
}

function wordsTo({
  workspaceId,
  endpoint,
  id,
  failingSince,
  disabledFor,
  workspaceName,
}: TroubledWebhook): string {
  const where = `The webhook endpoint ${endpoint} (${id}) of the workspace ${workspaceName}`;
  const next = "To see what it answered, to enable it, and to send it again what it has refused:";
  const commands = [`attempts ${id}`, `enable ${id}`, `replay ${id} --failed`]
    .map((command) => `postrider webhook ${command} --workspace ${workspaceId}`)
    .join("\n");
  const story =
    disabledFor === "gone"
      ? `${where} answered 410 Gone and is disabled: it gets no more events.`
      : `${where} has accepted no event since ${failingSince.toISOString()}. It is tried again now and then. If it accepts none for five days, it is disabled.`;
  return `Hello,\n\n${story}\n\n${next}\n\n${commands}\n`;
}
