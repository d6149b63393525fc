/** Who may connect: so many at once, in all and from one address, over all the ports of one listener. */
import { createServer, type Server, type Socket } from "node:net";
import { ownerOf } from "../rules/visitor.ts";
import type { SmtpSession } from "./session.ts";

/** A refused connection is there for so long, if the other side does not close it. */
const REFUSED_MS = 1_000;

export type ListenerLimits = { connectionsMax: number; connectionsEachMax: number };

export type OpenSession = (socket: Socket, remote: string, onEnd: () => void) => SmtpSession;

export class SmtpListener {
  readonly #limits: ListenerLimits;
  readonly #onFault: (error: unknown) => void;
  readonly #servers: Server[] = [];
  readonly #sessions = new Set<SmtpSession>();
  readonly #perAddress = new Map<string, number>();

  constructor(limits: ListenerLimits, onFault: (error: unknown) => void) {
    this.#limits = limits;
    this.#onFault = onFault;
  }

  /** The port, when it listens. */
  async listen(host: string, port: number, open: OpenSession): Promise<number> {
    const server = createServer((socket) => this.#connected(socket, open));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host, port }, () => {
        server.off("error", reject);
        server.on("error", this.#onFault);
        resolve();
      });
    });
    this.#servers.push(server);
    const at = server.address();
    return typeof at === "object" && at !== null ? at.port : port;
  }

  /** Resolves when the last session is over. */
  async stop(): Promise<void> {
    const closed = this.#servers.map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    for (const session of [...this.#sessions]) session.finish("421 4.3.2 closing");
    await Promise.all(closed);
  }

  #connected(socket: Socket, open: OpenSession): void {
    const { connectionsMax, connectionsEachMax } = this.#limits;
    const remote = ownerOf(socket.remoteAddress ?? "");
    const others = this.#perAddress.get(remote) ?? 0;
    if (this.#sessions.size >= connectionsMax || others >= connectionsEachMax) {
      socket.on("error", () => {});
      // what it has sent is read, or its end would never come
      socket.resume().end("421 4.7.0 too many connections\r\n");
      setTimeout(() => socket.destroy(), REFUSED_MS).unref();
      return;
    }
    this.#perAddress.set(remote, others + 1);
    const session = open(socket, remote, () => {
      if (!this.#sessions.delete(session)) return;
      const left = (this.#perAddress.get(remote) ?? 1) - 1;
      if (left > 0) this.#perAddress.set(remote, left);
      else this.#perAddress.delete(remote);
    });
    this.#sessions.add(session);
  }
}
