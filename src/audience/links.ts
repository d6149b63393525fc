/**
 * The links that mail carries, those to attachments and to shared e-mails, and the keyed hash of an address.
 * A link is signed and names its contact; who cannot sign cannot make one, and what it opens is decided by
 * the record, not by the link. Unsubscribe links never expire; behind the token they have the address as
 * well, encrypted, since a contact may be erased and its address added again.
 */
import { createCipheriv, createDecipheriv, createHmac, timingSafeEqual } from "node:crypto";

const MAC_BYTES = 16;
const UUID_BYTES = 16;
const TIME_BYTES = 6;
const PLACE_BYTES = 2;
const TOKEN_CHARS_MAX = 120;
const SEALED_CHARS_MAX = 1_500;
const CIPHER = "aes-256-ctr";

export type LinkTarget = { workspaceId: string; audienceId: string; contactId: string };
/** `identity`: of the address that the mail went to; earlier links do not have it. */
export type Addressee = LinkTarget & { identity?: string };
export type Invitation = LinkTarget & { askedAt: number };
/** The attachment of an e-mail at this place, until this time. */
export type AttachmentTarget = { workspaceId: string; emailId: string; place: number; until: number };

/** What a shared e-mail looks like, until this time. */
export type SharedTarget = { workspaceId: string; emailId: string; until: number };

export class Links {
  readonly #secret: string;
  readonly #publicUrl: string;
  readonly #addressKey: Buffer;

  constructor(serverSecret: string, publicUrl: string) {
    this.#secret = serverSecret;
    this.#addressKey = createHmac("sha256", serverSecret).update("addresses in links\n").digest();
    this.#publicUrl = publicUrl.replace(/\/+$/, "");
  }

  unsubscribeUrl({ identity, ...target }: Addressee): string {
    const body = bytesOf(target);
    const sealed = identity === undefined ? "" : `?to=${this.#sealed(body, Buffer.from(identity))}`;
    return `${this.#publicUrl}/u/${this.#token("unsubscribe", body)}${sealed}`;
  }

  confirmUrl(invitation: Invitation): string {
    const time = Buffer.alloc(TIME_BYTES);
    time.writeUIntBE(invitation.askedAt, 0, TIME_BYTES);
    return `${this.#publicUrl}/confirm/${this.#token("confirm", Buffer.concat([bytesOf(invitation), time]))}`;
  }

  attachmentUrl({ workspaceId, emailId, place, until }: AttachmentTarget): string {
    const rest = Buffer.alloc(PLACE_BYTES + TIME_BYTES);
    rest.writeUIntBE(place, 0, PLACE_BYTES);
    rest.writeUIntBE(until, PLACE_BYTES, TIME_BYTES);
    return `${this.#publicUrl}/attachments/${this.#token("attachment", Buffer.concat([idBytes([workspaceId, emailId]), rest]))}`;
  }

  readAttachment(token: string): AttachmentTarget | null {
    const body = this.#read("attachment", token, 2 * UUID_BYTES + PLACE_BYTES + TIME_BYTES);
    return (
      body && {
        workspaceId: idAt(body, 0),
        emailId: idAt(body, 1),
        place: body.readUIntBE(2 * UUID_BYTES, PLACE_BYTES),
        until: body.readUIntBE(2 * UUID_BYTES + PLACE_BYTES, TIME_BYTES),
      }
    );
  }

  sharedUrl({ workspaceId, emailId, until }: SharedTarget): string {
    const time = Buffer.alloc(TIME_BYTES);
    time.writeUIntBE(until, 0, TIME_BYTES);
    return `${this.#publicUrl}/shared/${this.#token("shared", Buffer.concat([idBytes([workspaceId, emailId]), time]))}`;
  }

  readShared(token: string): SharedTarget | null {
    const body = this.#read("shared", token, 2 * UUID_BYTES + TIME_BYTES);
    return (
      body && {
        workspaceId: idAt(body, 0),
        emailId: idAt(body, 1),
        until: body.readUIntBE(2 * UUID_BYTES, TIME_BYTES),
      }
    );
  }

  /** A link whose address got lost or damaged on the way still means its contact. */
  readUnsubscribe(token: string, sealed = ""): Addressee | null {
    const body = this.#read("unsubscribe", token, 3 * UUID_BYTES);
    const address = body && this.#unsealed(body, sealed);
    return body && { ...addresseeOf(body), ...(address && { identity: address.toString() }) };
  }

  readConfirm(token: string): Invitation | null {
    const body = this.#read("confirm", token, 3 * UUID_BYTES + TIME_BYTES);
    return body && { ...addresseeOf(body), askedAt: body.readUIntBE(3 * UUID_BYTES, TIME_BYTES) };
  }

  /** Signed for this contact; the signature is also where the cipher begins, so none begins twice. */
  #sealed(target: Buffer, address: Buffer): string {
    const mac = this.#mac("unsubscribe address", Buffer.concat([target, address]));
    const sealed = createCipheriv(CIPHER, this.#addressKey, mac).update(address);
    return Buffer.concat([mac, sealed]).toString("base64url");
  }

  #unsealed(target: Buffer, sealed: string): Buffer | null {
    const whole = bytesIn(sealed, SEALED_CHARS_MAX);
    if (!whole || whole.byteLength <= MAC_BYTES) return null;
    const mac = whole.subarray(0, MAC_BYTES);
    const address = createDecipheriv(CIPHER, this.#addressKey, mac).update(whole.subarray(MAC_BYTES));
    const expected = this.#mac("unsubscribe address", Buffer.concat([target, address]));
    return timingSafeEqual(mac, expected) ? address : null;
  }

  #token(purpose: string, body: Buffer): string {
    return Buffer.concat([body, this.#mac(purpose, body)]).toString("base64url");
  }

  #read(purpose: string, token: string, bytes: number): Buffer | null {
    const whole = bytesIn(token, TOKEN_CHARS_MAX);
    if (whole?.byteLength !== bytes + MAC_BYTES) return null;
    const body = whole.subarray(0, bytes);
    return timingSafeEqual(whole.subarray(bytes), this.#mac(purpose, body)) ? body : null;
  }

  #mac(purpose: string, body: Buffer): Buffer {
    return createHmac("sha256", this.#secret)
      .update(`${purpose}\n`)
      .update(body)
      .digest()
      .subarray(0, MAC_BYTES);
  }
}

/** A token has one spelling, though its last character may hold bits that nobody reads. */
function bytesIn(token: string, charsMax: number): Buffer | null {
  if (token.length > charsMax || !/^[A-Za-z0-9_-]+$/.test(token)) return null;
  const whole = Buffer.from(token, "base64url");
  return whole.toString("base64url") === token ? whole : null;
}

/**
 * Under which an erased address stays known: nobody can find the address from it without the server's secret.
 */
export function addressHasher(serverSecret: string): (identity: string) => Buffer {
  return (identity) => createHmac("sha256", serverSecret).update("address\n").update(identity).digest();
}

function bytesOf({ workspaceId, audienceId, contactId }: LinkTarget): Buffer {
  return idBytes([workspaceId, audienceId, contactId]);
}

function idBytes(ids: readonly string[]): Buffer {
  return Buffer.concat(ids.map((id) => Buffer.from(id.replaceAll("-", ""), "hex")));
}

function addresseeOf(body: Buffer): LinkTarget {
  return { workspaceId: idAt(body, 0), audienceId: idAt(body, 1), contactId: idAt(body, 2) };
}

function idAt(body: Buffer, n: number): string {
  const hex = body.toString("hex", n * UUID_BYTES, (n + 1) * UUID_BYTES);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
