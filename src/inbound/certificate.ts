/**
 * A certificate for STARTTLS where none is configured: self-signed, made at the start. Senders of reports do not verify
 * it, as nobody verifies the certificates of MX hosts without DANE or MTA-STS; it keeps reports from being read on their way.
 */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { DAY_MS } from "../clock.ts";

const VALID_DAYS = 365;

export type Certificate = { cert: string; key: string };

export function selfSigned(name: string, now: number): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const commonName = sequence(set(sequence(OID_COMMON_NAME, tagged(0x0c, Buffer.from(name.slice(0, 64))))));
  const algorithm = sequence(OID_ECDSA_SHA256);
  const alternative = sequence(tagged(0x82, Buffer.from(name)));
  const extensions = sequence(sequence(OID_ALTERNATIVE_NAME, tagged(0x04, alternative)));
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    commonName,
    sequence(time(now - DAY_MS), time(now + VALID_DAYS * DAY_MS)),
    commonName,
    publicKey.export({ type: "spki", format: "der" }),
    tagged(0xa3, extensions),
  );
  const signature = tagged(0x03, Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)]));
  const der = sequence(body, algorithm, signature)
    .toString("base64")
    .replace(/.{1,64}/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${der}-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

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
