/**
 * What a connection to the submission ports is for: mail of whoever shows an API key. A 250 is said after the
 * commit, and names the e-mail. AUTH is neither offered nor taken before TLS.
 */

import { parseMailbox } from "../address.ts";
import type { Caller } from "../admission/admit.ts";
import type { Bearer } from "../admission/bearer.ts";
import type { Flood } from "../smtp/flood.ts";
import { MessageBytes } from "../smtp/messagebytes.ts";
import {
  type Deferrable,
  fault,
  last,
  type MessageSink,
  ok,
  type SmtpAnswer,
  type SmtpService,
} from "../smtp/session.ts";
import type { SubmittedMail } from "./mail.ts";
import { Malformed } from "./malformed.ts";
import { authReplyTo, type RefusedMail, replyLines, replyTo } from "./replies.ts";

/** The API, as far as it is needed to send. */
export type MailDoor = {
  /** null: no key of ours. */
  readKey(key: string): Bearer | null;
  /** Counts for the rate. */
  admit(bearer: Bearer): Promise<{ kind: "admitted"; caller: Caller } | ({ kind: "refused" } & RefusedMail)>;
  send(
    caller: Caller,
    mail: SubmittedMail,
  ): Promise<{ kind: "sent"; id: string } | ({ kind: "refused" } & RefusedMail)>;
};

/** Memory for messages, shared fairly. */
export type MessageRoom = {
  take(owner: string, bytes: number): boolean;
  give(owner: string, bytes: number): void;
};

export type SubmissionServiceParts = {
  remote: string;
  door: MailDoor;
  room: MessageRoom;
  /** Logins that failed, by address. */
  failures: Flood;
  read(workspaceId: string, message: MessageBytes, envelope: readonly string[]): Promise<SubmittedMail>;
  onAuthenticated(): void;
};

/** The login counts as the first request; one that was left to wait does not. */
const ADMITTED_MS_MAX = 1_000;
/** RFC 4954 */
const GIVEN_UP = "*";
const NO_LOGIN = fault("501 5.7.0 the login was canceled");
const NO_BASE64 = fault("501 5.5.2 this is not base64");
const NO_KEY = {
  status: 401,
  name: "invalid_api_key",
  message: "API key is invalid. The password is an API key (`pr_live_...`); the user name may be any.",
};
const FULL = {
  status: 503,
  name: "service_unavailable",
  message: "Too many messages are being received. Try again.",
};

type Admitted = Awaited<ReturnType<MailDoor["admit"]>>;

type Login = {
  bearer: Bearer;
  /** By the login, for the first message. */
  admitted: { by: Admitted; at: number } | null;
  /** The last message was refused: the next waits for its verdict before it is sent. */
  isDoubtful: boolean;
};

export class SubmissionService implements SmtpService {
  readonly #parts: SubmissionServiceParts;
  #login: Login | null = null;
  /** Of the message that is under way. */
  #admission: Deferrable<Admitted> | null = null;
  #recipients: string[] = [];

  constructor(parts: SubmissionServiceParts) {
    this.#parts = parts;
  }

  extensions(isSecure: boolean): readonly string[] {
    return isSecure ? ["AUTH PLAIN LOGIN"] : [];
  }

  command(verb: string, rest: string, isSecure: boolean): Deferrable<SmtpAnswer> | null {
    if (verb !== "AUTH") return null;
    if (!isSecure) return fault("538 5.7.11 say STARTTLS first: a key must not be sent unencrypted");
    if (this.#login) return fault("503 5.5.1 you are logged in already");
    const [mechanism = "", initial] = rest.split(" ");
    switch (mechanism.toUpperCase()) {
      case "PLAIN":
        return initial === undefined ? asking("", (line) => this.#plain(line)) : this.#plain(initial);
      case "LOGIN":
        return initial === undefined ? asking("Username:", (line) => this.#user(line)) : this.#user(initial);
      default:
        return fault("504 5.5.4 AUTH PLAIN or AUTH LOGIN");
    }
  }

  /**
   * Redis is asked while the message arrives, which saves each mail a round trip; its verdict is part of the
   * answer to the message. Who was refused waits for it here from then on, and need not send what would be
   * refused.
   */
  mail(isSecure: boolean): Deferrable<SmtpAnswer | null> {
    const login = this.#login;
    if (!login)
      return fault(
        isSecure
          ? "530 5.7.0 log in first, with an API key as the password"
          : "530 5.7.0 say STARTTLS first, then log in with an API key as the password",
      );
    const { bearer, admitted, isDoubtful } = login;
    login.admitted = null;
    const isFresh = admitted !== null && performance.now() - admitted.at <= ADMITTED_MS_MAX;
    const admission = isFresh ? admitted.by : this.#parts.door.admit(bearer);
    this.#admission = admission;
    if (!isDoubtful || !(admission instanceof Promise)) return null;
    return admission.then((found) => this.#verdictOn(login, found));
  }

  rcpt(address: string): SmtpAnswer | null {
    const mailbox = parseMailbox(address);
    if (!mailbox) return fault("553 5.1.3 mail cannot be sent to this address");
    this.#recipients.push(mailbox.address);
    return null;
  }

  data(): MessageSink {
    const { room } = this.#parts;
    const login = this.#login as Login;
    const admission = this.#admission as Deferrable<Admitted>;
    const envelope = this.#recipients;
    const owner = login.bearer.handle;
    let bytes: MessageBytes | null = new MessageBytes();
    const free = () => {
      if (bytes) room.give(owner, bytes.length);
      bytes = null;
    };
    return {
      take(piece) {
        if (!bytes) return;
        if (room.take(owner, piece.length)) bytes.add(piece);
        else free();
      },
      complete: async () => {
        if (!bytes) return replyTo(FULL);
        const message = bytes;
        try {
          const found = await admission;
          if (found.kind === "admitted") return await this.#submit(found.caller, message, envelope);
          return this.#verdictOn(login, found) as SmtpAnswer;
        } finally {
          free();
        }
      },
      abandon: free,
    };
  }

  reset(): void {
    this.#admission = null;
    this.#recipients = [];
  }

  /** Any will do. */
  #user(line: string): SmtpAnswer {
    if (line === GIVEN_UP) return NO_LOGIN;
    if (textIn(line) === null) return NO_BASE64;
    return asking("Password:", (line) => this.#key(line, (password) => password));
  }

  /** `authorization NUL user NUL password`, of which the last counts. */
  #plain(line: string): Deferrable<SmtpAnswer> {
    return this.#key(line, (text) => text.split("\0")[2] ?? "");
  }

  #key(line: string, keyIn: (text: string) => string): Deferrable<SmtpAnswer> {
    if (line === GIVEN_UP) return NO_LOGIN;
    const text = textIn(line);
    if (text === null) return NO_BASE64;
    const { remote, failures, door } = this.#parts;
    if (!failures.hasRoom(remote)) return last("421 4.7.0 too many logins failed, try again later");
    const bearer = door.readKey(keyIn(text));
    return bearer ? this.#logIn(bearer) : this.#failed(NO_KEY);
  }

  async #logIn(bearer: Bearer): Promise<SmtpAnswer> {
    const { door, onAuthenticated } = this.#parts;
    const found = await door.admit(bearer);
    // who is merely too fast hears it at MAIL, where a client tries again
    const isLimited = found.kind === "refused" && found.status === 429;
    if (found.kind === "refused" && !isLimited) return this.#failed(found);
    this.#login = {
      bearer,
      admitted: isLimited ? null : { by: found, at: performance.now() },
      isDoubtful: isLimited,
    };
    onAuthenticated();
    return ok("235 2.7.0 welcome");
  }

  #failed(refused: RefusedMail): SmtpAnswer {
    const { failures, remote } = this.#parts;
    if (refused.status < 500) failures.takes(remote);
    return authReplyTo(refused);
  }

  #verdictOn(login: Login, found: Admitted): SmtpAnswer | null {
    login.isDoubtful = found.kind === "refused";
    return found.kind === "refused" ? replyTo(found) : null;
  }

  async #submit(caller: Caller, message: MessageBytes, envelope: readonly string[]): Promise<SmtpAnswer> {
    const { read, door } = this.#parts;
    try {
      const mail = await read(caller.workspaceId, message, envelope);
      const answer = await door.send(caller, mail);
      return answer.kind === "sent" ? ok(`250 2.0.0 Ok: queued as ${answer.id}`) : replyTo(answer);
    } catch (error) {
      if (error instanceof Malformed) return fault(replyLines("554 5.6.0", error.message));
      throw error;
    }
  }
}

function asking(question: string, asks: NonNullable<SmtpAnswer["asks"]>): SmtpAnswer {
  return { reply: `334 ${Buffer.from(question).toString("base64")}`, asks };
}

/** Of base64, with or without padding, which alone stands for nothing; null: it is no base64. */
function textIn(line: string): string | null {
  const letters = /^([a-z0-9+/]*)={0,2}$/i.exec(line.trim())?.[1];
  return letters === undefined || letters.length % 4 === 1
    ? null
    : Buffer.from(letters, "base64").toString("utf8");
}
