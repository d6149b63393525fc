/** The `Idempotency-Key` header, and the refusals that come of it. */
import { type Refusal, refuse } from "./problem.ts";
import type { Call } from "./routes.ts";

const IDEMPOTENCY_KEY_CHARS_MAX = 256;

export function idempotencyKey({ exchange }: Call): string | null {
  const key = exchange.head.idempotencyKey;
  if (key === null) return null;
  if (!isIdempotencyKey(key)) throw invalidIdempotencyKey("Idempotency-Key");
  return key;
}

/** Bytes that are no UTF-8 come as U+FFFD, which would make one key of two. */
export function isIdempotencyKey(key: string): boolean {
  return key.length > 0 && key.length <= IDEMPOTENCY_KEY_CHARS_MAX && !key.includes("\ufffd");
}

export function invalidIdempotencyKey(header: string): Refusal {
  return refuse(
    "invalid_idempotency_key",
    `The \`${header}\` header must have 1 to ${IDEMPOTENCY_KEY_CHARS_MAX} characters, in UTF-8.`,
  );
}

export function keyConflict(): Refusal {
  return refuse(
    "invalid_idempotent_request",
    "This `Idempotency-Key` was used before with a different request. Use a new key for a new request.",
  );
}

export function outcomeUnknown(claim: { key: string } | null): Refusal {
  return refuse(
    "application_error",
    claim
      ? "Outcome unknown, retry with the same Idempotency-Key."
      : "Outcome unknown: it may have been accepted. Requests with an `Idempotency-Key` can be retried safely.",
  );
}
