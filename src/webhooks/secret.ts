/**
 * The secrets that sign what an endpoint is sent, as Standard Webhooks 1.0 has them: `whsec_` for
 * HMAC-SHA256, and for who asks for it an ed25519 pair, `whsk_` and `whpk_`. In the record they are only
 * sealed, for their endpoint: moved to another row they do not open.
 *
 * A secret that was replaced signs for another day beside the new one.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { DAY_MS } from "../clock.ts";

const SECRET_BYTES = 24;
/** Each makes the header longer. */
export const OLD_SECRETS_MAX = 3;
const OLD_SECRET_MS = DAY_MS;
const SEED_BYTES = 32;
/** What stands before the seed in PKCS 8 (RFC 8410, 7), and before the key in SPKI. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI_HEAD_BYTES = 12;

const CIPHER = "aes-256-gcm";
const CIPHER_KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** `until`: when it no longer signs, in ms; null: it is in force. */
export type WebhookSecret = { secret: string; until: number | null };
export type EndpointName = { workspaceId: string; id: string };

export class SecretSealer {
  readonly #key: Buffer;

  constructor(serverSecret: string) {
    this.#key = Buffer.from(hkdfSync("sha256", serverSecret, "", "secrets of webhooks", CIPHER_KEY_BYTES));
  }

  seal(name: EndpointName, secrets: readonly WebhookSecret[]): Buffer {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, iv).setAAD(nameBytes(name));
    return Buffer.concat([iv, cipher.update(JSON.stringify(secrets)), cipher.final(), cipher.getAuthTag()]);
  }

  open(name: EndpointName, sealed: Buffer): WebhookSecret[] {
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, sealed.subarray(0, IV_BYTES), {
        authTagLength: TAG_BYTES,
      })
        .setAAD(nameBytes(name))
        .setAuthTag(sealed.subarray(-TAG_BYTES));
      const text = decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES), undefined, "utf8");
      return JSON.parse(text + decipher.final("utf8")) as WebhookSecret[];
    } catch {
      throw new Error(
        `the secrets of the webhook ${name.id} cannot be decrypted: POSTRIDER_SECRET is not the one they were encrypted with`,
      );
    }
  }
}

export function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** An ed25519 pair. */
export function newKeyPair(): { secret: string; publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const seed = privateKey.export({ type: "pkcs8", format: "der" }).subarray(-SEED_BYTES);
  const shown = publicKey.export({ type: "spki", format: "der" }).subarray(SPKI_HEAD_BYTES);
  return {
    secret: `whsk_${Buffer.concat([seed, shown]).toString("base64")}`,
    publicKey: `whpk_${shown.toString("base64")}`,
  };
}

export function inForce(secrets: readonly string[]): WebhookSecret[] {
  return secrets.map((secret) => ({ secret, until: null }));
}

/**
 * The new one before those of its kind that still sign for a day. `fullUntil`: there are as many of these as
 * there may be until then. None is left out before its day is over, since receivers may know no other.
 */
export function rotated(
  secrets: readonly WebhookSecret[],
  fresh: readonly string[],
  now: number,
): { secrets: WebhookSecret[] } | { fullUntil: number } {
  const old = secrets
    .filter(({ until }) => until === null || until > now)
    .map(({ secret, until }) => ({ secret, until: until ?? now + OLD_SECRET_MS }));
  const kept = fresh.map((secret) => old.filter((one) => isSameKind(one.secret, secret)));
  if (kept.some(({ length }) => length > OLD_SECRETS_MAX))
    return { fullUntil: Math.min(...old.map(({ until }) => until)) };
  return { secrets: [...inForce(fresh), ...kept.flat()] };
}

function isSameKind(one: string, other: string): boolean {
  return one.slice(0, one.indexOf("_")) === other.slice(0, other.indexOf("_"));
}

/** Signs for one endpoint: the secrets are read once. */
export class Signatures {
  readonly #keys: readonly { key: Buffer | KeyObject; until: number | null }[];

  constructor(secrets: readonly WebhookSecret[]) {
    this.#keys = secrets.map(({ secret, until }) => ({ key: keyOf(secret), until }));
  }

  /** The value of `webhook-signature`: one for each secret that signs now. */
  of(id: string, timestamp: number, body: string, now: number): string {
    const signed = `${id}.${timestamp}.${body}`;
    return this.#keys
      .filter(({ until }) => until === null || until > now)
      .map(({ key }) =>
        Buffer.isBuffer(key)
          ? `v1,${createHmac("sha256", key).update(signed).digest("base64")}`
          : `v1a,${sign(null, Buffer.from(signed), key).toString("base64")}`,
      )
      .join(" ");
  }
}

function keyOf(secret: string): Buffer | KeyObject {
  const bytes = Buffer.from(secret.slice(secret.indexOf("_") + 1), "base64");
  if (!secret.startsWith("whsk_")) return bytes;
  const der = Buffer.concat([PKCS8_HEAD, bytes.subarray(0, SEED_BYTES)]);
  return createPrivateKey({ key: der, type: "pkcs8", format: "der" });
}

function nameBytes({ workspaceId, id }: EndpointName): Buffer {
  return Buffer.from(`webhook\n${workspaceId}\n${id}`);
}
