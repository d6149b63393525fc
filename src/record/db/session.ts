/**
 * One connection to Postgres: a client of postgres.js that connects once and is thrown away with its
 * connection.
 *
 * postgres.js 3.4.9 reuses a client whose connection was lost, and carries its state over: unsent bytes go
 * out before the greeting of the next connection, an old error rejects the next statement, rows are counted
 * on from the lost result, a statement can be answered with the rows of another, and what a transaction still
 * says to a lost connection throws where nobody can catch it. A client that never connects again can do none
 * of this.
 *
 * Promises: every statement is answered or rejected, at the latest when the connection is lost.
 */
import { Socket } from "node:net";
import { asLost, asUndone, hindranceOf, isOfCertificate, isRefusal } from "./lost.ts";
import { quicken } from "./quicken.ts";
import type { Client, Row, Rows, Unsent } from "./statement.ts";

const LOOKS_IN_SILENCE = 3;
/** After its farewell a connection has this long to close by itself. */
const FAREWELL_MS = 500;

/** What the server answers to a request for TLS that it grants: `S`. */
const TLS_ACCEPTED = 0x53;

export class TlsRefused extends Error {
  readonly code = "TLS_REFUSED";

  constructor() {
    super("the server does not speak TLS");
  }
}

/** The connection is lost: what was under way may have been done or not. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
  readonly code = "CONNECTION_CLOSED";
}

export type SessionParts = {
  /**
   * The client calls `socket` when it has something to send, and `onLost` when its connection is lost. With
   * `onDrop` its TLS ends.
   */
  client(hooks: { socket(): Socket; onLost(): void; onDrop: AbortSignal }): Client;
  /** A socket that has started to connect. */
  connect(): Socket;
  /** Whether the client asks for TLS on it; default: no. */
  isSecure?: boolean;
  /** How transactions begin; default: `begin`. */
  begin?: string;
  /** How long Postgres may be silent during a statement; null: no limit. */
  silenceMsMax: number | null;
  /** A statement is done, or the connection is lost. */
  onChange(session: Session): void;
  /** After each statement: how long its caller waited, and what it failed with. */
  onAnswer?(ms: number, failure: "refused" | "lost" | null, text: () => string): void;
};

export class Session {
  readonly #client: Client;
  readonly #parts: SessionParts;
  readonly openedAt = performance.now();
  /** It was let in by Postgres. */
  hasAnswered = false;
  /** Somebody uses it alone. */
  isReserved = false;
  /** It was let in by a standby, or by a server that was read-only then: another may reach the primary. */
  acceptsNoWrites = false;
  /** It takes no more statements. */
  isOver = false;
  inFlight = 0;
  /** When it last began or ended a statement. */
  usedAt = performance.now();
  #socket: Socket | null = null;
  /**
   * Destroys what the client has put around the socket. TLS stays open over a socket that was destroyed, and
   * what the client says at its end would then fail where nobody can catch it.
   */
  readonly #secured = new AbortController();
  #cause: unknown;
  #watch: NodeJS.Timeout | null = null;
  #bytesHeard = 0;
  #silentLooks = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#client = parts.client({
      socket: () => this.#connect(),
      onLost: () => this.drop(),
      onDrop: this.#secured.signal,
    });
  }

  async run(statement: Unsent): Promise<Rows> {
    if (this.isOver) throw asUndone(this.#lost());
    const query = statement.writtenBy(this.#client);
    quicken(query);
    this.inFlight++;
    this.#watchSilence();
    const began = performance.now();
    this.usedAt = began;
    let failure: "refused" | "lost" | null = null;
    try {
      const rows = await query.execute();
      quicken(rows);
      this.hasAnswered = true;
      return withoutHoles(rows);
    } catch (caught) {
      const error = this.#secured.signal.aborted && isAborted(caught) ? this.#lost() : caught;
      failure = isRefusal(error) ? "refused" : "lost";
      if (isRefusal(error)) {
        this.hasAnswered = true;
        if (hindranceOf(error) === "postgres_writes") this.acceptsNoWrites = true;
      } else {
        if (this.isOver || this.#socket?.destroyed || isOfCertificate(error)) asLost(error);
        // Postgres hangs up, or the client failed: in either case the answers that follow cannot be trusted
        this.drop(error);
      }
      const explained = this.#explained(error);
      throw this.hasAnswered ? explained : asUndone(explained);
    } finally {
      this.inFlight--;
      this.usedAt = performance.now();
      this.#parts.onChange(this);
      this.#parts.onAnswer?.(performance.now() - began, failure, () => textOf(query));
    }
  }

  /** Cuts the connection; whatever is under way is rejected. */
  drop(cause?: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#cause = cause;
    // first: what is around a destroyed socket says that it is closed before it says why, to nobody any more
    this.#secured.abort();
    this.#socket?.destroy();
    // the client rejects what it holds when its socket closes, but not what it was given in between
    setImmediate(() => this.#client.end({ timeout: 0 }).catch(() => {}));
    this.#parts.onChange(this);
  }

  /** Ends the connection politely. Statements still waiting get no answer. */
  async end(): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    await this.#client.end({ timeout: 0 });
    if (this.#socket) await closed(this.#socket);
  }

  /** Without it, statements to a vanished peer would wait until the system gives up, after 15 minutes. */
  #watchSilence(): void {
    const { silenceMsMax } = this.#parts;
    if (silenceMsMax === null || this.#watch) return;
    this.#watch = setTimeout(() => this.#look(), silenceMsMax / LOOKS_IN_SILENCE).unref();
  }

  #look(): void {
    this.#watch = null;
    const bytesHeard = this.#socket?.bytesRead ?? 0;
    const isSilent = this.inFlight > 0 && bytesHeard === this.#bytesHeard;
    this.#silentLooks = isSilent ? this.#silentLooks + 1 : 0;
    this.#bytesHeard = bytesHeard;
    if (this.#silentLooks >= LOOKS_IN_SILENCE) this.drop(new Error("Postgres said nothing for too long"));
    else if (this.inFlight > 0) this.#watchSilence();
  }

  #connect(): Socket {
    // a second connection would carry on where the first was lost
    if (this.#socket || this.isOver) return refusing(this.#lost());
    const socket = this.#parts.connect();
    this.#socket = socket;
    // the client adds its listeners some turns later, and an error may come before
    socket.on("error", (error) => this.drop(error));
    socket.once("close", () => this.drop());
    if (this.#parts.isSecure)
      // the client would begin TLS all the same, and be cut off
      socket.once("data", ([answer]: Buffer) => answer === TLS_ACCEPTED || this.drop(new TlsRefused()));
    return socket;
  }

  /** The client only says that the connection is closed. */
  #explained(error: unknown): unknown {
    if (error instanceof Error && error !== this.#cause) error.cause ??= this.#cause;
    return error;
  }

  #lost(): ConnectionLost {
    return new ConnectionLost("the connection to Postgres is lost", { cause: this.#cause });
  }
}

/** What the client hears of the end of its TLS, whatever it ended for. */
function isAborted(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** As it was sent, with places for its values. */
function textOf(query: unknown): string {
  const { statement } = query as { statement?: { string?: string } };
  return statement?.string ?? "";
}

/** The client counts rows on from a result that broke off with an error: the first rows are missing then. */
function withoutHoles(rows: Rows): Rows {
  let holes = 0;
  while (holes < rows.length && !(holes in rows)) holes++;
  if (holes > 0) (rows as Row[]).splice(0, holes);
  return rows;
}

function refusing(error: Error): Socket {
  const socket = new Socket();
  setImmediate(() => socket.destroy(error)); // the client listens by then
  return socket;
}

async function closed(socket: Socket): Promise<void> {
  if (socket.closed) return;
  if (socket.connecting) socket.destroy();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => socket.destroy(), FAREWELL_MS);
    socket.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
