/**
 * Handshakes of TLS as a client. Each checks signatures as soon as the bytes for it are there, which takes up
 * to 7 ms, and the other side chooses when they come. So few are read at once: each of the others gets its
 * turn, and who has had one comes after those who wait. From then on a connection is read like any other:
 * with `ConnectionInTurns`, each mail over it would cost 110 us more.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

const READ_AT_ONCE = 3;
/** Long enough for what has come to be read. Where 300 hear nothing, others have a turn every 0.2 s. */
const READ_MS = 2;

/** Of this process: its connections share one event loop. */
const read = new Set<Socket>();
const waiting = new Set<Socket>();
let turns: NodeJS.Timeout | null = null;

/**
 * Until there is TLS or never will be, `secured` gets what comes in turns with others. `socket` is the one
 * under it, opened with `onread`: of others, Node does not stop reading when they pause.
 */
export function shakeInTurns(socket: Socket, secured: TLSSocket): void {
  if (read.size < READ_AT_ONCE) {
    read.add(socket);
  } else {
    waiting.add(socket);
    turns ??= setInterval(takeTurns, READ_MS);
    // TLS begins to read only after this turn
    setImmediate(() => {
      if (waiting.has(socket)) socket.pause();
    });
  }
  const leave = () => {
    if (waiting.delete(socket)) socket.resume();
    if (read.delete(socket)) readNext();
  };
  secured.once("secureConnect", leave);
  secured.once("close", leave);
}

function takeTurns(): void {
  for (const socket of read) {
    socket.pause();
    waiting.add(socket);
  }
  read.clear();
  while (waiting.size > 0 && read.size < READ_AT_ONCE) readNext();
}

function readNext(): void {
  const [next] = waiting;
  if (next) {
    waiting.delete(next);
    read.add(next);
    next.resume();
  }
  if (waiting.size > 0 || turns === null) return;
  clearInterval(turns);
  turns = null;
}
