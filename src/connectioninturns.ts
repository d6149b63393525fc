/**
 * A connection whose other side is one of thousands that may all speak at once. What has come is handed on in
 * pieces, each when its turn has come: what HTTP or a handshake of TLS makes of it is work of that turn. It
 * stands where Node expects the socket itself. `arrival`: something has come, and waits to be asked for.
 */
import { connect, Socket, type TcpNetConnectOpts } from "node:net";
import { Duplex } from "node:stream";
import { turnIfLate } from "./turn.ts";

/** Of HTTP in crumbs up to 3 ms of work. */
const PIECE_BYTES = 4 * 1024;

export class ConnectionInTurns extends Duplex {
  readonly #socket: Socket;
  /** Of what has come, and waits for its turn. null: the end. */
  readonly #waiting: (Buffer | null)[] = [];
  /** Somebody wants more. */
  #isAsked = false;
  #isHandingOn = false;
  #failure: Error | null = null;

  /** Of a connection opened here no more than a piece is taken from the system: they are thousands. */
  constructor(of: Socket | TcpNetConnectOpts) {
    super({ allowHalfOpen: false });
    const socket = of instanceof Socket ? of : connect({ ...of, onread: this.#inSmallReads() });
    this.#socket = socket;
    // what came before its end is answered, which may wait for a turn
    socket.allowHalfOpen = true;
    socket.on("data", (chunk: Buffer) => this.#came(chunk));
    socket.on("end", () => {
      this.#waiting.push(null);
      void this.#handOn();
    });
    socket.on("error", (error) => {
      this.#failure = error;
      void this.#handOn();
    });
    socket.on("connect", () => this.emit("connect"));
    socket.on("timeout", () => this.emit("timeout"));
  }

  #inSmallReads() {
    const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES);
    const callback = (bytes: number): boolean => {
      this.#came(Buffer.from(buffer.subarray(0, bytes)));
      return true;
    };
    return { buffer, callback };
  }

  #came(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; from += PIECE_BYTES)
      this.#waiting.push(chunk.subarray(from, from + PIECE_BYTES));
    this.emit("arrival");
    void this.#handOn();
  }

  get connecting(): boolean {
    return this.#socket.connecting;
  }

  get timeout(): number | undefined {
    return this.#socket.timeout;
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    this.#socket.setTimeout(ms);
    if (onTimeout && ms === 0) this.off("timeout", onTimeout);
    else if (onTimeout) this.once("timeout", onTimeout);
    return this;
  }

  setNoDelay(isOn?: boolean): this {
    this.#socket.setNoDelay(isOn);
    return this;
  }

  setKeepAlive(isOn?: boolean, firstMs?: number): this {
    this.#socket.setKeepAlive(isOn, firstMs);
    return this;
  }

  ref(): this {
    this.#socket.ref();
    return this;
  }

  unref(): this {
    this.#socket.unref();
    return this;
  }

  /** Asked for by Node where a connection is not used again: without it, it would be left half open. */
  destroySoon(): void {
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy()).end();
  }

  override _read(): void {
    this.#isAsked = true;
    if (this.#waiting.length === 0) this.#socket.resume();
    // what is pushed while Node asks for it would be read later, in the turn of another
    else queueMicrotask(() => this.#handOn());
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    // of a connection that was reset, which is known before that had its turn
    this.#socket.write(chunk, (error) => done(error && (this.#socket.errored ?? error)));
  }

  override _final(done: () => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  async #handOn(): Promise<void> {
    if (this.#isHandingOn) return;
    this.#isHandingOn = true;
    while (this.#isDue()) {
      const late = turnIfLate();
      if (late) {
        this.#socket.pause();
        await late;
      }
      if (this.#isDue()) this.#handOnNext();
    }
    this.#isHandingOn = false;
    if (this.#waiting.length > 0) this.#socket.pause();
    else if (this.#isAsked) this.#socket.resume();
  }

  #isDue(): boolean {
    if (this.destroyed) return false;
    const [first] = this.#waiting;
    return first === null || this.#failure !== null || (this.#isAsked && first !== undefined);
  }

  #handOnNext(): void {
    const [first] = this.#waiting;
    if (first === undefined || (first !== null && !this.#isAsked)) {
      this.destroy(this.#failure as Error);
      return;
    }
    this.#waiting.shift();
    this.#isAsked = false;
    if (this.push(first)) this.#isAsked = true;
    // of a connection that nobody uses, nobody asks for more
    if (first === null) this.read(0);
  }
}
