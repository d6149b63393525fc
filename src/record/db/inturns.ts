/**
 * What Postgres answers is parsed in turns. Node reads up to 2 MB of a socket in one turn of the event loop,
 * and the client parses what comes as it comes: 130 ms of work where it is lists in lists. With
 * `ConnectionInTurns` every short answer would pay for the few long ones.
 */
import { connect, type NetConnectOpts, type Socket } from "node:net";
import { turnIfLate } from "../../turn.ts";

const open = new Set<Socket>();
let isStopped = false;

export function connectInTurns(to: NetConnectOpts): Socket {
  const socket = connect(to);
  open.add(socket);
  socket.once("close", () => open.delete(socket));
  return socket;
}

/** Of values that may be long. Where this turn had enough of them, nothing more is read in it. */
export function parseInTurns<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    if (!isStopped) stopIfLate();
    return parse(text);
  };
}

function stopIfLate(): void {
  const late = turnIfLate();
  if (!late) return;
  isStopped = true;
  const read = [...open].filter((socket) => readsOf(socket)?.reading);
  for (const socket of read) readsOf(socket)?.readStop();
  void late.then(() => {
    isStopped = false;
    // what the client itself has stopped meanwhile stays so
    for (const socket of read) if (readsOf(socket)?.reading) readsOf(socket)?.readStart();
  });
}

type Reads = { readonly reading: boolean; readStop(): void; readStart(): void };

/**
 * Node's own, without a public name: `pause` takes effect after two more pieces, and none below TLS. null: it
 * is closed.
 */
function readsOf(socket: Socket): Reads | null {
  return (socket as unknown as { _handle: Reads | null })._handle;
}
