/**
 * One SMTP connection, client side: it is opened, greeted, secured and authenticated once, then sends one
 * delivery (a mail with its recipients) after another.
 *
 * Why not nodemailer's SMTPConnection: this is the hottest path of the engine. A mail of 1 KB costs
 * nodemailer 32 us of CPU and this client 12, of which 9 are the kernel's; without chaining it is 16. The
 * tests compare it with nodemailer.
 *
 * Chaining: the last bytes of a mail and MAIL, RCPT and DATA of the next leave together (RFC 2920 allows it;
 * the message itself waits for its 354). This halves the round trips. It is done only when another mail is
 * waiting and this receiver answers final dots quickly. If an answer takes long all the same, the chained
 * mail is given back for another conversation, and this one ends after its answer.
 *
 * Promises: every delivery is settled or given back, exactly once, whatever the peer does. Given back means
 * that the receiver has no trace of it. Every wait has a deadline, which `tick` enforces; replies are
 * bounded; nothing throws, and every error event is handled. Credentials are never sent unencrypted over a
 * network unless TLS was switched off.
 *
 * Opportunistic STARTTLS is used when offered, and the certificate is still verified. A failed verification
 * never falls back to plain text, since an attacker could cause it; `ca` names a private authority. STARTTLS
 * is skipped for loopback addresses: nothing leaves the machine, and a certificate for `localhost` proves
 * nothing.
 */
import { isAscii } from "node:buffer";
import { connect, isIP, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls, type SecureContext, type TLSSocket } from "node:tls";
import { clientContext } from "../tlsgroups.ts";
import { shakeInTurns } from "./clienthandshakes.ts";
import { toWire } from "./dots.ts";
import type { Envelope, Permit } from "./envelope.ts";
import { Pace } from "./pace.ts";
import { type Phase, type Reply, replyOf, type Trouble, troubleOf, type Via, viaOf } from "./reply.ts";
import { provesTlsa } from "./tlsa.ts";
import { REQUIRED_BY, requiresTls, type TlsNeed } from "./tlsneed.ts";

export type Peer = {
  readonly host: string;
  /** The address to connect to; without it, what `host` resolves to. */
  readonly address?: string;
  /** Our local address, if it must be a certain one. */
  readonly localAddress?: string;
  readonly port: number;
  readonly tls: "implicit" | "required" | "opportunistic" | "off";
  readonly verifyCertificate: boolean;
  /** PEM of the authorities to trust; null: the usual ones. */
  readonly ca: string | null;
  /** In place of `ca`, made once for many connections. */
  readonly secureContext?: SecureContext | null;
  /** Why `tls` is required, if the receiver or the operator requires it for this host. */
  readonly need?: TlsNeed | null;
  /** What time it is, in ms, for certificates that are not verified by TLS itself. */
  readonly wallMs?: number;
  readonly credentials: { readonly user: string; readonly password: string } | null;
  /** What we call ourselves. */
  readonly helo: string;
};

export type Patience = {
  readonly connectMs: number;
  /** Also for the TLS handshake. */
  readonly greetingMs: number;
  readonly commandMs: number;
  /** For all of the opening, and for all of a mail before its DATA: each answer may come just in time. */
  readonly beforeDataMs: number;
  /** For the answer to the final dot, and for each piece of a message to be taken. */
  readonly dotMs: number;
};

export type Delivery = {
  readonly envelope: Envelope;
  readonly message: Buffer;
  readonly permit: Permit;
  readonly since: number;
  /** How often it was given back. */
  returns: number;
  settle(replies: Reply[]): void;
};

/** The owner of conversations, which hands out deliveries. */
export type Dispatcher = {
  now(): number;
  /** The conversation can carry an delivery. */
  onReady(conversation: Conversation): void;
  /** An delivery to chain to the one that is leaving; null: none. */
  onLeaving(conversation: Conversation): Delivery | null;
  /** `reason`: the connection was found dead; null: it is only slow. */
  onReturn(delivery: Delivery, reason: Reply | null): void;
  /** It has ended: with a reply if it was never ready, else null. */
  onOver(conversation: Conversation, failure: Reply | null): void;
  /** Gets every line of the conversation; ours without passwords and without the message. */
  onWire?(isOurs: boolean, text: string): void;
};

const REPLY_CHARS_MAX = 65_536;
const PIECE_BYTES = 65_536;
const READ_BYTES = 4_096;
/**
 * Slower receivers are disconnected: attachments stay in memory during the upload, and other mails wait for
 * that memory.
 */
const UPLOAD_BYTES_PER_MS_MIN = 16;
/** Larger ones are not chained to: the next would wait for the upload. */
const CHAIN_MESSAGE_BYTES_MAX = PIECE_BYTES;
const CHAIN_DOT_MS_MAX = 500;
const CHAIN_PATIENCE_MS = 1_000;
const FAREWELL_MS = 1_000;
/** Per address of a host that has several. */
const CONNECT_ATTEMPT_MS = 2_500;
const KEEP_ALIVE_MS = 30_000;

const GARBLED_CHARS_MAX = 100;

const DOT_LINE = ".\r\n";

const AWAITING: Record<Phase, string> = {
  route: "an answer of DNS",
  connect: "the connection",
  tls: "the TLS handshake",
  greeting: "the greeting",
  helo: "the answer to EHLO",
  auth: "the answer to AUTH",
  mail: "the answer to MAIL",
  rcpt: "the answer to RCPT",
  data: "the answer to DATA",
  dot: "the answer to the final dot",
  session: "nothing",
};

/** Which answer is awaited; null: none. */
type Awaited = "rset" | "mail" | "rcpt" | "data" | "dot";

type Extensions = {
  pipelining: boolean;
  eightBitMime: boolean;
  smtpUtf8: boolean;
  startTls: boolean;
  size: boolean;
  sizeBytesMax: number;
  auth: ReadonlySet<string>;
};

const NO_EXTENSIONS: Extensions = {
  pipelining: false,
  eightBitMime: false,
  smtpUtf8: false,
  startTls: false,
  size: false,
  sizeBytesMax: Number.POSITIVE_INFINITY,
  auth: new Set(),
};

type ServerAnswer = { code: number; wire: string };

class Halt extends Error {
  readonly reply: Reply;
  constructor(reply: Reply) {
    super(reply.text);
    this.reply = reply;
  }
}

export class Conversation {
  readonly peer: Peer;
  readonly #patience: Patience;
  readonly #dispatcher: Dispatcher;
  readonly pace: Pace;
  readonly openedAt: number;
  /** When the present delivery was started; before the first, when connecting was. */
  #begunAt: number;
  #via: Via;
  /** Deliveries begun. */
  carried = 0;

  #socket: Socket;
  #isSecure = false;
  #isReady = false;
  #isOver = false;
  /** No more deliveries are accepted. */
  #isLast = false;
  /** The peer expects a message that will not be sent. */
  #owesMessage = false;
  #extensions = NO_EXTENSIONS;
  #phase: Phase = "connect";
  /** When the wait for what is awaited now began; null: for nothing. */
  #silentSince: number | null;
  #deadline: number;
  /** The end of the opening, or of what comes before DATA. */
  #beforeDataUntil: number;
  /** The waiter for the answer to a command of the opening. It is not settled once the opening has ended. */
  #asked: ((answer: ServerAnswer) => void) | null = null;

  #input = "";
  /** The lines of a reply that has more to come. */
  #reply = "";
  /** More came behind the line that is being read, in the same read. */
  #isMoreRead = false;

  #delivery: Delivery | null = null;
  #chained: Delivery | null = null;
  #awaited: Awaited | null = null;
  #replies: (Reply | null)[] = [];
  /** How many of the recipients have been answered, and accepted. */
  #answered = 0;
  #accepted = 0;
  #mustReset = false;
  /** What is left of a message too large for one write. */
  #unsent: Buffer | null = null;
  #uploadUntil = 0;
  #dotAt = 0;
  #dotTookMs = Number.POSITIVE_INFINITY;

  constructor(peer: Peer, patience: Patience, dispatcher: Dispatcher, perSecond: number) {
    this.peer = peer;
    this.#patience = patience;
    this.#dispatcher = dispatcher;
    this.pace = new Pace(perSecond);
    this.openedAt = dispatcher.now();
    this.#begunAt = this.openedAt;
    this.#via = viaOf({
      host: peer.host,
      ip: peer.address ?? null,
      tls: null,
      isVerified: false,
      ...(peer.need && { policy: peer.need.by }),
    });
    this.#silentSince = this.openedAt;
    this.#deadline = this.openedAt + patience.connectMs;
    this.#beforeDataUntil = this.openedAt + patience.beforeDataMs;
    this.#socket = connect({
      host: peer.address ?? peer.host,
      port: peer.port,
      ...(peer.localAddress !== undefined && { localAddress: peer.localAddress }),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      autoSelectFamilyAttemptTimeout: CONNECT_ATTEMPT_MS,
      onread: this.#intoOneBuffer(),
    });
    this.#listen();
    this.#open().then(
      () => this.#settleIn(),
      (error: unknown) =>
        this.#end(error instanceof Halt ? error.reply : this.#systemTrouble(error as Error)),
    );
  }

  /** Why the peer cannot take this delivery, known before any command is sent. */
  objection({ envelope, message }: Delivery): Reply | null {
    const { smtpUtf8, sizeBytesMax } = this.#extensions;
    if (envelope.utf8 && !smtpUtf8)
      return troubleOf("session", "SMTPUTF8_NOT_OFFERED", `${this.peer.host} does not offer SMTPUTF8`);
    if (message.length > sizeBytesMax)
      return troubleOf("session", "SIZE_EXCEEDED", `${this.peer.host} takes at most ${sizeBytesMax} bytes`);
    return null;
  }

  /** Only when idle. */
  carry(delivery: Delivery): void {
    const opener = this.#opener(delivery);
    this.#begin(delivery);
    this.#write(opener);
  }

  /** Ends it as soon as what it carries is answered. */
  retire(): void {
    this.#isLast = true;
    if (!this.#isReady) this.#end(troubleOf("session", "CLOSING", "the connection is no longer wanted"));
    else if (this.#delivery === null) this.#leave();
  }

  /** The receiver has all of a message: to end now would be to send it twice. */
  get awaitsVerdict(): boolean {
    return this.#awaited === "dot" && this.#phase === "dot";
  }

  /** How long the other side has kept us waiting. */
  silentMs(now: number): number {
    return this.#silentSince === null ? 0 : now - this.#silentSince;
  }

  /** How long the opening or the present mail has taken, whatever was answered meanwhile. */
  takenMs(now: number): number {
    return this.#silentSince === null ? 0 : now - this.#begunAt;
  }

  get isOpening(): boolean {
    return !this.#isReady;
  }

  get isCarrying(): boolean {
    return this.#delivery !== null;
  }

  /** Ends it now. */
  abort(): void {
    this.#end(this.#trouble("CLOSING", "given up"));
  }

  /** As when its time is over. `why`: in words, if it was not. */
  giveUp(why = "timed out"): void {
    this.#end(this.#trouble("TIMEOUT", why));
  }

  /** Enforces the deadlines. */
  tick(now: number): void {
    if (now >= this.#deadline || now >= this.#beforeDataUntil) {
      this.giveUp();
    } else if (this.#chained && now - this.#dotAt >= CHAIN_PATIENCE_MS) {
      const delivery = this.#chained;
      this.#chained = null;
      this.#owesMessage = true;
      this.#dispatcher.onReturn(delivery, null);
    }
  }

  // ---- opening

  async #open(): Promise<void> {
    const { tls, credentials, host } = this.peer;
    await this.#event("connect");
    const { remoteAddress, localAddress: localIp = null } = this.#socket;
    this.#via = viaOf({ ...this.#via, ip: remoteAddress ?? this.#via.ip }, { localIp });
    if (tls === "implicit") await this.#secure();
    await this.#greeting();
    await this.#hello();
    if (tls === "required" || (tls === "opportunistic" && !isThisMachine(host))) await this.#startTls(tls);
    if (credentials) await this.#login(credentials);
  }

  #settleIn(): void {
    if (this.#isOver) return;
    this.#isReady = true;
    this.#awaitNothing();
    this.#dispatcher.onReady(this);
  }

  async #greeting(): Promise<void> {
    const { code, wire } = await this.#ask("greeting", null);
    if (code !== 220) throw new Halt(this.#said("greeting", code, wire));
  }

  async #hello(): Promise<void> {
    const extended = await this.#ask("helo", `EHLO ${this.peer.helo}`);
    if (extended.code === 250) {
      this.#extensions = readExtensions(extended.wire);
      return;
    }
    // a server without extensions, not a refusal
    const plain = [500, 501, 502, 504].includes(extended.code)
      ? await this.#ask("helo", `HELO ${this.peer.helo}`)
      : extended;
    if (plain.code !== 250) throw new Halt(this.#said("helo", plain.code, plain.wire));
    this.#extensions = NO_EXTENSIONS;
  }

  async #startTls(tls: "required" | "opportunistic"): Promise<void> {
    this.#phase = "tls";
    if (!this.#extensions.startTls) {
      if (tls === "opportunistic") return;
      throw new Halt(this.#about("TLS_NOT_OFFERED", `${this.peer.host} does not offer STARTTLS`));
    }
    const { code, wire } = await this.#ask("tls", "STARTTLS");
    if (code !== 220) throw new Halt(this.#said("tls", code, wire));
    // what arrived with the 220 was unencrypted and must not be read as if it had come over TLS
    if (this.#input !== "" || this.#reply !== "")
      throw new Halt(this.#about("GARBLED", "more came before the TLS handshake"));
    await this.#secure();
    await this.#hello();
  }

  async #secure(): Promise<void> {
    const { host, need, verifyCertificate, ca, secureContext } = this.peer;
    this.#phase = "tls";
    this.#awaitFor(this.#patience.greetingMs);
    const plain = this.#socket;
    const secured = connectTls({
      socket: plain,
      host,
      ...(isIP(host) === 0 && { servername: need?.kind === "dane" ? need.name : host }),
      secureContext: secureContext ?? clientContext(ca),
      rejectUnauthorized: verifyCertificate,
    });
    this.#socket = secured;
    secured.on("data", (chunk) => this.#read(chunk.toString("latin1")));
    shakeInTurns(plain, secured);
    this.#listen();
    await this.#event("secureConnect");
    this.#isSecure = true;
    const doubt = this.#doubt(secured);
    const { localIp } = this.#via;
    const via = { ...this.#via, tls: secured.getProtocol(), isVerified: doubt === null };
    this.#via = viaOf(via, { doubt, localIp });
    if (doubt === "TLSA_MISMATCH")
      throw new Halt(this.#about("TLSA_MISMATCH", `the certificate of ${host} is not in its TLSA records`));
  }

  /** Why the certificate proves nothing. */
  #doubt(secured: TLSSocket): Trouble | (string & {}) | null {
    const { need, wallMs = 0 } = this.peer;
    if (need?.kind === "dane")
      return provesTlsa(
        secured.getPeerCertificate(true),
        need.records,
        [need.name, ...need.alsoNamed],
        wallMs,
      )
        ? null
        : "TLSA_MISMATCH";
    return secured.authorized ? null : String(secured.authorizationError);
  }

  async #login({ user, password }: { user: string; password: string }): Promise<void> {
    const { host, tls } = this.peer;
    if (!this.#isSecure && tls !== "off" && !isThisMachine(host))
      throw new Halt(
        troubleOf("auth", "TLS_NOT_OFFERED", `${host} offers no TLS to send the password under`),
      );
    const { auth } = this.#extensions;
    let answer: ServerAnswer;
    if (auth.has("PLAIN")) {
      answer = await this.#ask("auth", `AUTH PLAIN ${base64(`\0${user}\0${password}`)}`);
    } else if (auth.has("LOGIN")) {
      answer = await this.#ask("auth", "AUTH LOGIN");
      if (answer.code === 334) answer = await this.#ask("auth", base64(user));
      if (answer.code === 334) answer = await this.#ask("auth", base64(password));
    } else {
      throw new Halt(troubleOf("auth", "AUTH_NOT_OFFERED", `${host} offers neither AUTH PLAIN nor LOGIN`));
    }
    if (answer.code !== 235) throw new Halt(this.#said("auth", answer.code, answer.wire));
  }

  /** One command of the opening and its answer. */
  async #ask(phase: Phase, line: string | null): Promise<ServerAnswer> {
    this.#phase = phase;
    this.#awaitFor(phase === "greeting" ? this.#patience.greetingMs : this.#patience.commandMs);
    if (line !== null) this.#write(`${line}\r\n`);
    const answer = await new Promise<ServerAnswer>((resolve) => {
      this.#asked = resolve;
    });
    if (this.#isOver) throw new Halt(this.#garbled(answer.wire));
    return answer;
  }

  /** From now on; says when that is. */
  #awaitFor(ms: number): number {
    const now = this.#dispatcher.now();
    this.#silentSince = now;
    this.#deadline = now + ms;
    return now;
  }

  #awaitNothing(): void {
    this.#silentSince = null;
    this.#deadline = Number.POSITIVE_INFINITY;
    this.#beforeDataUntil = Number.POSITIVE_INFINITY;
  }

  #event(name: "connect" | "secureConnect"): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.once(name, resolve);
    });
  }

  // ---- carrying

  #begin(delivery: Delivery): void {
    this.carried++;
    this.#delivery = delivery;
    this.#awaited = this.#mustReset ? "rset" : "mail";
    this.#mustReset = false;
    this.#phase = "mail";
    this.#replies = new Array<Reply | null>(delivery.envelope.to.length).fill(null);
    this.#answered = 0;
    this.#accepted = 0;
    this.#begunAt = this.#awaitFor(this.#patience.commandMs);
    this.#beforeDataUntil = this.#begunAt + this.#patience.beforeDataMs;
  }

  /** What is said before the first answer. */
  #opener(delivery: Delivery): string {
    if (!this.#extensions.pipelining) return this.#mustReset ? "RSET\r\n" : this.#mailLine(delivery);
    let group = this.#mustReset ? "RSET\r\n" : "";
    group += this.#mailLine(delivery);
    for (const address of delivery.envelope.to) group += rcptLine(address);
    return `${group}DATA\r\n`;
  }

  #mailLine({ envelope, message }: Delivery): string {
    const { size, eightBitMime } = this.#extensions;
    let line = `MAIL FROM:<${envelope.from}>`;
    if (size) line += ` SIZE=${message.length}`;
    if (eightBitMime && (envelope.utf8 || !isAscii(message))) line += " BODY=8BITMIME";
    if (envelope.utf8) line += " SMTPUTF8";
    return `${line}\r\n`;
  }

  #onAnswer(code: number, wire: string): void {
    this.#awaitFor(this.#patience.commandMs);
    switch (this.#awaited) {
      case null:
        this.#onUnasked(code, wire);
        return;
      case "rset":
        this.#onRset(code, wire);
        return;
      case "mail":
        this.#onMail(code, wire);
        return;
      case "rcpt":
        this.#onRcpt(code, wire);
        return;
      case "data":
        this.#onData(code, wire);
        return;
      case "dot":
        this.#onDot(code, wire);
        return;
    }
  }

  /** An idle peer speaks only to say that it closes. */
  #onUnasked(code: number, wire: string): void {
    const asked = this.#asked;
    this.#asked = null;
    if (asked) {
      asked({ code, wire });
    } else {
      this.#end(this.#isReady ? this.#said("session", code, wire) : this.#garbled(wire));
    }
  }

  #onRset(code: number, wire: string): void {
    if (code !== 250) {
      this.#end(this.#said("mail", code, wire));
      return;
    }
    this.#awaited = "mail";
    if (!this.#extensions.pipelining) this.#write(this.#mailLine(this.#delivery as Delivery));
  }

  #onMail(code: number, wire: string): void {
    if (isAccepted(code)) {
      this.#awaited = "rcpt";
      this.#phase = "rcpt";
      if (!this.#extensions.pipelining) this.#write(rcptLine(this.#recipient(0)));
    } else if (isRefused(code)) {
      const reply = this.#said("mail", code, wire);
      if (code === 421) {
        this.#end(reply);
        return;
      }
      this.#replies.fill(reply);
      this.#mustReset = true;
      if (!this.#extensions.pipelining) this.#finish();
      else this.#awaited = "rcpt"; // the answers to the rest of the group are still to come
    } else {
      this.#end(this.#garbled(wire));
    }
  }

  #onRcpt(code: number, wire: string): void {
    const n = this.#answered++;
    if (isAccepted(code)) {
      this.#accepted++;
    } else if (isRefused(code)) {
      const reply = this.#said("rcpt", code, wire);
      if (code === 421) {
        this.#end(reply);
        return;
      }
      this.#replies[n] ??= reply;
    } else {
      this.#end(this.#garbled(wire));
      return;
    }
    if (this.#answered < this.#replies.length) {
      if (!this.#extensions.pipelining) this.#write(rcptLine(this.#recipient(n + 1)));
      return;
    }
    if (this.#extensions.pipelining) {
      this.#awaitData();
    } else if (this.#accepted > 0) {
      this.#awaitData();
      this.#write("DATA\r\n");
    } else {
      this.#mustReset = true;
      this.#finish();
    }
  }

  #awaitData(): void {
    this.#awaited = "data";
    this.#phase = "data";
  }

  #onData(code: number, wire: string): void {
    const isWanted = this.#replies.includes(null);
    if (code === 354) {
      // the peer asks for a message without accepted recipients or sender: ours must not be sent
      if (!isWanted) this.#end(this.#garbled(wire));
      // it answers a message that it cannot have: that stays here, and its answer delivers nothing
      else if (this.#isMoreRead) this.#awaited = "dot";
      else this.#depart();
    } else if (isRefused(code)) {
      const reply = this.#said("data", code, wire);
      if (code === 421) {
        this.#end(reply);
        return;
      }
      this.#fill(reply);
      this.#mustReset = true;
      this.#finish();
    } else {
      this.#end(this.#garbled(wire));
    }
  }

  /** The message leaves, and with it what is chained to it. From here on it may be delivered. */
  #depart(): void {
    const delivery = this.#delivery as Delivery;
    if (!delivery.permit.mayBegin()) {
      this.#end(troubleOf("session", "WITHDRAWN", "taken back before it was sent"));
      return;
    }
    const message = toWire(delivery.message);
    this.#awaited = "dot";
    this.#dotAt = this.#awaitFor(this.#patience.dotMs);
    this.#beforeDataUntil = Number.POSITIVE_INFINITY;
    if (message.length > CHAIN_MESSAGE_BYTES_MAX) {
      this.#unsent = message;
      this.#uploadUntil = this.#deadline + message.length / UPLOAD_BYTES_PER_MS_MIN;
      this.#pump();
      return;
    }
    this.#phase = "dot";
    if (this.#extensions.pipelining && this.#dotTookMs <= CHAIN_DOT_MS_MAX && !this.#isLast)
      this.#chained = this.#dispatcher.onLeaving(this);
    const rest = this.#chained ? DOT_LINE + this.#opener(this.#chained) : DOT_LINE;
    this.#write(joined(message, rest, this.#chained?.envelope.utf8 ? "utf8" : "latin1"));
  }

  /**
   * A large message goes piece by piece, so that a receiver that takes it slowly is told from one that is
   * gone.
   */
  #pump(): void {
    let rest = this.#unsent;
    while (rest !== null) {
      const piece = rest.subarray(0, PIECE_BYTES);
      rest = rest.length > PIECE_BYTES ? rest.subarray(PIECE_BYTES) : null;
      this.#unsent = rest;
      if (this.#socket.write(piece)) continue;
      this.#awaitFor(this.#patience.dotMs);
      this.#deadline = Math.min(this.#deadline, this.#uploadUntil);
      this.#socket.once("drain", () => this.#pump());
      return;
    }
    this.#phase = "dot";
    this.#write(DOT_LINE);
  }

  #onDot(code: number, wire: string): void {
    if (code === 421 || this.#phase !== "dot" || !(isAccepted(code) || isRefused(code))) {
      // about to close, or answered before the whole had left
      this.#end(isRefused(code) ? this.#said(this.#phase, code, wire) : this.#garbled(wire));
      return;
    }
    this.#dotTookMs = this.#dispatcher.now() - this.#dotAt;
    this.#fill(this.#said("dot", code, wire));
    this.#finish();
  }

  /** Settles the delivery; what was chained to it is on its way already. */
  #finish(): void {
    const delivery = this.#delivery as Delivery;
    const replies = this.#replies as Reply[];
    const chained = this.#chained;
    this.#delivery = null;
    this.#awaited = null;
    this.#chained = null;
    this.#awaitNothing();
    if (chained) this.#begin(chained);
    delivery.settle(replies);
    if (chained || this.#isOver) return;
    if (this.#owesMessage) this.#end(null);
    else if (this.#isLast) this.#leave();
    else this.#dispatcher.onReady(this);
  }

  /** The same reply for all recipients that have none yet. */
  #fill(reply: Reply): void {
    for (let n = 0; n < this.#replies.length; n++) this.#replies[n] ??= reply;
  }

  #recipient(n: number): string {
    return (this.#delivery as Delivery).envelope.to[n] as string;
  }

  // ---- ending

  #leave(): void {
    this.#write("QUIT\r\n");
    this.#end(null);
  }

  /**
   * Every end passes here. The present delivery gets `reason` as its reply, unless nothing of it was sent
   * yet.
   */
  #end(reason: Reply | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#awaitNothing();
    this.#close(reason === null || reason.code === 421);
    const delivery = this.#delivery;
    const chained = this.#chained;
    this.#delivery = null;
    this.#chained = null;
    this.#dispatcher.onOver(this, this.#isReady ? null : reason);
    if (reason === null) return;
    if (delivery && this.#isUntouched()) {
      this.#dispatcher.onReturn(delivery, reason);
    } else if (delivery) {
      this.#fill(reason);
      delivery.settle(this.#replies as Reply[]);
    }
    if (chained) this.#dispatcher.onReturn(chained, reason);
  }

  /** A reused connection that broke before its first reply about this delivery was stale. */
  #isUntouched(): boolean {
    return this.carried > 1 && (this.#awaited === "mail" || this.#awaited === "rset");
  }

  #close(isPolite: boolean): void {
    const socket = this.#socket;
    if (!isPolite) {
      socket.destroy();
      return;
    }
    socket.end();
    const timer = setTimeout(() => socket.destroy(), FAREWELL_MS);
    socket.once("close", () => clearTimeout(timer));
  }

  #said(phase: Phase, code: number, wire: string): Reply {
    return replyOf(phase, code, wire, this.#via, this.#dispatcher.now() - this.#begunAt);
  }

  #trouble(error: Trouble | (string & {}), text: string): Reply {
    const { host, address, port } = this.peer;
    const where = address === undefined ? host : `${host}[${address}]`;
    const words = `${where}:${port}: ${text}, awaiting ${AWAITING[this.#phase]}${this.#required}`;
    const tookMs = this.#dispatcher.now() - this.#begunAt;
    return { ...troubleOf(this.#phase, error, words), via: this.#via, tookMs };
  }

  /** Of the handshake, by our own judgement. */
  #about(error: Trouble, text: string): Reply {
    const tookMs = this.#dispatcher.now() - this.#begunAt;
    return { ...troubleOf("tls", error, `${text}${this.#required}`), via: this.#via, tookMs };
  }

  /** Why a failed handshake keeps the mail back. */
  get #required(): string {
    const { need } = this.peer;
    return requiresTls(need) && this.#phase === "tls" ? ` (${REQUIRED_BY[need.by]})` : "";
  }

  #garbled(wire: string): Reply {
    return this.#trouble("GARBLED", `not an answer: ${JSON.stringify(wire.slice(0, GARBLED_CHARS_MAX))}`);
  }

  #systemTrouble(error: NodeJS.ErrnoException): Reply {
    // the attempts at several addresses come as one error without words
    const words = error instanceof AggregateError ? error.errors.map(String).join("; ") : error.message;
    return this.#trouble(error.code ?? error.name, words);
  }

  // ---- the wire

  /** Only for the present socket: after STARTTLS, events of the plain one under it are ignored. */
  #listen(): void {
    const socket = this.#socket;
    const lose = (reply: () => Reply): void => {
      if (socket === this.#socket && !this.#isOver) this.#end(reply());
    };
    const closed = (): Reply => this.#trouble("ECONNRESET", "closed by the other side");
    socket.on("error", (error) => lose(() => this.#systemTrouble(error)));
    socket.on("end", () => lose(closed));
    socket.on("close", () => lose(closed));
  }

  /**
   * What is read before TLS, or without: a buffer for each read of some ten bytes would cost more than the
   * read.
   */
  #intoOneBuffer(): OnReadOpts {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    return {
      buffer,
      callback: (length) => {
        this.#read(buffer.toString("latin1", 0, length));
        return true;
      },
    };
  }

  #write(bytes: string | Buffer): void {
    if (this.#dispatcher.onWire) this.#tellOurs(bytes);
    this.#socket.write(bytes);
  }

  #tellOurs(bytes: string | Buffer): void {
    if (typeof bytes !== "string")
      this.#dispatcher.onWire?.(true, `(${bytes.length} bytes: the message and its final dot)`);
    else if (this.#phase === "auth")
      this.#dispatcher.onWire?.(true, bytes.startsWith("AUTH") ? "AUTH ..." : "...");
    else for (const line of bytes.trimEnd().split("\r\n")) this.#dispatcher.onWire?.(true, line);
  }

  /** Latin-1 keeps every byte as it is; `replyOf` decodes what is shown. */
  #read(text: string): void {
    // what comes behind its end would be kept for nobody
    if (this.#isOver) return;
    this.#input = this.#input === "" ? text : this.#input + text;
    let start = 0;
    while (!this.#isOver) {
      const end = this.#input.indexOf("\n", start);
      if (end < 0) break;
      const isCrLf = this.#input.charCodeAt(end - 1) === CR;
      const line = this.#input.slice(start, isCrLf ? end - 1 : end);
      start = end + 1;
      this.#isMoreRead = start < this.#input.length;
      this.#readLine(line);
    }
    this.#input = this.#input.slice(start);
    if (this.#input.length + this.#reply.length > REPLY_CHARS_MAX)
      this.#end(this.#garbled(this.#reply + this.#input));
  }

  #readLine(line: string): void {
    this.#dispatcher.onWire?.(false, line);
    const code = codeOf(line);
    const mark = line.charCodeAt(3);
    if (code === 0 || !(line.length === 3 || mark === SPACE || mark === HYPHEN)) {
      this.#end(this.#garbled(line));
    } else if (mark === HYPHEN) {
      this.#reply += `${line}\n`;
    } else {
      const wire = this.#reply + line;
      this.#reply = "";
      this.#onAnswer(code, wire);
    }
  }
}

const CR = 0x0d;
const SPACE = 0x20;
const HYPHEN = 0x2d;
const ZERO = 0x30;

/** 200 to 599, or 0. */
function codeOf(line: string): number {
  const a = line.charCodeAt(0) - ZERO;
  const b = line.charCodeAt(1) - ZERO;
  const c = line.charCodeAt(2) - ZERO;
  const isCode = a >= 2 && a <= 5 && b >= 0 && b <= 9 && c >= 0 && c <= 9;
  return isCode ? 100 * a + 10 * b + c : 0;
}

function isAccepted(code: number): boolean {
  return code < 300;
}

function isRefused(code: number): boolean {
  return code >= 400;
}

function rcptLine(address: string): string {
  return `RCPT TO:<${address}>\r\n`;
}

function readExtensions(wire: string): Extensions {
  const auth = new Set<string>();
  const found: Extensions = { ...NO_EXTENSIONS, auth };
  for (const line of wire.split("\n").slice(1)) {
    const [keyword, ...parameters] = line
      .slice(4)
      .trim()
      .toUpperCase()
      .split(/[\s=]+/);
    if (keyword === "PIPELINING") found.pipelining = true;
    else if (keyword === "8BITMIME") found.eightBitMime = true;
    else if (keyword === "SMTPUTF8") found.smtpUtf8 = true;
    else if (keyword === "STARTTLS") found.startTls = true;
    else if (keyword === "AUTH") for (const one of parameters) auth.add(one);
    else if (keyword === "SIZE") {
      found.size = true;
      // zero, like what is no number: there is no fixed maximum
      found.sizeBytesMax =
        (/^\d+$/.test(parameters[0] ?? "") && Number(parameters[0])) || Number.POSITIVE_INFINITY;
    }
  }
  return found;
}

/** Loopback in any of its names. */
export function isThisMachine(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

function joined(message: Buffer, text: string, encoding: "utf8" | "latin1"): Buffer {
  const whole = Buffer.allocUnsafe(message.length + Buffer.byteLength(text, encoding));
  whole.set(message);
  whole.write(text, message.length, encoding);
  return whole;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
