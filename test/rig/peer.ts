/**
 * An SMTP server that says exactly what a test wrote down, line by line: for peers that misbehave in ways no
 * address can choose, and for the order in which things cross the wire. Also a relay that talks to it, under
 * a clock the test moves.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createSecureContext, type SecureContextOptions, TLSSocket } from "node:tls";
import { Relay } from "../../src/delivery/relay.ts";
import type { Peer as PeerOptions } from "../../src/smtp/conversation.ts";
import type { PoolLimits } from "../../src/smtp/pool.ts";
import { listenOn } from "./port.ts";
import { unshaped } from "./shaping.ts";

/** One connection, as the script sees it. */
export class Talk {
  /** Counted from 1. */
  readonly number: number;
  /** The address that the client connected from. */
  readonly from: string;
  /** Every line heard, bodies as one. */
  readonly heard: string[] = [];
  #socket: Socket;
  #input = "";
  #isGone = false;
  #waiting: (() => void)[] = [];

  constructor(socket: Socket, number: number) {
    this.#socket = socket;
    this.number = number;
    this.from = socket.remoteAddress ?? "";
    this.#listen();
  }

  say(...lines: string[]): void {
    this.#socket.write(lines.map((line) => `${line}\r\n`).join(""));
  }

  /** Bytes as they are. */
  mutter(bytes: string): void {
    this.#socket.write(bytes, "latin1");
  }

  /** The next line, which must begin so. */
  async hear(beginning: string): Promise<string> {
    const line = await this.#take("\r\n");
    this.heard.push(line);
    if (!line.startsWith(beginning)) throw new Error(`heard ${JSON.stringify(line)} instead of ${beginning}`);
    return line;
  }

  /** A message with its dots still doubled, without the final one. */
  async hearMessage(): Promise<string> {
    const message = await this.#take("\r\n.\r\n");
    this.heard.push("(message)");
    return `${message}\r\n`;
  }

  /** What has come but was not heard yet. */
  get unheard(): string {
    return this.#input;
  }

  /** The client's end of the connection. */
  async gone(): Promise<void> {
    while (!this.#isGone) await this.#more();
  }

  async hello(...extensions: string[]): Promise<void> {
    this.say("220 peer.test ESMTP");
    await this.hear("EHLO ");
    this.say(
      ...["peer.test", ...extensions].map((line, n) => `250${n < extensions.length ? "-" : " "}${line}`),
    );
  }

  /** Takes one mail to one recipient from a client that pipelines. */
  async takeMail(dotReply = "250 2.0.0 taken"): Promise<string> {
    await this.hearEnvelope();
    this.say("354 go on");
    const message = await this.hearMessage();
    this.say(dotReply);
    return message;
  }

  /** MAIL, RCPT and DATA, pipelined; the first two are accepted. */
  async hearEnvelope(): Promise<void> {
    await this.hear("MAIL FROM:");
    await this.hear("RCPT TO:");
    await this.hear("DATA");
    this.say("250 sender", "250 recipient");
  }

  secure(options: SecureContextOptions = { key: PRIVATE_KEY, cert: CERTIFICATE }): void {
    this.#socket.removeAllListeners("data");
    this.#socket = new TLSSocket(this.#socket, {
      isServer: true,
      secureContext: createSecureContext(options),
    });
    this.#listen();
  }

  /** Takes every mail over TLS. */
  async takeSecured(options: SecureContextOptions): Promise<void> {
    await this.offerTls();
    this.say("220 go on");
    this.secure(options);
    await this.hear("EHLO ");
    this.say("250-peer.test", "250 PIPELINING");
    for (;;) await this.takeMail();
  }

  async offerTls(): Promise<void> {
    await this.hello("PIPELINING", "STARTTLS");
    const line = await this.hear("");
    if (line !== "STARTTLS") throw new Error(`${line} in the open`);
  }

  hangUp(): void {
    this.#socket.end();
  }

  break(): void {
    this.#socket.destroy();
  }

  #listen(): void {
    const wake = (): void => {
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
    const leave = (): void => {
      this.#isGone = true;
      wake();
    };
    this.#socket.on("error", leave);
    this.#socket.on("close", leave);
    this.#socket.on("end", leave);
    this.#socket.on("data", (chunk) => {
      this.#input += chunk.toString("latin1");
      wake();
    });
  }

  async #take(end: string): Promise<string> {
    for (;;) {
      const at = this.#input.indexOf(end);
      if (at >= 0) {
        const text = this.#input.slice(0, at);
        this.#input = this.#input.slice(at + end.length);
        return text;
      }
      if (this.#isGone) throw new Gone();
      await this.#more();
    }
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}

/** The client left; a script that meets it is over. */
class Gone extends Error {}

export type Script = (talk: Talk) => Promise<void>;

export class ScriptedPeer {
  readonly talks: Talk[] = [];
  /** What went otherwise than written down. */
  readonly surprises: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;

  constructor(script: Script) {
    this.#server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket);
      const talk = new Talk(socket, this.talks.length + 1);
      this.talks.push(talk);
      script(talk).catch((error: unknown) => {
        if (!(error instanceof Gone)) this.surprises.push(`connection ${talk.number}: ${error}`);
        talk.break();
      });
    });
  }

  async open(port?: number, host?: string): Promise<void> {
    this.port = await listenOn(this.#server, port, host);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export async function openPeer(script: Script, port?: number, host?: string): Promise<ScriptedPeer> {
  const peer = new ScriptedPeer(script);
  await peer.open(port, host);
  return peer;
}

export const FLY_MS = 20_000;
export const FLY_EVERY_MS = 50;

export type RelayUnderTest = {
  relay: Relay;
  /** Moves the relay's clock. */
  pass(ms: number): void;
  /** Moves it on and on until this is settled: for waits whose beginning the test cannot see. */
  until<T>(settled: Promise<T>): Promise<T>;
  faults: unknown[];
};

export function relayTo(
  port: number,
  options: {
    pool?: number;
    peer?: Partial<PeerOptions>;
    limits?: Partial<PoolLimits>;
    ratePerSecond?: number;
    conversationRatePerSecond?: number;
    /** Whether only the test moves the relay's clock, so that no hold-up of the machine counts. */
    isTimeStill?: boolean;
  } = {},
): RelayUnderTest {
  let aheadMs = 0;
  const faults: unknown[] = [];
  const relay = new Relay({
    peer: {
      host: "127.0.0.1",
      port,
      tls: "opportunistic",
      verifyCertificate: true,
      ca: null,
      credentials: null,
      helo: "client.test",
      ...options.peer,
    },
    conversationsMax: options.pool ?? 1,
    shaping: unshaped(),
    ratePerSecond: options.ratePerSecond ?? 0,
    conversationRatePerSecond: options.conversationRatePerSecond ?? 0,
    now: () => (options.isTimeStill ? 0 : performance.now()) + aheadMs,
    onFault: (error) => faults.push(error),
    ...(options.limits && { limits: options.limits }),
  });
  const pass = (ms: number): void => {
    aheadMs += ms;
  };
  const until = <T>(settled: Promise<T>): Promise<T> => {
    const timer = setInterval(pass, FLY_EVERY_MS, FLY_MS);
    return settled.finally(() => clearInterval(timer));
  };
  return { relay, pass, until, faults };
}

export const ALWAYS = { mayBegin: () => true };

export function mailTo(to: string | string[], from = "sender@a.test") {
  return { from, to: [to].flat(), utf8: false };
}

/** For localhost, 127.0.0.1 and 0.0.0.0; its own authority; of no worth to anybody. */
export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBdjCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5wb3N0cmlk
ZXIgdGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGTEXMBUG
A1UEAwwOcG9zdHJpZGVyIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASv
b5XnWxb4W9SaNSjWzGDAnTqpjjMqo5+uebJz4hGMNH/Lu6gsX1HZFjb1wl6HtIYi
vNzhqVyApGek49ni+zcEo1QwUjAPBgNVHRMBAf8EBTADAQH/MCAGA1UdEQQZMBeC
CWxvY2FsaG9zdIcEfwAAAYcEAAAAADAdBgNVHQ4EFgQU61Y8LF/zSJfFvGSWh02R
3qc7n7owCgYIKoZIzj0EAwIDRwAwRAIgZWELVg4JQb320xyE/D/+vwMtxEijYDvV
8c9csagRbWcCIHLzRFWJYxNSqKG+dpKdGXAfDq1uIhNr3b+o3ZIIsjoO
-----END CERTIFICATE-----
`;
const PRIVATE_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglQNgBjzQntCyHY6l
Iowsc5SB42IHZki4YYPPAzJGA4ShRANCAASvb5XnWxb4W9SaNSjWzGDAnTqpjjMq
o5+uebJz4hGMNH/Lu6gsX1HZFjb1wl6HtIYivNzhqVyApGek49ni+zcE
-----END PRIVATE KEY-----
`;
