/** The `Idempotency-Key` header, and the refusals that come of it. */
import { type Refusal, refuse } from "./problem.ts";
import type { Call, Parameter } from "./routes.ts";

const IDEMPOTENCY_KEY_CHARS_MAX = 256;

export const IDEMPOTENCY_KEY: Parameter = {
  name: "Idempotency-Key",
  description:
    "printable ASCII: the same request with the same key is done once, and answered alike for 24 hours",
  schema: { type: "string", minLength: 1, maxLength: IDEMPOTENCY_KEY_CHARS_MAX },
};

export function idempotencyKey({ exchange }: Call): string | null {
  const key = exchange.head.idempotencyKey;
  if (key === null) return null;
  if (!isIdempotencyKey(key)) throw invalidIdempotencyKey("Idempotency-Key");
  return key;
}

/**
 * Printable ASCII only. The server library drops any other bytes at both ends of a header, and shows those
 * between as U+FFFD when they are no UTF-8: `order-ä` and `order-ö` would be one key. What it drops cannot be
 * seen here, so a caller who has such keys must learn it from the others.
 */
const KEY_TEXT = new RegExp(`^[\\x20-\\x7e]{1,${IDEMPOTENCY_KEY_CHARS_MAX}}$`);

export function isIdempotencyKey(key: string): boolean {
  return KEY_TEXT.test(key);
}

export function invalidIdempotencyKey(header: string): Refusal {
  return refuse(
    "invalid_idempotency_key",
    `The \`${header}\` header must have 1 to ${IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters.`,
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
