/**
 * One SMTP connection to the listener: takes messages for return paths and feedback addresses, and nothing else.
 *
 * Promises: a message ends at CRLF.CRLF only, and one with a bare CR or LF is refused whole, so nothing can be smuggled
 * in behind it. A 250 is said after the commit. What is kept in memory is bounded: of a message its beginning, where a
 * report stands. Nothing is ever sent from here, there is no AUTH and no relaying.
 *
 * smtp-server is a dependency of the development mailbox, but not used here: it ends commands at bare line feeds.
 */
import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";

/** What a recipient's address is to us. `reply` refuses it. */
export type ReportTarget<T> = { kind: "taken"; to: T } | { kind: "refused"; reply: string };

export type ReportSessionParts<T> = {
  name: string;
  secureContext: SecureContext;
  limits: SessionLimits;
  addressee(address: string, remote: string): ReportTarget<T>;
  /** Resolves when it is committed. */
  keep(to: readonly T[], message: Buffer): Promise<void>;
  /** Why nothing is taken for now; null in good times. */
  busy(): string | null;
  onFault(error: unknown): void;
  onEnd(): void;
};

export type SessionLimits = {
  /** Of a message; larger ones are refused. */
  messageBytesMax: number;
  /** Of a message that is kept. */
  keptBytesMax: number;
  /** Without a command, or without a piece of a message. */
  silenceMsMax: number;
  sessionMsMax: number;
  messagesMax: number;
  recipientsMax: number;
  /** Commands that were wrong or refused, before the connection is ended. */
  faultsMax: number;
};

const COMMAND_BYTES_MAX = 1_024;
/** RFC 5321 allows 1,000; some systems send more. */
const LINE_BYTES_MAX = 16_384;
const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
const CR = 0x0d;
const DOT = 0x2e;

type SessionAnswer = { reply: string; isFault?: true; isLast?: true };
const ok = (reply: string): SessionAnswer => ({ reply });
const fault = (reply: string): SessionAnswer => ({ reply, isFault: true });
const last = (reply: string): SessionAnswer => ({ reply, isLast: true });
const GO_SECURE = ok("220 2.0.0 go ahead");

type Message = { kept: Buffer[]; keptBytes: number; bytes: number; isMalformed: boolean };

export class ReportSession<T> {
  readonly #parts: ReportSessionParts<T>;
  readonly #remote: string;
  #socket: Socket;
  #isSecure = false;
  #unread: Buffer = NOTHING;
  /** Replies that leave together. */
  #replies = "";
  /** What was sent is being answered: what comes meanwhile waits. */
  #isAnswering = false;
  #isOver = false;
  #hasGreeted = false;
  #hasSender = false;
  #recipients: T[] = [];
  #message: Message | null = null;
  #messages = 0;
  #faults = 0;
  readonly #endTimer: NodeJS.Timeout;

  constructor(socket: Socket, parts: ReportSessionParts<T>) {
    this.#socket = socket;
    this.#parts = parts;
    this.#remote = socket.remoteAddress ?? "";
    this.#endTimer = setTimeout(
      () => this.close("421 4.4.2 the session took too long"),
      parts.limits.sessionMsMax,
    );
    this.#endTimer.unref();
    this.#listen(socket);
    this.#say(`220 ${parts.name} ESMTP`);
    this.#flush();
  }

  /** Ends it with a word. */
  close(reply: string): void {
    if (this.#isOver) return;
    this.#say(reply);
    this.#end();
  }

  #listen(socket: Socket): void {
    socket.setNoDelay(true);
    socket.setTimeout(this.#parts.limits.silenceMsMax, () =>
      this.close("421 4.4.2 nothing was said for too long"),
    );
    socket.on("error", () => this.#end());
    socket.on("close", () => this.#end());
    socket.on("data", (chunk: Buffer) => {
      if (this.#isOver) return;
      this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
      this.#read();
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#endTimer);
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
    if (this.#replies !== "" && this.#socket.writable) this.#socket.write(this.#replies);
    this.#replies = "";
  }

  #read(): void {
    while (!this.#isAnswering && !this.#isOver) {
      const isRead = this.#message ? this.#readMessage(this.#message) : this.#readCommand();
      if (!isRead) break;
    }
    this.#flush();
    if (this.#isAnswering) this.#socket.pause();
  }

  /** Says whether there was a whole command. */
  #readCommand(): boolean {
    const end = this.#unread.indexOf(LF);
    if (end < 0) {
      if (this.#unread.length > COMMAND_BYTES_MAX) this.close("500 5.5.2 the line is too long");
      return false;
    }
    const line = this.#unread.subarray(0, end);
    this.#unread = this.#unread.subarray(end + 1);
    // a line feed alone ends no command: whoever sends it may be two senders
    if (line.length > COMMAND_BYTES_MAX || line.indexOf(CR) !== line.length - 1 || line.length === 0) {
      this.close("500 5.5.2 a command is one line that ends with CRLF");
      return false;
    }
    this.#obey(line.toString("utf8", 0, line.length - 1));
    return true;
  }

  #obey(line: string): void {
    const [verb = ""] = line.split(" ", 1);
    const answer = this.#answerTo(verb.toUpperCase(), line.slice(verb.length).trim());
    if (answer.isFault) this.#faults++;
    if (this.#faults > this.#parts.limits.faultsMax) this.close("421 4.7.0 too much was refused");
    else if (answer.isLast) this.close(answer.reply);
    else this.#say(answer.reply);
    if (answer === GO_SECURE) this.#secure();
  }

  #answerTo(verb: string, rest: string): SessionAnswer {
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
        return fault("252 2.1.5 nobody is verified here");
      case "QUIT":
        return last("221 2.0.0 bye");
      default:
        return fault("502 5.5.1 this is not done here");
    }
  }

  #greet(name: string, isExtended: boolean): SessionAnswer {
    if (name === "") return fault("501 5.5.4 say who you are");
    this.#hasGreeted = true;
    this.#reset();
    const extensions = [
      "PIPELINING",
      "8BITMIME",
      "SMTPUTF8",
      "ENHANCEDSTATUSCODES",
      `SIZE ${this.#parts.limits.messageBytesMax}`,
      ...(this.#isSecure ? [] : ["STARTTLS"]),
    ];
    const lines = isExtended ? [this.#parts.name, ...extensions] : [this.#parts.name];
    return ok(lines.map((text, n) => `250${n < lines.length - 1 ? "-" : " "}${text}`).join("\r\n"));
  }

  #startTls(): SessionAnswer {
    if (this.#isSecure) return fault("503 5.5.1 the connection is secure");
    // what came with it came in the open, and must not be obeyed as if it had come secured
    return this.#unread.length > 0 ? last("501 5.5.1 nothing may follow STARTTLS") : GO_SECURE;
  }

  #secure(): void {
    const open = this.#socket;
    this.#flush();
    open.removeAllListeners("data");
    open.removeAllListeners("timeout");
    open.setTimeout(0);
    this.#socket = new TLSSocket(open, { isServer: true, secureContext: this.#parts.secureContext });
    this.#isSecure = true;
    this.#hasGreeted = false;
    this.#reset();
    this.#listen(this.#socket);
  }

  #mail(rest: string): SessionAnswer {
    if (!this.#hasGreeted) return fault("503 5.5.1 say EHLO first");
    if (this.#hasSender) return fault("503 5.5.1 there is a sender already");
    const parameters = /^FROM:\s?<[^<>]{0,320}>(.*)$/i.exec(rest)?.[1];
    if (parameters === undefined) return fault("501 5.5.4 MAIL FROM:<address>");
    const size = /(?:^|\s)SIZE=(\d{1,20})/i.exec(parameters)?.[1];
    if (size !== undefined && Number(size) > this.#parts.limits.messageBytesMax)
      return fault("552 5.3.4 the message is too large");
    const busy = this.#parts.busy();
    if (busy !== null) return ok(`452 4.3.1 ${busy}`);
    if (this.#messages >= this.#parts.limits.messagesMax)
      return last("421 4.7.0 enough messages for one connection");
    this.#hasSender = true;
    return ok("250 2.1.0 ok");
  }

  #rcpt(rest: string): SessionAnswer {
    if (!this.#hasSender) return fault("503 5.5.1 say MAIL first");
    const address = /^TO:\s?<([^<>\s]{1,320})>/i.exec(rest)?.[1];
    if (address === undefined) return fault("501 5.5.4 RCPT TO:<address>");
    if (this.#recipients.length >= this.#parts.limits.recipientsMax)
      return ok("452 4.5.3 too many recipients");
    const found = this.#parts.addressee(address, this.#remote);
    if (found.kind === "refused") return fault(found.reply);
    this.#recipients.push(found.to);
    return ok("250 2.1.5 ok");
  }

  #data(): SessionAnswer {
    if (this.#recipients.length === 0) return fault("503 5.5.1 there is nobody to take it");
    this.#messages++;
    this.#message = { kept: [], keptBytes: 0, bytes: 0, isMalformed: false };
    return ok("354 go ahead");
  }

  /** Says whether the message is complete. */
  #readMessage(message: Message): boolean {
    let from = 0;
    for (let end = this.#unread.indexOf(LF); end >= 0; end = this.#unread.indexOf(LF, from)) {
      const line = this.#unread.subarray(from, end + 1);
      from = end + 1;
      if (line.length === 3 && line[0] === DOT && line[1] === CR) {
        this.#unread = this.#unread.subarray(from);
        this.#complete(message);
        return true;
      }
      if (line.indexOf(CR) !== line.length - 2) message.isMalformed = true;
      this.#take(message, line[0] === DOT ? line.subarray(1) : line);
      if (this.#isOver) return false;
    }
    this.#unread = this.#unread.subarray(from);
    if (this.#unread.length > LINE_BYTES_MAX) this.close("500 5.5.2 the line is too long");
    return false;
  }

  #take(message: Message, line: Buffer): void {
    message.bytes += line.length;
    if (message.bytes > this.#parts.limits.messageBytesMax) this.close("552 5.3.4 the message is too large");
    const room = this.#parts.limits.keptBytesMax - message.keptBytes;
    if (room <= 0) return;
    const kept = line.length <= room ? line : line.subarray(0, room);
    message.kept.push(kept);
    message.keptBytes += kept.length;
  }

  #complete({ kept, isMalformed }: Message): void {
    const to = this.#recipients;
    this.#reset();
    if (isMalformed) {
      // what follows may be smuggled
      this.close("554 5.6.0 lines end with CRLF, and messages have no other CR or LF");
      return;
    }
    this.#isAnswering = true;
    this.#parts
      .keep(to, Buffer.concat(kept))
      .then(
        () => this.#say("250 2.0.0 kept"),
        (error: unknown) => {
          this.#parts.onFault(error);
          this.#say("451 4.3.0 it could not be kept, try again later");
        },
      )
      .finally(() => {
        this.#isAnswering = false;
        if (this.#isOver) return;
        this.#socket.resume();
        this.#read(); // and says what it answered
      });
  }

  #reset(): void {
    this.#hasSender = false;
    this.#recipients = [];
    this.#message = null;
  }
}

const FAREWELL_MS = 1_000;
