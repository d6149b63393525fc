/**
 * Who may connect: so many at once, in all and from one address, over all the ports of one listener. Their
 * handshakes of TLS take turns.
 */
import { createServer, type Server, type Socket } from "node:net";
import type { SecureContext } from "node:tls";
import { ownerOf } from "../rules/visitor.ts";
import { Handshakes } from "./handshakes.ts";
import type { SmtpSession, SmtpSessionParts } from "./session.ts";

/** A refused connection is there for so long, if the other side does not close it. */
const REFUSED_MS = 1_000;

export type ListenerLimits = { connectionsMax: number; connectionsEachMax: number };

export type ListenerParts = {
  limits: ListenerLimits;
  /** Asked for at each handshake, since certificates are renewed. */
  secureContext(): SecureContext;
  onFault(error: unknown): void;
};

export type OpenSession = (
  socket: Socket,
  remote: string,
  ties: Pick<SmtpSessionParts, "secure" | "onEnd">,
) => SmtpSession;

export class SmtpListener {
  readonly #parts: ListenerParts;
  readonly #handshakes = new Handshakes();
  readonly #servers: Server[] = [];
  readonly #sessions = new Set<SmtpSession>();
  readonly #perAddress = new Map<string, number>();

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  /** The port, when it listens. */
  async listen(host: string, port: number, open: OpenSession): Promise<number> {
    const server = createServer((socket) => this.#connected(socket, open));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host, port }, () => {
        server.off("error", reject);
        server.on("error", this.#parts.onFault);
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
    const { connectionsMax, connectionsEachMax } = this.#parts.limits;
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
    const session = open(socket, remote, {
      secure: (plain, begun) => this.#handshakes.begin(remote, plain, this.#parts.secureContext(), begun),
      onEnd: () => {
        if (!this.#sessions.delete(session)) return;
        const left = (this.#perAddress.get(remote) ?? 1) - 1;
        if (left > 0) this.#perAddress.set(remote, left);
        else this.#perAddress.delete(remote);
      },
    });
    this.#sessions.add(session);
  }
}
