/**
 * A Sentinel of the test: it tells who the master is when the test lets it, and names another one when told
 * to.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { bulk, onCommand } from "./resp.ts";

export class SayingSentinel {
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();
  readonly #listeners = new Set<Socket>();
  /** Answers that wait; null: none has to. */
  #heldBack: (() => void)[] | null = null;
  #onChange = () => {};
  readonly master: string;

  private constructor(masterPort: number) {
    this.master = String(masterPort);
  }

  static async open(masterPort: number): Promise<SayingSentinel> {
    const sentinel = new SayingSentinel(masterPort);
    await once(sentinel.#server.listen(0, "127.0.0.1"), "listening");
    return sentinel;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves when somebody wants to hear of another master. */
  async isListenedTo(): Promise<void> {
    await this.#until(() => this.#listeners.size > 0);
  }

  holdBack(): void {
    this.#heldBack = [];
  }

  /** Resolves when somebody waits for the answer. */
  async isAsked(): Promise<void> {
    await this.#until(() => (this.#heldBack?.length ?? 0) > 0);
  }

  /** Tells all who listen that there is another master; resolves when nobody listens any more. */
  async nameAnother(): Promise<void> {
    const told = bulk("message", "+switch-master", `shop 127.0.0.1 1 127.0.0.1 ${this.master}`);
    for (const listener of this.#listeners) listener.write(told);
    await this.#until(() => this.#listeners.size === 0);
  }

  answer(): void {
    const waiting = this.#heldBack ?? [];
    this.#heldBack = null;
    for (const answer of waiting) answer();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds())
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#sockets.delete(socket);
      this.#listeners.delete(socket);
      this.#onChange();
    });
    onCommand(socket, (command) => this.#obey(socket, command));
  }

  #obey(socket: Socket, command: string): void {
    const answer = () => void socket.write(bulk("127.0.0.1", this.master));
    if (command.includes("subscribe")) {
      socket.write("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
      this.#listeners.add(socket);
    } else if (command.includes("get-master-addr-by-name")) {
      if (this.#heldBack) this.#heldBack.push(answer);
      else answer();
    } else socket.write(command.includes("sentinels") ? "*0\r\n" : "+OK\r\n");
    this.#onChange();
  }
}
