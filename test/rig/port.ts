/**
 * A port that stays ours while nobody listens on it, so that a peer can go away and come back under the same
 * address.
 *
 * Ports are drawn from below the range the kernel gives to outgoing connections. Inside that range a client
 * that keeps knocking at a port nobody listens on would sooner or later be given that very port and be
 * connected to itself.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import type { Server } from "node:net";

const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const DRAWS_MAX = 100;

/** Listens at a free port, or at the given one. */
export async function listenOn(server: Server, port?: number, host = "127.0.0.1"): Promise<number> {
  if (port !== undefined) {
    server.listen(port, host);
    await once(server, "listening");
    return port;
  }
  for (let draw = 0; draw < DRAWS_MAX; draw++) {
    const drawn = randomInt(PORT_MIN, PORT_MAX);
    try {
      return await listenOn(server, drawn, host);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_MAX} in ${DRAWS_MAX} draws`);
}
