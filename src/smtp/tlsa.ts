/**
 * TLSA records (RFC 6698, RFC 7671, RFC 7672): whether the certificates of a connection are those that a
 * receiver published for its host.
 */
import { createHash, createPublicKey, type KeyObject, X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate } from "node:tls";

/** `usage` 2: an authority of the host's own; 3: the host's certificate itself. */
export type Tlsa = {
  readonly usage: 2 | 3;
  /** 0: the whole certificate; 1: its public key. */
  readonly selector: 0 | 1;
  /** 0: as it is; 1: SHA-256; 2: SHA-512. */
  readonly matching: 0 | 1 | 2;
  readonly hex: string;
};

const CHAIN_MAX = 10;
const RECORDS_MAX = 20;
const FULL_BYTES_MAX = 16_384;
const DIGEST_BYTES = [null, 32, 64] as const;

/** null: it cannot be used here, as those of the usages 0 and 1 (RFC 7672, 3.1.3). */
export function readTlsa(data: Buffer): Tlsa | null {
  const [usage, selector, matching] = data;
  const { length } = data.subarray(3);
  if ((usage !== 2 && usage !== 3) || (selector !== 0 && selector !== 1)) return null;
  if (matching !== 0 && matching !== 1 && matching !== 2) return null;
  const digest = DIGEST_BYTES[matching];
  if (digest === null ? length === 0 || length > FULL_BYTES_MAX : length !== digest) return null;
  return { usage, selector, matching, hex: data.toString("hex", 3) };
}

/**
 * `now` in ms: certificates by an authority of the host's own are valid for a time, and for one of the names.
 */
export function provesTlsa(
  peer: DetailedPeerCertificate,
  records: readonly Tlsa[],
  names: readonly string[],
  now: number,
): boolean {
  const chain = chainOf(peer);
  let sound: number | null = null;
  return records.slice(0, RECORDS_MAX).some((record) => {
    try {
      if (record.usage === 3) return isLeaf(chain, record);
      // once for all records: a receiver may choose keys with which it takes long
      sound ??= soundLength(chain, names, now);
      return isIssued(chain, record, sound);
    } catch {
      return false; // a record that holds no key, or a certificate that cannot be read
    }
  });
}

function chainOf(peer: DetailedPeerCertificate): X509Certificate[] {
  const chain: X509Certificate[] = [];
  const seen = new Set<object>();
  for (let one = peer; one?.raw && !seen.has(one) && chain.length < CHAIN_MAX; one = one.issuerCertificate) {
    seen.add(one);
    chain.push(new X509Certificate(one.raw));
  }
  return chain;
}

/** Neither its name nor its dates matter: who signed the record vouches for it. */
function isLeaf([leaf]: readonly X509Certificate[], record: Tlsa): boolean {
  return leaf !== undefined && matches(leaf, record);
}

/** How many of them, from the host's own on, are valid and signed by the next. */
function soundLength(chain: readonly X509Certificate[], names: readonly string[], now: number): number {
  const [leaf] = chain;
  if (!leaf || names.every((name) => leaf.checkHost(name) === undefined)) return 0;
  const unsound = chain.findIndex(
    (certificate, n) =>
      !isValidAt(certificate, now) ||
      (n > 0 && !(certificate.ca && isSignedBy(chain[n - 1] as X509Certificate, certificate))),
  );
  return unsound < 0 ? chain.length : unsound;
}

function isIssued(chain: readonly X509Certificate[], record: Tlsa, sound: number): boolean {
  if (chain.slice(1, sound).some((certificate) => matches(certificate, record))) return true;
  if (sound === 0 || sound < chain.length) return false;
  const key = keyIn(record);
  return key !== null && (chain.at(-1) as X509Certificate).verify(key);
}

/** An authority that stands in the record as it is need not be sent. */
function keyIn({ selector, matching, hex }: Tlsa): KeyObject | null {
  if (matching !== 0) return null;
  const bytes = Buffer.from(hex, "hex");
  return selector === 0
    ? new X509Certificate(bytes).publicKey
    : createPublicKey({ key: bytes, format: "der", type: "spki" });
}

function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    return false; // a key that nobody knows
  }
}

function isValidAt({ validFrom, validTo }: X509Certificate, now: number): boolean {
  return Date.parse(validFrom) <= now && now <= Date.parse(validTo);
}

function matches({ raw, publicKey }: X509Certificate, { selector, matching, hex }: Tlsa): boolean {
  const bytes = selector === 0 ? raw : publicKey.export({ type: "spki", format: "der" });
  const found =
    matching === 0
      ? bytes
      : createHash(matching === 1 ? "sha256" : "sha512")
          .update(bytes)
          .digest();
  return found.toString("hex") === hex;
}
