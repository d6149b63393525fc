/**
 * Where the smarthost is, as SMTP_URL says it:
 *
 *   smtp://user:password@host:port?pool=20   STARTTLS as SMTP_TLS wants it; port 587 with a user, else 25
 *   smtps://...                              TLS from the first byte; port 465
 *   ?ca=/path.pem                            the authority that signed its certificate, if it is a private one
 *
 * Throws with words for the operator.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Peer } from "./conversation.ts";

const POOL_DEFAULT = 20;
const POOL_MAX = 1_000;

export function readSmarthost(
  text: string,
  tls: "required" | "opportunistic" | "off",
  verifyCertificate: boolean,
): { peer: Peer; conversationsMax: number } {
  const url = new URL(text);
  if (url.protocol !== "smtp:" && url.protocol !== "smtps:")
    throw new Error("SMTP_URL must begin with smtp:// or smtps://");
  if (url.hostname === "") throw new Error("SMTP_URL names no host");
  for (const name of url.searchParams.keys())
    if (name !== "pool" && name !== "ca") throw new Error(`SMTP_URL knows ?pool and ?ca, not ?${name}`);
  const user = decodeURIComponent(url.username);
  const ca = url.searchParams.get("ca");
  return {
    conversationsMax: readPool(url.searchParams.get("pool")),
    peer: {
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port) || (url.protocol === "smtps:" ? 465 : user === "" ? 25 : 587),
      tls: url.protocol === "smtps:" ? "implicit" : tls,
      verifyCertificate,
      ca: ca === null ? null : readFileSync(ca, "utf8"),
      credentials: user === "" ? null : { user, password: decodeURIComponent(url.password) },
      helo: ownName(),
    },
  };
}

function readPool(text: string | null): number {
  const pool = Number(text ?? POOL_DEFAULT);
  if (!Number.isInteger(pool) || pool < 1 || pool > POOL_MAX)
    throw new Error(`?pool of SMTP_URL must be a whole number from 1 to ${POOL_MAX}`);
  return pool;
}

/** An address literal where the machine has no full name (RFC 5321, 4.1.4). */
function ownName(): string {
  const name = hostname();
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i.test(name) ? name : "[127.0.0.1]";
}
