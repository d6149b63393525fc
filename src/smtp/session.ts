/**
 * One SMTP connection to us: the protocol, without what becomes of the mail, which is up to its service.
 *
 * Promises: a command ends at CRLF only and a message at CRLF.CRLF only, and a message with a bare CR or LF
 * is refused whole and ends the connection, so nothing can be smuggled in behind it. What came before
 * STARTTLS is not obeyed after it. Commands are answered in their order. Everything is bounded: lines,
 * messages, faults, silence, time.
 *
 * smtp-server is a dependency of the development mailbox, but not used here: it ends commands at bare line
 * feeds.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { whenLate } from "../clock.ts";
import { turnIfLate } from "../turn.ts";
import { MessageReader } from "./messagereader.ts";

export type SmtpAnswer = {
  reply: string;
  isFault?: true;
  /** The connection ends with it. */
  isLast?: true;
  /** The next line is no command, but what this answer asks for. */
  asks?: (line: string) => Deferrable<SmtpAnswer>;
};
export type Deferrable<T> = T | Promise<T>;

export const ok = (reply: string): SmtpAnswer => ({ reply });
export const fault = (reply: string): SmtpAnswer => ({ reply, isFault: true });
export const last = (reply: string): SmtpAnswer => ({ reply, isLast: true });

/** Where the bytes of a message go. */
export type MessageSink = {
  take(piece: Buffer): void;
  /** The message is whole and well-formed; its answer says what became of it. */
  complete(): Promise<SmtpAnswer>;
  /** It is not, and never will be. */
  abandon(): void;
};

/** What a connection is for. An answer of null means yes. */
export interface SmtpService {
  /** What EHLO offers besides PIPELINING, 8BITMIME, SMTPUTF8, SIZE and STARTTLS. */
  extensions(isSecure: boolean): readonly string[];
  mail(isSecure: boolean): Deferrable<SmtpAnswer | null>;
  rcpt(address: string): SmtpAnswer | null;
  data(): MessageSink;
  /** A command that SMTP itself does not have; null: nor has this service. */
  command(verb: string, rest: string, isSecure: boolean): Deferrable<SmtpAnswer> | null;
  /** Forgets the sender and the recipients. */
  reset(): void;
}

export type SessionLimits = {
  /** Of a message; larger ones are refused. */
  messageBytesMax: number;
  /** Read beyond that, so that the sender hears why it is refused. */
  excessBytesMax: number;
  lineBytesMax: number;
  /** Without a command, or without a piece of a message. */
  silenceMsMax: number;
  sessionMsMax: number;
  /** From DATA to its end. */
  messageMsMax: number;
  messagesMax: number;
  recipientsMax: number;
  /** Commands in a row that lead to no message. */
  idleCommandsMax: number;
  /** Commands that were wrong or refused, before the connection is ended. */
  faultsMax: number;
};

export type SmtpSessionParts = {
  name: string;
  /** `begun` gets the connection that is used from then on, when a handshake of the other side begins. */
  secure(socket: Socket, begun: (secured: TLSSocket) => void): void;
  /** The connection speaks TLS from its first byte. */
  isSecure: boolean;
  limits: SessionLimits;
  onFault(error: unknown): void;
  onEnd(): void;
};

const COMMAND_BYTES_MAX = 1_024;
/** What is asked for, as credentials, may be longer than a command. */
const ASKED_BYTES_MAX = 12_288;
const FAREWELL_MS = 1_000;
/** `AUTH` names whom a relay believes to be the author (RFC 4954), which nobody here asks. */
const MAIL_PARAMETER = /^(?:SIZE=\d{1,20}|BODY=(?:7BIT|8BITMIME)|SMTPUTF8|AUTH=\S*)$/i;
/** Of RCPT. A quoted local part may hold spaces. */
const RECIPIENT = /^TO:\s?<((?:"(?:[^"\\]|\\.)*"|[^<>\s"])+)>(.*)$/i;
const RECIPIENT_CHARS_MAX = 320;
/** RFC 5321 and 3207: the whole command. */
const BARE_VERBS: ReadonlySet<string> = new Set(["STARTTLS", "DATA", "RSET", "QUIT"]);
const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
const CR = 0x0d;

type MessageUnderWay = { reader: MessageReader; sink: MessageSink; cancelLate: () => void };

const GO_SECURE = ok("220 2.0.0 go ahead");

export class SmtpSession {
  readonly #parts: SmtpSessionParts;
  readonly #service: SmtpService;
  #socket: Socket;
  #isSecure: boolean;
  /** Nothing is said until TLS has begun. */
  #isSecuring = false;
  #unread: Buffer = NOTHING;
  #piecesHeard = 0;
  /** Replies that leave together. */
  #replies = "";
  /** What was sent is being answered: what comes meanwhile waits. */
  #isAnswering = false;
  #farewell: string | null = null;
  #isOver = false;
  #hasGreeted = false;
  #hasSender = false;
  #recipients = 0;
  #asks: SmtpAnswer["asks"] = undefined;
  #message: MessageUnderWay | null = null;
  #messages = 0;
  #idleCommands = 0;
  #faults = 0;
  #forgetEnd: () => void;

  /** `serviceOf` makes the service of this connection. */
  constructor(socket: Socket, parts: SmtpSessionParts, serviceOf: (session: SmtpSession) => SmtpService) {
    const { isSecure, limits } = parts;
    this.#socket = socket;
    this.#isSecure = isSecure;
    this.#parts = parts;
    this.#forgetEnd = this.#endIn(limits.sessionMsMax);
    this.#service = serviceOf(this);
    this.#watch(socket);
    if (isSecure) this.#secure();
    else this.#listen();
    this.#say(`220 ${parts.name} ESMTP`);
    this.#flush();
  }

  /** Ends it with a word. */
  close(reply: string): void {
    if (this.#isOver) return;
    this.#say(reply);
    this.#end();
  }

  /**
   * The same, after what is being answered: a mail whose sender does not hear of its commit is sent again.
   */
  finish(reply: string): void {
    if (this.#isAnswering) this.#farewell = reply;
    else this.close(reply);
  }

  /** From now on it may last so long. */
  extend(ms: number): void {
    this.#forgetEnd();
    if (!this.#isOver) this.#forgetEnd = this.#endIn(ms);
  }

  #endIn(ms: number): () => void {
    return whenLate(ms, () => this.finish("421 4.4.2 the session took too long"));
  }

  #watch(socket: Socket): void {
    socket.setNoDelay(true);
    // a listener that is given to `setTimeout` hears of one silence only
    socket.setTimeout(this.#parts.limits.silenceMsMax).on("timeout", () => {
      // it is we who are silent while something is being answered
      if (this.#isAnswering) return;
      const before = this.#piecesHeard;
      // what came while this process was held up is read first
      setImmediate(() => {
        if (this.#piecesHeard === before) this.close("421 4.4.2 no command came for too long");
      });
    });
    socket.on("error", () => this.#end());
    socket.on("close", () => this.#end());
  }

  #listen(): void {
    this.#socket.on("data", (chunk: Buffer) => {
      if (this.#isOver) return;
      this.#piecesHeard++;
      this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
      this.#read();
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#forgetEnd();
    this.#endMessage()?.sink.abandon();
    this.#service.reset();
    this.#flush();
    this.#socket.end();
    // a peer that does not close is not waited for
    setTimeout(() => this.#socket.destroy(), FAREWELL_MS).unref();
    this.#parts.onEnd();
  }

  #say(reply: string): void {
    this.#replies += `${reply}\r\n`;
  }

  #flush(): void {
    if (this.#isSecuring) return;
    if (this.#replies !== "" && this.#socket.writable) this.#socket.write(this.#replies, "latin1");
    this.#replies = "";
  }

  #read(): void {
    while (!this.#isAnswering && !this.#isOver) {
      // others may send as many commands at once
      const late = this.#unread.length > 0 ? turnIfLate() : null;
      if (late) {
        this.#answerWhen(late.then(() => null));
        break;
      }
      const isRead = this.#message ? this.#readMessage() : this.#readCommand();
      if (!isRead) break;
    }
    this.#flush();
    if (this.#isAnswering) this.#socket.pause();
  }

  /** Says whether there was a whole command. */
  #readCommand(): boolean {
    const bytesMax = this.#asks ? ASKED_BYTES_MAX : COMMAND_BYTES_MAX;
    const end = this.#unread.indexOf(LF);
    if (end < 0) {
      if (this.#unread.length > bytesMax) this.close("500 5.5.2 the line is too long");
      return false;
    }
    const line = this.#unread.subarray(0, end);
    this.#unread = this.#unread.subarray(end + 1);
    // a line feed alone ends no command: whoever sends it may be two senders
    if (line.length > bytesMax || line.indexOf(CR) !== line.length - 1 || line.length === 0) {
      this.close("500 5.5.2 a command is one line that ends with CRLF");
      return false;
    }
    this.#obey(line.toString("utf8", 0, line.length - 1));
    return true;
  }

  #obey(line: string): void {
    const asks = this.#asks;
    this.#asks = undefined;
    if (asks) {
      this.#answer(asks(line));
      return;
    }
    const [verb = ""] = line.split(" ", 1);
    this.#answer(this.#answerTo(verb.toUpperCase(), line.slice(verb.length).trim()));
  }

  #answer(answer: Deferrable<SmtpAnswer>): void {
    if (!(answer instanceof Promise)) {
      this.#give(answer);
      return;
    }
    this.#answerWhen(
      answer.catch((error: unknown) => {
        this.#parts.onFault(error);
        return ok("451 4.3.0 an error occurred on our side, try again later");
      }),
    );
  }

  /** What comes meanwhile is read afterwards. null: it was only not its turn. */
  #answerWhen(done: Promise<SmtpAnswer | null>): void {
    this.#isAnswering = true;
    void done.then((answer) => {
      this.#isAnswering = false;
      if (this.#isOver) return;
      if (answer) this.#give(answer);
      if (this.#farewell !== null) this.close(this.#farewell);
      if (this.#isOver) return;
      this.#socket.resume();
      this.#read(); // and says what it answered
    });
  }

  #give(answer: SmtpAnswer): void {
    if (answer.isFault) this.#faults++;
    if (this.#faults > this.#parts.limits.faultsMax) this.close("421 4.7.0 too many commands were refused");
    else if (answer.isLast) this.close(answer.reply);
    else this.#say(answer.reply);
    this.#asks = answer.asks;
    if (answer === GO_SECURE && !this.#isOver) this.#secure();
  }

  #answerTo(verb: string, rest: string): Deferrable<SmtpAnswer> {
    if (++this.#idleCommands > this.#parts.limits.idleCommandsMax)
      return last("421 4.7.0 too many commands without a message");
    if (rest !== "" && BARE_VERBS.has(verb)) return fault(`501 5.5.4 ${verb} takes no parameter`);
    switch (verb) {
      case "EHLO":
        return this.#greet(rest, true);
      case "HELO":
        return this.#greet(rest, false);
      case "STARTTLS":
        return this.#startTls();
      case "MAIL":
        return this.#mail(rest);
      case "RCPT":
        return this.#rcpt(rest);
      case "DATA":
        return this.#data();
      case "RSET":
        this.#reset();
        return ok("250 2.0.0 ok");
      case "NOOP":
        return ok("250 2.0.0 ok");
      case "VRFY":
        return fault("252 2.1.5 addresses are not verified here");
      case "QUIT":
        return last("221 2.0.0 bye");
      default:
        return (
          this.#service.command(verb, rest, this.#isSecure) ??
          fault("502 5.5.1 this command is not implemented")
        );
    }
  }

  #greet(name: string, isExtended: boolean): SmtpAnswer {
    if (name === "") return fault("501 5.5.4 EHLO needs your host name");
    this.#hasGreeted = true;
    this.#reset();
    const extensions = [
      "PIPELINING",
      "8BITMIME",
      "SMTPUTF8",
      "ENHANCEDSTATUSCODES",
      `SIZE ${this.#parts.limits.messageBytesMax}`,
      ...this.#service.extensions(this.#isSecure),
      ...(this.#isSecure ? [] : ["STARTTLS"]),
    ];
    const lines = isExtended ? [this.#parts.name, ...extensions] : [this.#parts.name];
    return ok(lines.map((text, n) => `250${n < lines.length - 1 ? "-" : " "}${text}`).join("\r\n"));
  }

  #startTls(): SmtpAnswer {
    if (this.#isSecure) return fault("503 5.5.1 the connection is secure");
    // what came with it came in the open, and must not be obeyed as if it had come secured
    return this.#unread.length > 0 ? last("501 5.5.1 nothing may follow STARTTLS") : GO_SECURE;
  }

  #secure(): void {
    const open = this.#socket;
    this.#flush();
    open.removeAllListeners("data");
    this.#hasGreeted = false;
    this.#reset();
    this.#isSecuring = true;
    this.#parts.secure(open, (secured) => {
      open.removeAllListeners("timeout");
      open.setTimeout(0);
      this.#isSecuring = false;
      this.#isSecure = true;
      this.#socket = secured;
      this.#watch(secured);
      if (this.#isOver) secured.destroy();
      else this.#listen();
      this.#flush();
    });
  }

  #mail(rest: string): Deferrable<SmtpAnswer> {
    const { limits } = this.#parts;
    if (!this.#hasGreeted) return fault("503 5.5.1 say EHLO first");
    if (this.#hasSender) return fault("503 5.5.1 there is a sender already");
    const parameters = /^FROM:\s?<[^<>]{0,320}>(.*)$/i.exec(rest)?.[1];
    if (parameters === undefined) return fault("501 5.5.4 MAIL FROM:<address>");
    const unknown = parameters
      .split(/\s+/)
      .find((parameter) => parameter !== "" && !MAIL_PARAMETER.test(parameter));
    if (unknown !== undefined) return fault("555 5.5.4 a parameter of MAIL FROM is not supported here");
    const size = /(?:^|\s)SIZE=(\d{1,20})/i.exec(parameters)?.[1];
    if (size !== undefined && Number(size) > limits.messageBytesMax)
      return fault("552 5.3.4 the message is too large");
    const refusal = this.#service.mail(this.#isSecure);
    return refusal instanceof Promise ? refusal.then((found) => this.#sender(found)) : this.#sender(refusal);
  }

  #sender(refusal: SmtpAnswer | null): SmtpAnswer {
    if (refusal) return refusal;
    if (this.#messages >= this.#parts.limits.messagesMax)
      return last("421 4.7.0 enough messages for one connection");
    this.#hasSender = true;
    return ok("250 2.1.0 ok");
  }

  #rcpt(rest: string): SmtpAnswer {
    if (!this.#hasSender) return fault("503 5.5.1 say MAIL first");
    const [, address = "", parameters = ""] = RECIPIENT.exec(rest) ?? [];
    if (address === "" || address.length > RECIPIENT_CHARS_MAX) return fault("501 5.5.4 RCPT TO:<address>");
    // as NOTIFY=NEVER, which whoever gives it would believe to be heeded
    if (parameters.trim() !== "") return fault("555 5.5.4 a parameter of RCPT TO is not supported here");
    if (this.#recipients >= this.#parts.limits.recipientsMax) return ok("452 4.5.3 too many recipients");
    const refusal = this.#service.rcpt(address);
    if (refusal) return refusal;
    this.#recipients++;
    // recipients lead to a message
    this.#idleCommands--;
    return ok("250 2.1.5 ok");
  }

  #data(): SmtpAnswer {
    if (this.#recipients === 0) return fault("503 5.5.1 no recipient was accepted, say RCPT first");
    this.#messages++;
    const cancelLate = whenLate(this.#parts.limits.messageMsMax, () =>
      this.close("421 4.4.2 the message took too long"),
    );
    this.#message = { reader: new MessageReader(), sink: this.#service.data(), cancelLate };
    return ok("354 go ahead");
  }

  /** Says whether the message is complete. */
  #readMessage(): boolean {
    const { messageBytesMax, excessBytesMax, lineBytesMax } = this.#parts.limits;
    const { reader, sink } = this.#message as MessageUnderWay;
    const end = reader.read(this.#unread, (piece) => {
      if (reader.bytes <= messageBytesMax) sink.take(piece);
    });
    this.#unread = end < 0 ? NOTHING : this.#unread.subarray(end);
    if (reader.lineBytes > lineBytesMax) this.close("500 5.5.2 the line is too long");
    else if (reader.bytes > messageBytesMax + excessBytesMax)
      this.close("552 5.3.4 the message is too large");
    if (end < 0 || this.#isOver) return false;
    this.#complete();
    return true;
  }

  #complete(): void {
    const { reader, sink } = this.#endMessage() as MessageUnderWay;
    this.#idleCommands = 0;
    if (reader.isMalformed) {
      sink.abandon();
      // what follows may be smuggled
      this.close("554 5.6.0 lines end with CRLF, and messages have no other CR or LF");
      return;
    }
    if (reader.bytes > this.#parts.limits.messageBytesMax) {
      sink.abandon();
      this.#answer(fault("552 5.3.4 the message is too large"));
    } else {
      this.#answer(sink.complete());
    }
    this.#reset();
  }

  #endMessage(): MessageUnderWay | null {
    const message = this.#message;
    this.#message = null;
    message?.cancelLate();
    return message;
  }

  #reset(): void {
    this.#hasSender = false;
    this.#recipients = 0;
    this.#service.reset();
  }
}
