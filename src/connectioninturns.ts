/**
 * A connection that was opened to somebody who may answer on thousands of them at once. What has come is
 * taken from the system in pieces, and each is read when its turn has come: what HTTP or a handshake of TLS
 * makes of it is work of that turn. It stands where Node expects a socket of its own.
 */
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";
import { Duplex } from "node:stream";
import { turnIfLate } from "./turn.ts";

/** Of HTTP in crumbs up to 3 ms of work. */
const PIECE_BYTES = 4 * 1024;

export class ConnectionInTurns extends Duplex {
  readonly #socket: Socket;
  /** Of what has come, and waits for its turn. */
  #isRead: Promise<void> = Promise.resolve();

  constructor(options: TcpNetConnectOpts) {
    super({ allowHalfOpen: false });
    const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES);
    const take = (bytes: number): boolean => {
      const piece = Buffer.from(buffer.subarray(0, bytes));
      this.#inTurn(() => this.push(piece));
      // the system is asked for more when somebody has read this
      return false;
    };
    this.#socket = connect({ ...options, onread: { buffer, callback: take } });
    this.#socket.on("connect", () => this.emit("connect"));
    this.#socket.on("timeout", () => this.emit("timeout"));
    this.#socket.on("error", (error) => this.#inTurn(() => this.destroy(error)));
    this.#socket.on("end", () =>
      this.#inTurn(() => {
        this.push(null);
        // of a connection that nobody uses, nobody asks for more
        this.read(0);
      }),
    );
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
    this.#socket.resume();
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

  /** In the order in which it came. */
  #inTurn(read: () => void): void {
    const before = this.#isRead;
    this.#isRead = (async () => {
      await before;
      const late = turnIfLate();
      if (late) await late;
      if (!this.destroyed) read();
    })();
  }
}
