/**
 * To verify a signature takes long with keys that a receiver may choose, and twenty of its TLSA records are
 * read.
 */
import { createHash, X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate } from "node:tls";
import { expect, test, vi } from "vitest";
import { type Certificate, issue } from "../../src/smtp/certificate.ts";
import { provesTlsa, type Tlsa } from "../../src/smtp/tlsa.ts";

const NOW = Date.UTC(2026, 10, 20);
const HOST = "mx.example.net";
const CHAIN = 10;
const RECORDS = 20;

/** From the host's own to the authority. */
function chain(): X509Certificate[] {
  const certificates: Certificate[] = [];
  for (let n = 0; n < CHAIN; n++) {
    const last = certificates[0];
    const name = n === CHAIN - 1 ? HOST : `authority ${n}`;
    const order = { name, from: NOW - 1_000, until: NOW + 1_000_000, isAuthority: n < CHAIN - 1 };
    certificates.unshift(
      issue(last ? { ...order, by: { name: `authority ${n - 1}`, key: last.key } } : order),
    );
  }
  return certificates.map(({ cert }) => new X509Certificate(cert));
}

test("whatever the records say", () => {
  const certificates = chain();
  const peer = certificates.reduceRight<object>(
    (issuerCertificate, { raw }) => ({ raw, issuerCertificate }),
    {},
  ) as DetailedPeerCertificate;
  const record = (of: string | Buffer): Tlsa => ({
    usage: 2,
    selector: 0,
    matching: 1,
    hex: createHash("sha256").update(of).digest("hex"),
  });
  const others = Array.from({ length: RECORDS - 1 }, (_, n) => record(String(n)));
  const verify = vi.spyOn(X509Certificate.prototype, "verify");
  expect(provesTlsa(peer, [...others, record("no one's")], [HOST], NOW)).toBe(false);
  expect(verify.mock.calls.length).toBeLessThan(CHAIN);
  const authority = record((certificates.at(-1) as X509Certificate).raw);
  expect(provesTlsa(peer, [...others, authority], [HOST], NOW)).toBe(true);
  expect(provesTlsa(peer, [...others, authority], ["other.example.net"], NOW)).toBe(false);
});
