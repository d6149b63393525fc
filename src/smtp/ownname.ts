/** The host name of this machine, if it is a full name. */
import { hostname } from "node:os";

export function ownName(): string | null {
  const name = hostname();
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i.test(name) ? name : null;
}
