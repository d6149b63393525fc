/**
 * Sockets whose other sides may all speak at once, and at length. What has come is taken from the system
 * only when what came before has been read, and it is read in pieces, each when its turn has come: also
 * after the server has paused the socket, which it does while a body or an answer waits for somebody.
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
    if (isPushing) return;
    isPushing = true;
    // what a paused socket is given would be read in one go once it goes on
    while (waiting.length > 0 && !socket.isPaused()) {
      const late = turnIfLate();
      if (late) await late;
      if (socket.destroyed) waiting.length = 0;
      else if (!socket.isPaused()) push(waiting.shift());
    }
    isPushing = false;
  };
  socket.push = (chunk: Buffer | null) => {
    if (chunk === null) waiting.push(null);
    else
      for (let from = 0; from < chunk.length; from += PIECE_BYTES)
        waiting.push(chunk.subarray(from, from + PIECE_BYTES));
    void pushWaiting();
    // the system is asked for more when somebody has read this
    return false;
  };
  socket._read = (size: number) => {
    if (waiting.length === 0) read(size);
  };
  socket.on("resume", () => {
    if (waiting.length === 0 || socket.isPaused()) return;
    // to a socket that goes on, Node's server lets the system give more at once; this takes it back
    socket.emit("pause");
    void pushWaiting();
  });
}
