/**
 * An SMTP server for tests whose behaviour the recipient's address chooses (manner.ts says how), with a
 * ledger of everything it took. It can be taken down and brought up again under the same port. What it
 * decides for a recipient and a message stands here; how it talks stands in conversation.ts.
 */
import { createServer, type Server, type Socket } from "node:net";
import { Conversation } from "./conversation.ts";
import { Ledger } from "./ledger.ts";
import { type Manner, mannerOf, replyText } from "./manner.ts";
import { listenOn } from "./port.ts";

/**
 * Trouble for everybody, whatever the address says: drawn by a seeded generator, and changeable while mail
 * flows.
 */
export type Weather = {
  /** 554 instead of 220, 421 to EHLO, and so on. */
  greetingCode: number | null;
  heloCode: number | null;
  /** Of the recipients. */
  deferPercent: number;
  refusePercent: number;
  /** Of the messages: the connection breaks in DATA, or when everything is there but before the answer. */
  dropInDataPercent: number;
  dropAfterDataPercent: number;
  /** Before each answer to a final dot. */
  dotDelayMs: number;
};

export type SinkOptions = {
  keepRaw?: boolean;
  pipelining?: boolean;
  seed?: number;
  /** Where it listens; without a port, at a free one. */
  host?: string;
  port?: number;
  now?: () => number;
};

export const FAIR: Weather = {
  greetingCode: null,
  heloCode: null,
  deferPercent: 0,
  refusePercent: 0,
  dropInDataPercent: 0,
  dropAfterDataPercent: 0,
  dotDelayMs: 0,
};

export async function openSink(options: SinkOptions = {}): Promise<Sink> {
  const sink = new Sink(options);
  await sink.up();
  return sink;
}

export class Sink {
  readonly ledger = new Ledger();
  readonly options: Required<Omit<SinkOptions, "port">>;
  weather: Readonly<Weather> = FAIR;
  /** How many connections there have been. */
  connections = 0;
  #server: Server | null = null;
  #port: number | undefined;
  readonly #open = new Set<Socket>();
  readonly #metOnce = new Set<string>();
  /** Answers to final dots that are still to come. */
  readonly #late = new Map<NodeJS.Timeout, { client: Socket; answer(): void }>();
  readonly #draw: () => number;

  constructor(options: SinkOptions) {
    const { port, ...others } = options;
    this.#port = port;
    this.options = {
      keepRaw: false,
      pipelining: true,
      seed: 1,
      host: "127.0.0.1",
      now: Date.now,
      ...others,
    };
    this.#draw = seededDraw(this.options.seed);
  }

  get port(): number {
    if (this.#port === undefined) throw new Error("the sink was never up");
    return this.#port;
  }

  get url(): string {
    return `smtp://${this.options.host}:${this.port}`;
  }

  get openConnections(): number {
    return this.#open.size;
  }

  /** Changes the weather in the respects that are named. */
  turn(weather: Partial<Weather>): void {
    this.weather = { ...this.weather, ...weather };
  }

  clearUp(): void {
    this.weather = FAIR;
  }

  answerLater(client: Socket, delayMs: number, answer: () => void): void {
    const timer = setTimeout(() => {
      this.#late.delete(timer);
      answer();
    }, delayMs);
    this.#late.set(timer, { client, answer });
  }

  /** Every client that waits for the answer to its final dot has it now. */
  answerNow(): void {
    for (const [timer, { client, answer }] of [...this.#late]) {
      if (client.destroyed) continue;
      clearTimeout(timer);
      this.#late.delete(timer);
      answer();
    }
  }

  async up(): Promise<void> {
    if (this.#server) return;
    this.#server = createServer({ noDelay: true }, (socket) => {
      this.#open.add(socket);
      socket.on("close", () => this.#open.delete(socket));
      new Conversation(this, socket, ++this.connections);
    });
    this.#port = await listenOn(this.#server, this.#port, this.options.host);
  }

  /** Stops listening and breaks every connection. */
  async down(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    this.breakConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  close(): Promise<void> {
    return this.down();
  }

  breakConnections(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /** What a recipient is in for now: its address first, then the weather. */
  mannerOf(recipient: string): Manner {
    const manner = mannerOf(recipient);
    if (manner.kind === "reply to rcpt once") {
      const isFirst = !this.#metOnce.has(recipient);
      this.#metOnce.add(recipient);
      return isFirst ? { kind: "reply to rcpt", reply: manner.reply } : { kind: "accept" };
    }
    if (manner.kind !== "accept") return manner;
    const { deferPercent, refusePercent } = this.weather;
    if (deferPercent + refusePercent === 0) return manner;
    const drawn = this.#draw() * 100;
    if (drawn < deferPercent) return { kind: "reply to rcpt", reply: replyText(451) };
    if (drawn < deferPercent + refusePercent) return { kind: "reply to rcpt", reply: replyText(550) };
    return manner;
  }

  /** What a message is in for that no recipient's address decided. */
  mannerOfMessage(): Manner {
    const { dropInDataPercent, dropAfterDataPercent, dotDelayMs } = this.weather;
    if (dropInDataPercent + dropAfterDataPercent > 0) {
      const drawn = this.#draw() * 100;
      if (drawn < dropInDataPercent) return { kind: "drop in data" };
      if (drawn < dropInDataPercent + dropAfterDataPercent) return { kind: "drop after data" };
    }
    return dotDelayMs > 0 ? { kind: "slow dot", delayMs: dotDelayMs } : { kind: "accept" };
  }
}

/** A small generator of numbers in [0, 1) by seed: the same weather for the same order of arrivals. */
function seededDraw(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
