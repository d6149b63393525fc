/** Ports of this machine: one that is free now, and whether a given one is. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { codeOf } from "../caught.ts";

const ATTEMPTS = 3;
const PORT_MIN = 12_000;
const PORT_MAX = 32_000;
const LOOKS = 50;
const CONNECT_MS_MAX = 1_000;

/** Something else took the port between our look and its use. */
export class PortTakenError extends Error {}

/**
 * Not one of those that the system gives to outgoing connections (from 32,768 on): any of them may be taken
 * by a connection before somebody listens there.
 */
export async function freePort(host = "127.0.0.1"): Promise<number> {
  for (let look = 0; look < LOOKS; look++) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    if (await isPortFree(port, host)) return port;
  }
  return listenOnce(0, host);
}

export async function isPortFree(port: number, host: string): Promise<boolean> {
  try {
    await listenOnce(port, host);
    return true;
  } catch (error) {
    if (isPortTaken(error)) return false;
    throw error;
  }
}

/** Whether somebody takes connections there. Nothing is bound for it, so whoever begins to listen can. */
export async function isListening(port: number, host: string): Promise<boolean> {
  const socket = connect({ port, host: REACHED[host] ?? host, timeout: CONNECT_MS_MAX });
  socket.once("timeout", () => socket.destroy(new Error("nobody answers")));
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Where this machine reaches who listens everywhere. */
const REACHED: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

export function isPortTaken(error: unknown): boolean {
  return codeOf(error) === "EADDRINUSE";
}

/**
 * Runs what needs a port with the given one, or with a free one; another free one when that was taken
 * meanwhile.
 */
export async function withPort<T>(given: number | undefined, use: (port: number) => Promise<T>): Promise<T> {
  if (given !== undefined) return use(given);
  for (let attempt = 1; ; attempt++) {
    try {
      return await use(await freePort());
    } catch (error) {
      if (!(error instanceof PortTakenError) || attempt === ATTEMPTS) throw error;
    }
  }
}

function listenOnce(port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, host, () => {
      const { port: used } = server.address() as AddressInfo;
      server.close(() => resolve(used));
    });
  });
}
