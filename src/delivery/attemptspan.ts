/**
 * The attempt to deliver an e-mail, as part of the trace of the request that it came with. No addresses, no
 * replies in full.
 */
import type { HeldBag, OpenEmail } from "../record/mail/bagleases.ts";
import type { Reply } from "../smtp/reply.ts";
import { beginSpan, type TraceSpan } from "../trace.ts";

/** null: the e-mail has no trace, or traces are off. */
export function beginAttempt({ workspaceId }: HeldBag, { id, extra, attempts }: OpenEmail): TraceSpan | null {
  if (extra?.trace === undefined) return null;
  return beginSpan("SMTP delivery", {
    kind: "delivery",
    parent: extra.trace,
    attributes: {
      "postrider.workspace_id": workspaceId,
      "postrider.email_id": id,
      "postrider.attempt": attempts + 1,
    },
  });
}

/** Of several recipients the one is told of who was not delivered to. */
export function endAttempt(span: TraceSpan, replies: readonly Reply[]): void {
  const failed = replies.find(({ phase, code }) => phase !== "dot" || code === null || code >= 300);
  const told = failed ?? replies[0];
  const { via } = told ?? {};
  span.end(
    {
      "postrider.recipients": replies.length,
      "smtp.phase": told?.phase,
      "smtp.reply_code": told?.code,
      "smtp.enhanced_code": told?.enhanced,
      "error.type": told?.error,
      "server.address": via?.host,
      "network.peer.address": via?.ip,
      "network.local.address": via?.localIp,
      "tls.protocol.version": via?.tls,
    },
    failed ? (failed.error ?? String(failed.code)) : null,
  );
}
