/**
 * Sockets whose other sides may all speak at once, and at length. What has come is taken from the system
 * only when what came before has been read, and it is read in pieces, each when its turn has come.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { turnIfLate } from "../turn.ts";

/** Of HTTP in crumbs, or of requests one behind the other, up to 10 ms of work. */
const PIECE_BYTES = 4 * 1024;

/** Of all connections to a server. Its parser would take what comes from the system by itself. */
export function readRequestsInTurns(server: Server): void {
  server.on("connection", (socket: Socket) => {
    // to who listens, Node hands what has come, and to the parser too
    socket.on("data", () => {});
    readInTurns(socket);
  });
}

function readInTurns(socket: Socket): void {
  const push = socket.push.bind(socket);
  const read = socket._read.bind(socket);
  const waiting: (Buffer | null)[] = [];
  let isPushing = false;
  const pushWaiting = async (): Promise<void> => {
    isPushing = true;
    for (let piece = waiting.shift(); piece !== undefined; piece = waiting.shift()) {
      const late = turnIfLate();
      if (late) await late;
      if (!socket.destroyed) push(piece);
    }
    isPushing = false;
  };
  socket.push = (chunk: Buffer | null) => {
    if (chunk === null) waiting.push(null);
    else
      for (let from = 0; from < chunk.length; from += PIECE_BYTES)
        waiting.push(chunk.subarray(from, from + PIECE_BYTES));
    if (!isPushing) void pushWaiting();
    // the system is asked for more when somebody has read this
    return false;
  };
  socket._read = (size: number) => {
    if (waiting.length === 0) read(size);
  };
}
