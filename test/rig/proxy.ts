/**
 * A TCP or unix socket proxy that makes the network bad on command: slow, silent, cut, half-open, or with an
 * answer lost on the way. Everything can be changed while bytes flow. What waits for its moment hands out a
 * promise that resolves when it has happened.
 *
 * Bytes keep their order whatever the latency does. A stalled proxy stops reading, so that senders feel it.
 */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { listenOn } from "./port.ts";

export type Address = { port: number; host?: string } | { path: string };
/** `request` bytes go to the target, `reply` bytes come back. */
export type Direction = "request" | "reply";

type Ambush = {
  for: "cut reply" | "lose reply" | "replace reply" | "stall request" | "stall reply";
  /** What the client hears instead. */
  lastWords?: Buffer;
  /** Of a request; of the reply itself when one is to be lost. */
  isMeant: (bytes: Buffer) => boolean;
  done: () => void;
};
type Allowance = { direction: Direction; bytesLeft: number; spent: () => void };

const HELD_BYTES_MAX = 1024 * 1024;

/** Listens at `at`, or else on a port of its own, and passes everything on to `target`. */
export async function openProxy(target: Address, at?: { path: string }): Promise<TcpProxy> {
  const proxy = new TcpProxy(target, at?.path ?? null);
  await proxy.up();
  return proxy;
}

export class TcpProxy {
  /** How long each byte is under way, in either direction. */
  latencyMs = 0;
  /** How many connections there have been. */
  connections = 0;
  /** Read by the links; set by the methods below. */
  isStalled = false;
  ambush: Ambush | null = null;
  allowance: Allowance | null = null;
  #target: Address;
  readonly #path: string | null;
  #port: number | undefined;
  #server: Server | null = null;
  readonly #links = new Set<Link>();

  constructor(target: Address, path: string | null) {
    this.#target = target;
    this.#path = path;
  }

  get port(): number {
    if (this.#port === undefined) throw new Error("this proxy listens at a path, not on a port");
    return this.#port;
  }

  get openConnections(): number {
    return this.#links.size;
  }

  /** Connections that are made from now on go there. */
  lead(target: Address): void {
    this.#target = target;
  }

  /** Everything stays open, new connections included, and nothing passes. */
  stall(): void {
    this.isStalled = true;
  }

  flow(): void {
    this.isStalled = false;
    for (const link of this.#links) link.pump();
  }

  /** Resets every connection, on both sides. */
  cut(): void {
    for (const link of this.#links) link.cut();
  }

  /**
   * The target vanishes from every connection and the clients are not told. New connections are not affected.
   * The answer resets what was left half open, as a client's own system does when its patience ends.
   */
  halfOpen(): () => void {
    const abandoned = [...this.#links];
    for (const link of abandoned) link.abandon();
    return () => {
      for (const link of abandoned) link.cut();
    };
  }

  /**
   * Lets exactly so many more bytes pass, over all connections, and breaks the connection that has the next.
   */
  cutAfter(direction: Direction, bytes: number): Promise<void> {
    return new Promise((spent) => {
      this.allowance = { direction, bytesLeft: bytes, spent };
    });
  }

  /**
   * Passes the next request (of those meant) on, and resets the client instead of passing the answer. The
   * target has finished and hung up when this resolves: what was asked for has been done.
   */
  cutReply(isMeant?: (request: Buffer) => boolean): Promise<void> {
    return this.#lieInWait("cut reply", isMeant);
  }

  /** Resets the client instead of passing the next reply (of those meant): what it says has been done. */
  loseReply(isMeant: (reply: Buffer) => boolean): Promise<void> {
    return this.#lieInWait("lose reply", isMeant);
  }

  /** As `cutReply`, but the client hears this instead of the answer, and then the end of the connection. */
  replaceReply(lastWords: Buffer, isMeant?: (request: Buffer) => boolean): Promise<void> {
    return this.#lieInWait("replace reply", isMeant, lastWords);
  }

  /** Stalls everything just before the next request (of those meant) passes. */
  stallRequest(isMeant?: (request: Buffer) => boolean): Promise<void> {
    return this.#lieInWait("stall request", isMeant);
  }

  /** Stalls everything when the next request (of those meant) has been answered, and holds that answer. */
  stallReply(isMeant?: (request: Buffer) => boolean): Promise<void> {
    return this.#lieInWait("stall reply", isMeant);
  }

  async up(): Promise<void> {
    if (this.#server) return;
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#welcome(client));
    this.#server = server;
    if (this.#path === null) {
      this.#port = await listenOn(server, this.#port);
    } else {
      server.listen(this.#path);
      await once(server, "listening");
    }
  }

  /** Refuses connections and resets those there are. */
  async down(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    this.cut();
    await new Promise((resolve) => server.close(resolve));
  }

  close(): Promise<void> {
    return this.down();
  }

  #lieInWait(
    what: Ambush["for"],
    isMeant: Ambush["isMeant"] = () => true,
    lastWords?: Buffer,
  ): Promise<void> {
    if (this.ambush) throw new Error(`this proxy already waits to ${this.ambush.for}`);
    return new Promise((done) => {
      this.ambush = { for: what, isMeant, done, ...(lastWords && { lastWords }) };
    });
  }

  #welcome(client: Socket): void {
    this.connections++;
    const link = new Link(this, client, connect({ ...this.#target, allowHalfOpen: true, noDelay: true }));
    this.#links.add(link);
    client.once("close", () => this.#links.delete(link));
  }
}

/** A client and its connection to the target, with a flow each way. */
class Link {
  readonly #proxy: TcpProxy;
  readonly #client: Socket;
  readonly #target: Socket;
  readonly #requests: Flow;
  readonly #replies: Flow;
  /** The request that was meant has passed on this link: its answer is what the ambush is for. */
  #ambushed: Ambush | null = null;
  /** The client is gone, but the target is let finish what it was asked for. */
  #isLastWish = false;

  constructor(proxy: TcpProxy, client: Socket, target: Socket) {
    this.#proxy = proxy;
    this.#client = client;
    this.#target = target;
    this.#requests = new Flow(proxy, client, target, (chunk) => this.#onRequest(chunk));
    this.#replies = new Flow(proxy, target, client, (chunk) => this.#onReply(chunk));
    const isBroken = () => this.cut();
    client.on("error", isBroken);
    target.on("error", isBroken);
    client.once("close", () => {
      if (!this.#isLastWish) target.destroy();
    });
  }

  pump(): void {
    this.#requests.pump();
    this.#replies.pump();
  }

  cut(): void {
    reset(this.#client);
    reset(this.#target);
  }

  abandon(): void {
    this.#requests.divert();
    this.#replies.divert();
    this.#target.destroy();
    this.#client.once("end", () => this.#client.destroy());
  }

  #onRequest(chunk: Buffer): boolean {
    const { ambush } = this.#proxy;
    if (ambush && ambush.for !== "lose reply" && ambush.isMeant(chunk)) {
      this.#proxy.ambush = null;
      if (ambush.for === "stall request") {
        this.#proxy.stall();
        ambush.done();
        return false;
      }
      this.#ambushed = ambush;
    }
    return this.#isAllowed("request", chunk, this.#target);
  }

  #onReply(chunk: Buffer): boolean {
    const ambush = this.#ambushed ?? this.#replyToLose(chunk);
    if (!ambush) return this.#isAllowed("reply", chunk, this.#client);
    this.#ambushed = null;
    if (ambush.for === "stall reply") {
      this.#proxy.stall();
      ambush.done();
    } else {
      this.#loseReplies(ambush);
    }
    return false;
  }

  #replyToLose(chunk: Buffer): Ambush | null {
    const { ambush } = this.#proxy;
    if (ambush?.for !== "lose reply" || !ambush.isMeant(chunk)) return null;
    this.#proxy.ambush = null;
    return ambush;
  }

  /**
   * Several requests may be under way, and this answer not the one that was meant: the target finishes them
   * all.
   */
  #loseReplies({ done, lastWords }: Ambush): void {
    this.#isLastWish = true;
    this.#requests.divert();
    this.#replies.divert();
    if (lastWords) this.#client.end(lastWords);
    else reset(this.#client);
    this.#target.end();
    this.#target.once("close", done);
  }

  #isAllowed(direction: Direction, chunk: Buffer, to: Socket): boolean {
    const { allowance } = this.#proxy;
    if (allowance?.direction !== direction) return true;
    allowance.bytesLeft -= chunk.length;
    if (allowance.bytesLeft >= 0) return true;
    this.#proxy.allowance = null;
    this.#requests.divert();
    this.#replies.divert();
    // an end, not a reset: a reset could overtake the bytes that were still allowed
    to.end(chunk.subarray(0, chunk.length + allowance.bytesLeft), () => {
      this.#client.destroy();
      this.#target.destroy();
      allowance.spent();
    });
    return false;
  }
}

/**
 * One direction of a link: bytes in order, none earlier than the latency allows. A `null` is the end of the
 * stream.
 */
class Flow {
  readonly #proxy: TcpProxy;
  readonly #from: Socket;
  readonly #to: Socket;
  /** Whether the chunk may pass now; if not it stays where it is. */
  readonly #mayPass: (chunk: Buffer) => boolean;
  #held: { chunk: Buffer | null; dueAt: number }[] = [];
  #heldBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #isDiverted = false;

  constructor(proxy: TcpProxy, from: Socket, to: Socket, mayPass: (chunk: Buffer) => boolean) {
    this.#proxy = proxy;
    this.#from = from;
    this.#to = to;
    this.#mayPass = mayPass;
    from.on("data", (chunk) => this.#hold(chunk));
    from.once("end", () => this.#hold(null));
    from.once("close", () => clearTimeout(this.#timer));
    to.on("drain", () => this.pump());
  }

  /** From now on nothing passes and whatever arrives is swallowed. */
  divert(): void {
    this.#isDiverted = true;
    this.#held = [];
    this.#heldBytes = 0;
    this.#from.resume();
  }

  pump(): void {
    clearTimeout(this.#timer);
    if (this.#isDiverted) return;
    while (!this.#proxy.isStalled && !this.#to.writableNeedDrain) {
      const first = this.#held[0];
      if (!first) break;
      const waitMs = first.dueAt - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.pump(), waitMs);
        break;
      }
      if (first.chunk && !this.#mayPass(first.chunk)) break;
      this.#held.shift();
      this.#heldBytes -= first.chunk?.length ?? 0;
      if (first.chunk) this.#to.write(first.chunk);
      else this.#to.end();
    }
    if (this.#heldBytes >= HELD_BYTES_MAX || this.#proxy.isStalled) this.#from.pause();
    else this.#from.resume();
  }

  #hold(chunk: Buffer | null): void {
    if (this.#isDiverted) return;
    this.#held.push({ chunk, dueAt: performance.now() + this.#proxy.latencyMs });
    this.#heldBytes += chunk?.length ?? 0;
    this.pump();
  }
}

/** Unix sockets, and those not yet connected, know no reset. */
function reset(socket: Socket): void {
  if ("port" in socket.address()) socket.resetAndDestroy();
  else socket.destroy();
}
