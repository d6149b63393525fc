/**
 * The links that mail carries, those to attachments and to shared e-mails, and the keyed hash of an address.
 * A link is signed and names its contact; who cannot sign cannot make one, and what it opens is decided by
 * the record, not by the link. Unsubscribe links never expire.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

const MAC_BYTES = 16;
const UUID_BYTES = 16;
const TIME_BYTES = 6;
const PLACE_BYTES = 2;
const TOKEN_CHARS_MAX = 120;

export type LinkTarget = { workspaceId: string; audienceId: string; contactId: string };
export type Invitation = LinkTarget & { askedAt: number };
/** The attachment of an e-mail at this place, until this time. */
export type AttachmentTarget = { workspaceId: string; emailId: string; place: number; until: number };

/** What a shared e-mail looks like, until this time. */
export type SharedTarget = { workspaceId: string; emailId: string; until: number };

export class Links {
  readonly #secret: string;
  readonly #publicUrl: string;

  constructor(serverSecret: string, publicUrl: string) {
    this.#secret = serverSecret;
    this.#publicUrl = publicUrl.replace(/\/+$/, "");
  }

  unsubscribeUrl(addressee: LinkTarget): string {
    return `${this.#publicUrl}/u/${this.#token("unsubscribe", bytesOf(addressee))}`;
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

  readUnsubscribe(token: string): LinkTarget | null {
    const body = this.#read("unsubscribe", token, 3 * UUID_BYTES);
    return body && addresseeOf(body);
  }

  readConfirm(token: string): Invitation | null {
    const body = this.#read("confirm", token, 3 * UUID_BYTES + TIME_BYTES);
    return body && { ...addresseeOf(body), askedAt: body.readUIntBE(3 * UUID_BYTES, TIME_BYTES) };
  }

  #token(purpose: string, body: Buffer): string {
    return Buffer.concat([body, this.#mac(purpose, body)]).toString("base64url");
  }

  #read(purpose: string, token: string, bytes: number): Buffer | null {
    if (token.length > TOKEN_CHARS_MAX || !/^[A-Za-z0-9_-]+$/.test(token)) return null;
    const whole = Buffer.from(token, "base64url");
    // a token has one spelling, though its last character may hold bits that nobody reads
    if (whole.byteLength !== bytes + MAC_BYTES || whole.toString("base64url") !== token) return null;
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
