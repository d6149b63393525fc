/**
 * Keys that sign the mail of a domain: made here or brought as PEM, and sealed for the record. A sealed key
 * opens only under the server's secret, and only as the key it was sealed for: moved to another row, it does
 * not open.
 */
import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { promisify } from "node:util";
import { parseMailbox } from "../address.ts";
import type { KeyName } from "../record/workspaces/domainkeys.ts";
import type { Algorithm } from "../rules/signing.ts";

/** Receivers must take up to this size (RFC 8301); each doubling costs eight times the CPU. */
const RSA_BITS = 2_048;
/** Receivers take a shorter key for no signature (RFC 8301). */
const RSA_BITS_MIN = 1_024;
/** Longer ones many receivers do not verify. */
const RSA_BITS_MAX = 4_096;
export const RSA_BITS_ADVISED = RSA_BITS;
const SELECTOR_BYTES = 4;

const CIPHER = "aes-256-gcm";
const CIPHER_KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

export type PrivateKey = { algorithm: Algorithm; key: KeyObject };

export class UnusableKey extends Error {}

export async function makeKey(algorithm: Algorithm): Promise<PrivateKey> {
  const pair =
    algorithm === "rsa"
      ? await promisify(generateKeyPair)("rsa", { modulusLength: RSA_BITS })
      : await promisify(generateKeyPair)("ed25519");
  return { algorithm, key: pair.privateKey };
}

/** Throws `UnusableKey` with words for whoever brought it. */
export function readKey(pem: string): PrivateKey {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    throw new UnusableKey("The file must hold a private key in PEM form, without a passphrase.");
  }
  const algorithm = key.asymmetricKeyType;
  if (algorithm !== "rsa" && algorithm !== "ed25519")
    throw new UnusableKey(`DKIM needs an rsa or ed25519 key; this one is ${algorithm}.`);
  const bits = bitsOf(key);
  if (bits !== null && bits < RSA_BITS_MIN)
    throw new UnusableKey(
      `Receivers ignore signatures with a key of ${bits} bits. Use ${RSA_BITS_ADVISED} bits.`,
    );
  if (bits !== null && bits > RSA_BITS_MAX)
    throw new UnusableKey(`Many receivers do not verify keys of ${bits} bits. Use ${RSA_BITS_ADVISED} bits.`);
  return { algorithm, key };
}

/** null: of an ed25519 key nobody counts them. */
export function bitsOf(key: KeyObject): number | null {
  return key.asymmetricKeyDetails?.modulusLength ?? null;
}

/** SubjectPublicKeyInfo */
export function publicPartOf({ key }: PrivateKey): Buffer {
  return createPublicKey(key).export({ type: "spki", format: "der" });
}

/** Never the same twice: workspaces may share a domain, and DNS holds one key under each selector. */
export function newSelector(): string {
  return `pr${randomBytes(SELECTOR_BYTES).toString("hex")}`;
}

/** DNS labels with dots between; null when it is none. */
export function readSelector(text: string): string | null {
  const label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
  const lower = text.toLowerCase();
  return lower.length <= 63 && new RegExp(`^${label}(?:\\.${label})*$`).test(lower) ? lower : null;
}

/** In A-labels and lower case, as it stands in addresses; null when no address could end in it. */
export function readDomain(text: string): string | null {
  return parseMailbox(`a@${text.replace(/\.$/, "")}`)?.domain ?? null;
}

export class Sealer {
  readonly #key: Buffer;

  constructor(serverSecret: string) {
    this.#key = Buffer.from(hkdfSync("sha256", serverSecret, "", "keys of domains", CIPHER_KEY_BYTES));
  }

  seal(name: KeyName, { key }: PrivateKey): Buffer {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, iv).setAAD(nameBytes(name));
    const sealed = cipher.update(key.export({ type: "pkcs8", format: "der" }));
    return Buffer.concat([iv, sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /**
   * Throws `UnusableKey` when the secret is another than it was sealed under, or the key was sealed as
   * another.
   */
  open(name: KeyName, sealed: Buffer): KeyObject {
    try {
      const iv = sealed.subarray(0, IV_BYTES);
      const decipher = createDecipheriv(CIPHER, this.#key, iv, { authTagLength: TAG_BYTES })
        .setAAD(nameBytes(name))
        .setAuthTag(sealed.subarray(-TAG_BYTES));
      const der = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
      return createPrivateKey({ key: der, type: "pkcs8", format: "der" });
    } catch {
      throw new UnusableKey(
        `the key ${name.selector} of ${name.domain} cannot be decrypted: POSTRIDER_SECRET is not the one it was encrypted with`,
      );
    }
  }
}

function nameBytes({ workspaceId, domain, selector }: KeyName): Buffer {
  return Buffer.from(`${workspaceId}\n${domain}\n${selector}`);
}
