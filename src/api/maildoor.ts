/**
 * The API for mail that does not come by HTTP: the same keys, rates, checks, quotas and commits, as plain
 * calls. Answers and refusals are values, and the refusals are the API's.
 */
import type { Admission, Caller } from "../admission/admit.ts";
import type { Bearer } from "../admission/bearer.ts";
import { allows } from "../admission/permissions.ts";
import type { Sql } from "../record/db/connect.ts";
import { findEmail } from "../record/mail/read.ts";
import type { Shown } from "../rules/email.ts";
import { type Submit, submitter } from "../submit.ts";
import { beginSpan, type TraceSpan } from "../trace.ts";
import { noteDecoded } from "./attachment.ts";
import { type EmailParts, sendEmail } from "./emails.ts";
import { INVALID_KEY, lacks, notRead, rateLimited, SUSPENDED } from "./gate.ts";
import { invalidIdempotencyKey, isIdempotencyKey } from "./idempotency.ts";
import { inspect, type Json } from "./json.ts";
import { type Problem, problemOf, Refusal } from "./problem.ts";
import { openSending, type SendingParts } from "./sending.ts";

/** Idempotency keys of the HTTP API are another scope. */
const SCOPE = "smtp";

/** Half a minute: clients wait for minutes (RFC 5321 asks for ten). */
const FATE_LOOKS = 30;
const FATE_EVERY_MS = 1_000;

export type GivenMail = {
  /** Of POST /emails; its attachments have no content. */
  body: { [name: string]: unknown };
  /** Their contents, in order. */
  files: readonly { bytes: Buffer; hash: string }[];
  shown: Shown | null;
  idempotencyKey: string | null;
  digest: string;
};

type Refused = { kind: "refused" } & Problem;

export function openMailDoor(parts: SendingParts, onFault: (error: unknown) => void) {
  const { reads, clock } = parts;
  const { admitter, readKey, lastUsed, submit, templates, owners, close } = openSending(parts, onFault);
  const patient = untilKnown(submitter(submit), reads);
  const emails: EmailParts = { submit: patient, reads, templates, owners, clock };

  return {
    readKey,
    admit: (bearer: Bearer) =>
      refusing(onFault, async () => {
        const admission = await admitter.admit(bearer);
        if (admission.kind !== "unknown key") lastUsed.note(admission.caller);
        return { kind: "admitted" as const, caller: callerOf(admission) };
      }),
    send: (caller: Caller, mail: GivenMail) =>
      refusing(onFault, async () => {
        const span = beginSpan("SMTP submission", {
          kind: "request",
          parent: null,
          attributes: { "postrider.workspace_id": caller.workspaceId },
        });
        try {
          return await send(emails, caller, mail, span);
        } finally {
          span?.end();
        }
      }),
    close,
  };
}

/** What is thrown becomes a refusal, as the HTTP server does it. */
export async function refusing<T>(
  onFault: (error: unknown) => void,
  work: () => Promise<T>,
): Promise<T | Refused> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Refusal)) onFault(error);
    return { kind: "refused", ...problemOf(error, false) };
  }
}

/**
 * Who is told by SMTP that the outcome is not known sends the mail again, mostly without a key. So the record
 * is asked for longer than a caller by HTTP would wait. What it does not show within that time was most
 * likely not written.
 */
function untilKnown(submit: Submit, reads: Sql): Submit {
  return async (caller, outgoing) => {
    const submitted = await submit(caller, outgoing);
    const id = outgoing.emails[0]?.id;
    if (submitted.kind !== "outcome unknown" || id === undefined) return submitted;
    for (let n = 0; n < FATE_LOOKS; n++) {
      const email = await findEmail(reads, caller.workspaceId, id).catch(() => null);
      if (email) return { kind: "accepted" };
      await new Promise((resolve) => setTimeout(resolve, FATE_EVERY_MS));
    }
    return submitted;
  };
}

function callerOf(admission: Admission): Caller {
  if (admission.kind === "unknown key") throw new Refusal(INVALID_KEY);
  const { caller, rate } = admission;
  if (caller.isSuspended) throw new Refusal(SUSPENDED);
  if (!allows(caller.permissions, "emails:send")) throw lacks("emails:send");
  if (admission.kind === "limited") throw rateLimited(rate, admission.retryAfterSeconds);
  return caller;
}

async function send(
  emails: EmailParts,
  caller: Caller,
  mail: GivenMail,
  span: TraceSpan | null,
): Promise<{ kind: "sent"; id: string }> {
  const { idempotencyKey: key, digest, shown, files } = mail;
  if (key !== null && !isIdempotencyKey(key)) throw invalidIdempotencyKey("Resend-Idempotency-Key");
  const body = mail.body as { [name: string]: Json };
  const wrong = inspect(body, true);
  if (wrong) throw notRead(wrong);
  for (const [n, { bytes, hash }] of files.entries())
    noteDecoded((body.attachments as unknown as object[])[n] as object, { kind: "content", bytes, hash });
  const claim = key === null ? null : { scope: SCOPE, key, digest };
  const answer = await sendEmail(emails, { caller, body, exchange: { span } }, { claim, shown });
  const { id } = JSON.parse(answer.body.toString()) as { id: string };
  return { kind: "sent", id };
}
