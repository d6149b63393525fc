/** What the API refuses, in SMTP: which code, and the API's own words. */
import { fault, last, type SmtpAnswer } from "../smtp/session.ts";

/** A refusal of the API. */
export type RefusedMail = { status: number; name: string; message: string };

const LINE_CHARS_MAX = 400;

/**
 * By the name of the problem; the rest by its status. Codes that begin with 4 ask the client to try again.
 */
const CODES: Record<string, string> = {
  rate_limit_exceeded: "450 4.7.1",
  concurrent_idempotent_requests: "450 4.5.0",
  quota_exceeded: "452 4.5.3",
  service_unavailable: "451 4.3.0",
  application_error: "451 4.3.0",
  invalid_from_address: "553 5.1.7",
};
const FORBIDDEN = "550 5.7.1";
const NOT_ACCEPTABLE = "554 5.6.0";

/** After AUTH. */
export function replyTo(refused: RefusedMail): SmtpAnswer {
  if (refused.status === 401) return last(replyLines("550 5.7.8", refused.message));
  const { name, status, message } = refused;
  const code = CODES[name] ?? (status === 402 || status === 403 ? FORBIDDEN : NOT_ACCEPTABLE);
  // waiting for a rate to pass is no fault
  return code.startsWith("4") ? { reply: replyLines(code, message) } : fault(replyLines(code, message));
}

/** To AUTH: RFC 4954 has codes of its own. */
export function authReplyTo({ status, message }: RefusedMail): SmtpAnswer {
  return fault(replyLines(status >= 500 ? "454 4.7.0" : "535 5.7.8", message));
}

/** What senders wrote may be repeated in it: it must not become a reply of its own. */
export function replyLines(code: string, text: string): string {
  const [status = "", enhanced = ""] = code.split(" ");
  const words = text.replace(/[^\x20-\x7e]/g, "?");
  const lines = words.match(new RegExp(`.{1,${LINE_CHARS_MAX}}(?:\\s|$)|.{${LINE_CHARS_MAX}}`, "g")) ?? [
    words,
  ];
  return lines
    .map((line, n) => `${status}${n < lines.length - 1 ? "-" : " "}${enhanced} ${line.trimEnd()}`)
    .join("\r\n");
}
