/**
 * A certificate for STARTTLS where none is configured: self-signed, made at the start. Senders of reports do
 * not verify it, as nobody verifies the certificates of MX hosts without DANE or MTA-STS; it keeps reports
 * from being read on their way.
 */
import { generateKeyPairSync, type KeyPairKeyObjectResult, randomBytes, sign } from "node:crypto";
import { DAY_MS } from "../clock.ts";

const VALID_DAYS = 365;

export type Certificate = { cert: string; key: string };

export function selfSigned(name: string, now: number): Certificate {
  return issue({ name, from: now - DAY_MS, until: now + VALID_DAYS * DAY_MS });
}

export type CertificateOrder = {
  name: string;
  /** In ms. */
  from: number;
  until: number;
  /** Whether it may sign others. */
  isAuthority?: boolean;
  /** Whose it is by; without one it is its own. */
  by?: { name: string; key: string };
  /** Its keys; without them new ones of P-256. It must be by another then, who signs with such a key. */
  keys?: KeyPairKeyObjectResult;
};

export function issue(order: CertificateOrder): Certificate {
  const { name, from, until, isAuthority = false, by } = order;
  const { publicKey, privateKey } = order.keys ?? generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const algorithm = sequence(OID_ECDSA_SHA256);
  const alternative = sequence(tagged(0x82, Buffer.from(name)));
  const extensions = sequence(
    sequence(OID_ALTERNATIVE_NAME, tagged(0x04, alternative)),
    ...(isAuthority ? [sequence(OID_BASIC_CONSTRAINTS, TRUE, tagged(0x04, sequence(TRUE)))] : []),
  );
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    commonName(by?.name ?? name),
    sequence(time(from), time(until)),
    commonName(name),
    publicKey.export({ type: "spki", format: "der" }),
    tagged(0xa3, extensions),
  );
  const signature = tagged(
    0x03,
    Buffer.concat([Buffer.from([0]), sign("sha256", body, by?.key ?? privateKey)]),
  );
  const der = sequence(body, algorithm, signature)
    .toString("base64")
    .replace(/.{1,64}/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${der}-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function commonName(name: string): Buffer {
  return sequence(set(sequence(OID_COMMON_NAME, tagged(0x0c, Buffer.from(name.slice(0, 64))))));
}

const TRUE = tagged(0x01, Buffer.from([0xff]));
const OID_BASIC_CONSTRAINTS = tagged(0x06, Buffer.from([0x55, 0x1d, 0x13]));
const OID_COMMON_NAME = tagged(0x06, Buffer.from([0x55, 0x04, 0x03]));
const OID_ALTERNATIVE_NAME = tagged(0x06, Buffer.from([0x55, 0x1d, 0x11]));
const OID_ECDSA_SHA256 = tagged(0x06, Buffer.from([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function set(...parts: Buffer[]): Buffer {
  return tagged(0x31, Buffer.concat(parts));
}

/** GeneralizedTime, in seconds. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return tagged(0x18, Buffer.from(text));
}
