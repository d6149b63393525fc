/**
 * One SMTP connection of the sink: commands in, replies out, and between 354 and the final dot the bytes of a
 * message.
 *
 * It speaks SMTP by itself, strictly, because a lenient server hides what tests must find: smtp-server
 * accepts bare line feeds and dots that were not doubled, and hands out only the unstuffed message. It also
 * waits 100 ms before each greeting, which a test of 20,000 mails with broken connections cannot afford (100
 * mails/s over 10 fresh connections). What the client does wrong is noted in the ledger's faults and the talk
 * goes on. No TLS and no AUTH.
 */
import type { Socket } from "node:net";
import type { Ledger } from "./ledger.ts";
import { type Manner, refusalOfSender, replyText } from "./manner.ts";

/** The sink that it is a connection of. */
export type Host = {
  readonly ledger: Ledger;
  readonly options: { keepRaw: boolean; pipelining: boolean; now(): number };
  readonly weather: { greetingCode: number | null; heloCode: number | null };
  mannerOf(recipient: string): Manner;
  mannerOfMessage(): Manner;
  answerLater(client: Socket, delayMs: number, answer: () => void): void;
};

type Transaction = {
  from: string;
  is8Bit: boolean;
  to: string[];
  manner: Manner;
  begunAt: number;
  completeAt: number;
};

const COMMAND_BYTES_MAX = 2048;
const LINE_BYTES_MAX = 998;
const RECIPIENTS_MAX = 100;
const SIZE_BYTES_MAX = 64 * 1024 * 1024;
const HEADER_BYTES_MAX = 64 * 1024;

const END_OF_DATA = Buffer.from("\r\n.\r\n");
const NOTHING: Buffer = Buffer.alloc(0);
const LF = 0x0a;
const CR = 0x0d;
const DOT = 0x2e;

export class Conversation {
  readonly #sink: Host;
  readonly #socket: Socket;
  readonly #number: number;
  #mode: "command" | "data" | "deaf" = "command";
  #unread: Buffer = NOTHING;
  #replies = "";
  #greeted = false;
  #client = "";
  #saidQuit = false;
  #transaction: Transaction | null = null;
  /**
   * The message so far. It begins with the CRLF of the DATA command, so that its first line is like any
   * other.
   */
  #message: Buffer[] = [];

  constructor(sink: Host, socket: Socket, number: number) {
    this.#sink = sink;
    this.#socket = socket;
    this.#number = number;
    socket.on("error", () => socket.destroy()); // a client that breaks the connection is what many tests are about
    socket.on("data", (chunk) => this.#read(chunk));
    socket.once("close", () =>
      sink.ledger.noteEnding(number, { at: sink.options.now(), isPolite: this.#saidQuit }),
    );
    const { greetingCode } = sink.weather;
    if (greetingCode === null) socket.write("220 sink.test ESMTP\r\n");
    else socket.end(`${replyText(greetingCode)}\r\n`);
  }

  /** Goes as far as what has arrived allows. All answers to one piece leave in one piece. */
  #read(chunk: Buffer): void {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    let isGoingOn = true;
    while (isGoingOn && this.#unread.length > 0) {
      if (this.#mode === "command") isGoingOn = this.#readCommand();
      else if (this.#mode === "data") isGoingOn = this.#readMessage();
      else isGoingOn = false;
    }
    if (this.#replies !== "" && !this.#socket.destroyed) this.#socket.write(this.#replies);
    this.#replies = "";
  }

  /** Takes one command line from what is unread; false when there is no whole one yet. */
  #readCommand(): boolean {
    const end = this.#unread.indexOf(LF);
    if (end === -1) {
      if (this.#unread.length > COMMAND_BYTES_MAX) this.#answer("421 5.5.2 line too long");
      return false;
    }
    const isBare = end === 0 || this.#unread[end - 1] !== CR;
    const line = this.#unread.toString("utf8", 0, isBare ? end : end - 1);
    this.#unread = this.#unread.subarray(end + 1);
    if (this.#unread.length > 0 && !this.#sink.options.pipelining)
      this.#fault(`more was sent before the answer to ${line}`);
    if (isBare || line.includes("\r")) {
      this.#fault(`a command line with a bare CR or LF: ${JSON.stringify(line)}`);
      this.#answer("500 5.5.2 bare CR or LF");
    } else {
      this.#answer(this.#obey(line));
    }
    return true;
  }

  #obey(line: string): string {
    const verb = line.slice(0, 4).toUpperCase();
    switch (verb) {
      case "EHLO":
      case "HELO":
        this.#client = line.slice(5).trim();
        return this.#hello(verb === "EHLO");
      case "MAIL":
        return this.#mail(line);
      case "RCPT":
        return this.#rcpt(line);
      case "DATA":
        return this.#data();
      case "RSET":
        this.#transaction = null;
        return "250 2.0.0 forgotten";
      case "NOOP":
        return "250 2.0.0 still here";
      case "QUIT":
        this.#saidQuit = true;
        return "221 2.0.0 bye";
      default:
        this.#fault(`an unknown command: ${line}`);
        return "500 5.5.2 unknown command";
    }
  }

  #hello(isExtended: boolean): string {
    const { heloCode } = this.#sink.weather;
    if (heloCode !== null) return replyText(heloCode);
    this.#greeted = true;
    this.#transaction = null;
    if (!isExtended) return "250 sink.test";
    const pipelining = this.#sink.options.pipelining ? "250-PIPELINING\r\n" : "";
    return `250-sink.test\r\n${pipelining}250-8BITMIME\r\n250-SMTPUTF8\r\n250-ENHANCEDSTATUSCODES\r\n250 SIZE ${SIZE_BYTES_MAX}`;
  }

  #mail(line: string): string {
    const [, from, parameters] = /^MAIL FROM:<([^<>\s]*)>((?: .*)?)$/i.exec(line) ?? [];
    if (from === undefined || parameters === undefined) return this.#misspoken(line);
    if (!this.#greeted) return this.#outOfOrder(line, "EHLO comes first");
    if (this.#transaction) return this.#outOfOrder(line, "nested MAIL");
    const refusal = refusalOfSender(from);
    if (refusal) return refusal;
    const is8Bit = /\bBODY=8BITMIME\b/i.test(parameters);
    const begunAt = this.#sink.options.now();
    this.#transaction = { from, is8Bit, to: [], manner: { kind: "accept" }, begunAt, completeAt: 0 };
    return "250 2.1.0 sender ok";
  }

  #rcpt(line: string): string {
    const [, to] = /^RCPT TO:<([^<>\s]+)>(?: .*)?$/i.exec(line) ?? [];
    if (to === undefined) return this.#misspoken(line);
    // no fault of the client's: it may send RCPT and DATA before it knows that MAIL is refused
    if (!this.#transaction) return "503 5.5.1 MAIL comes first";
    if (this.#transaction.to.length >= RECIPIENTS_MAX) return "452 4.5.3 too many recipients";
    this.#sink.ledger.noteNamed(to);
    const manner = this.#sink.mannerOf(to);
    if (manner.kind === "reply to rcpt") {
      this.#sink.ledger.noteReply(to, manner.reply);
      return manner.reply;
    }
    this.#transaction.to.push(to);
    // one answer serves all recipients: the first that asks for something special decides it
    if (this.#transaction.manner.kind === "accept") this.#transaction.manner = manner;
    return "250 2.1.5 recipient ok";
  }

  #data(): string {
    const transaction = this.#transaction;
    if (!transaction || transaction.to.length === 0) return "503 5.5.1 no recipients";
    if (this.#unread.length > 0) this.#fault("message bytes were sent before the answer to DATA");
    if (transaction.manner.kind === "accept") transaction.manner = this.#sink.mannerOfMessage();
    this.#mode = "data";
    this.#message = [END_OF_DATA.subarray(0, 2)];
    return "354 end with a dot";
  }

  /** Moves what is unread into the message; true when the final dot was among it. */
  #readMessage(): boolean {
    const transaction = this.#transaction as Transaction;
    if (transaction.manner.kind === "drop in data") {
      this.#drop(transaction, "connection broken in DATA");
      return false;
    }
    const before = this.#tail();
    const end = Buffer.concat([before, this.#unread]).indexOf(END_OF_DATA);
    const taken = end === -1 ? this.#unread.length : end + END_OF_DATA.length - before.length;
    this.#message.push(this.#unread.subarray(0, taken));
    this.#unread = this.#unread.subarray(taken);
    if (end === -1) return false;
    const whole = Buffer.concat(this.#message);
    this.#message = [];
    this.#transaction = null;
    this.#endOfMessage(transaction, whole.subarray(2, whole.length - 3));
    return true;
  }

  /** The last bytes of the message so far, in which the final dot may have begun. */
  #tail(): Buffer {
    const reach = END_OF_DATA.length - 1;
    let last = this.#message.at(-1) ?? NOTHING;
    if (last.length < reach && this.#message.length > 1) {
      last = Buffer.concat(this.#message);
      this.#message = [last];
    }
    return last.subarray(-reach);
  }

  #endOfMessage(transaction: Transaction, raw: Buffer): void {
    this.#mode = "command";
    transaction.completeAt = this.#sink.options.now();
    this.#inspect(raw, transaction.is8Bit);
    const { manner } = transaction;
    if (manner.kind === "hang after data") {
      this.#mode = "deaf";
      this.#noteReplies(transaction, "never answered");
    } else if (manner.kind === "drop after data") {
      this.#take(transaction, raw, null);
      this.#drop(transaction, "connection broken before the answer");
    } else if (manner.kind === "reply to dot") {
      this.#noteReplies(transaction, manner.reply);
      this.#answer(manner.reply);
    } else if (manner.kind === "slow dot") {
      this.#mode = "deaf";
      this.#sink.answerLater(this.#socket, manner.delayMs, () => this.#acceptLate(transaction, raw));
    } else {
      this.#accept(transaction, raw);
    }
  }

  #accept(transaction: Transaction, raw: Buffer): void {
    const reply = "250 2.0.0 taken";
    this.#take(transaction, raw, reply);
    this.#noteReplies(transaction, reply);
    this.#answer(reply);
  }

  #acceptLate(transaction: Transaction, raw: Buffer): void {
    if (this.#socket.destroyed) {
      this.#take(transaction, raw, null);
      this.#noteReplies(transaction, "the client left before the answer");
      return;
    }
    this.#mode = "command";
    this.#accept(transaction, raw);
    this.#read(NOTHING);
  }

  #take({ from, to, begunAt, completeAt }: Transaction, raw: Buffer, reply: string | null): void {
    const { keepRaw, now } = this.#sink.options;
    const headers = traceHeaders(raw);
    this.#sink.ledger.take({
      messageId: (headers.get("message-id") ?? "").replace(/^<|>$/g, ""),
      headers,
      from,
      to,
      sizeBytes: raw.length,
      raw: keepRaw ? raw : null,
      connection: this.#number,
      client: this.#client,
      begunAt,
      completeAt,
      at: now(),
      reply,
    });
  }

  #drop(transaction: Transaction, fate: string): void {
    this.#mode = "deaf";
    this.#noteReplies(transaction, fate);
    this.#socket.destroy();
  }

  #noteReplies(transaction: Transaction, reply: string): void {
    for (const address of transaction.to) this.#sink.ledger.noteReply(address, reply);
  }

  /** Says a reply; with 221 and 421 the server hangs up. */
  #answer(reply: string): void {
    this.#replies += `${reply}\r\n`;
    if (!reply.startsWith("221") && !reply.startsWith("421")) return;
    this.#mode = "deaf";
    this.#socket.end(this.#replies);
    this.#replies = "";
  }

  /** What RFC 5321 forbids in a message on the wire. */
  #inspect(raw: Buffer, is8Bit: boolean): void {
    let start = 0;
    for (let end = raw.indexOf(LF); end !== -1; end = raw.indexOf(LF, start)) {
      if (raw[end - 1] !== CR) this.#fault(`a bare LF in the message at byte ${end}`);
      if (end - 1 - start > LINE_BYTES_MAX) this.#fault(`a message line of ${end - 1 - start} bytes`);
      if (raw[start] === DOT && raw[start + 1] !== DOT) this.#fault(`a dot not doubled at byte ${start}`);
      start = end + 1;
    }
    for (let at = raw.indexOf(CR); at !== -1; at = raw.indexOf(CR, at + 1))
      if (raw[at + 1] !== LF) this.#fault(`a bare CR in the message at byte ${at}`);
    if (!is8Bit && /[\x80-\xff]/.test(raw.toString("latin1")))
      this.#fault("8-bit bytes without BODY=8BITMIME");
  }

  #misspoken(line: string): string {
    this.#fault(`not the grammar of RFC 5321: ${line}`);
    return "501 5.5.4 syntax error";
  }

  #outOfOrder(line: string, why: string): string {
    this.#fault(`${why}: ${line}`);
    return `503 5.5.1 ${why}`;
  }

  #fault(fault: string): void {
    this.#sink.ledger.noteFault(this.#number, fault);
  }
}

/** The message as its author wrote it: doubled dots taken off again. */
export function unstuffed(raw: Buffer): Buffer {
  return Buffer.from(raw.toString("latin1").replace(/(^|\r\n)\./g, "$1"), "latin1");
}

function traceHeaders(raw: Buffer): ReadonlyMap<string, string> {
  const end = raw.indexOf("\r\n\r\n");
  const block = raw.toString("utf8", 0, Math.min(end === -1 ? raw.length : end, HEADER_BYTES_MAX));
  const headers = new Map<string, string>();
  for (const [, name, value] of block.matchAll(/^(message-id|x-[^:\r\n]+):(.*(?:\r\n[ \t].*)*)/gim))
    headers.set((name as string).toLowerCase(), (value as string).replaceAll("\r\n", "").trim());
  return headers;
}
