/** A certificate authority of a test's own, and certificates by it, by nobody or out of date. */
import type { KeyPairKeyObjectResult } from "node:crypto";
import { type Certificate, issue } from "../../src/smtp/certificate.ts";

const DAY_MS = 86_400_000;

export type Authority = {
  certificate: string;
  key: string;
  certify(name: string, options?: { isExpired?: boolean; keys?: KeyPairKeyObjectResult }): Certificate;
};

export function openAuthority(name = "authority.test"): Authority {
  const now = Date.now();
  const own = issue({ name, from: now - 10 * DAY_MS, until: now + DAY_MS, isAuthority: true });
  return {
    certificate: own.cert,
    key: own.key,
    certify: (host, { isExpired = false, keys } = {}) =>
      issue({
        name: host,
        from: now - 5 * DAY_MS,
        until: isExpired ? now - DAY_MS : now + DAY_MS,
        by: { name, key: own.key },
        ...(keys && { keys }),
      }),
  };
}
