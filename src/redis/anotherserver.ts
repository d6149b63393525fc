/**
 * A Redis that answers and is another than its url says. Needs no client of Redis: commands that do not use
 * one know what to say.
 */

/** A server without the database that was named, or without a cluster: nothing but another url helps. */
const ANOTHER_SERVER = /^ERR (?:DB index is out of range|This instance has cluster support disabled)/;

export function isAnotherServer(error: unknown): boolean {
  return error instanceof Error && ANOTHER_SERVER.test(error.message);
}

/** Of two faults of a client the one that tells why: what follows another server is that we left it. */
export function tellingFault(first: unknown, second: unknown): unknown {
  return isAnotherServer(first) ? first : second;
}
