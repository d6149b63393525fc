/**
 * Sockets whose other sides may all speak at once, and at length. What has come is taken from the system
 * only when what came before has been read, and it is read in pieces, each when its turn has come: also
 * after the server has paused the socket, which it does while a body or an answer waits for somebody.
 *
 * Why not a `ConnectionInTurns`, as elsewhere: of bodies in crumbs its turns took 35 to 40 ms, and these 18
 * to 34.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { turnIfLate } from "../turn.ts";

/** Of HTTP in crumbs, or of requests one behind the other, up to 10 ms of work. */
const PIECE_BYTES = 4 * 1024;

/** Of all connections to a server. Its parser would take what comes from the system by itself. */
export function readRequestsInTurns(server: Server): void {
  const openOf = new WeakMap<Socket, OpenAnswers>();
  server.on("connection", (socket: Socket) => {
    const open = new OpenAnswers();
    openOf.set(socket, open);
    // to who listens, Node hands what has come, and to the parser too
    socket.on("data", () => {});
    readInTurns(socket, open);
  });
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) =>
    openOf.get(socket)?.add(response),
  );
}

/** Of one connection. Those that wait for another are written the moment that one is, all in one turn. */
class OpenAnswers {
  #count = 0;
  onFewer = () => {};

  add(response: ServerResponse): void {
    this.#count++;
    response.once("close", () => {
      this.#count--;
      this.onFewer();
    });
  }

  get isOneBehindAnother(): boolean {
    return this.#count > 1;
  }
}

function readInTurns(socket: Socket, open: OpenAnswers): void {
  const push = socket.push.bind(socket);
  const read = socket._read.bind(socket);
  const waiting: (Buffer | null)[] = [];
  let isPushing = false;
  // what a paused socket is given would be read in one go once it goes on; for the rest see OpenAnswers
  const mayPush = (): boolean => !socket.isPaused() && !open.isOneBehindAnother;
  const pushWaiting = async (): Promise<void> => {
    if (isPushing) return;
    isPushing = true;
    while (waiting.length > 0 && mayPush()) {
      const late = turnIfLate();
      if (late) await late;
      if (socket.destroyed) waiting.length = 0;
      else if (mayPush()) push(waiting.shift());
      // some of the work on a piece is done in ticks after it, and counts for the turn, too
      await new Promise((resolve) => process.nextTick(resolve));
    }
    isPushing = false;
  };
  open.onFewer = () => void pushWaiting();
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
