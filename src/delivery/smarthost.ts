/**
 * The smarthost in SMTP_URL:
 *
 *   smtp://user:password@host:port?pool=20   STARTTLS as set by SMTP_TLS; port 587 with a user, else 25
 *   smtps://...                              TLS from the first byte; port 465
 *   ?ca=/path.pem                            the authority that signed its certificate, if it is a private
 *                                            one
 *
 * Throws errors that an operator can act on.
 */
import { readFileSync } from "node:fs";
import type { Peer } from "../smtp/conversation.ts";
import { ownName } from "../smtp/ownname.ts";

const POOL_DEFAULT = 20;
const POOL_MAX = 1_000;

export type SmarthostSettings = {
  smtpTls: "required" | "opportunistic" | "off";
  smtpTlsVerify: boolean;
  ehloName: string | null;
};

export function readSmarthost(
  text: string,
  { smtpTls, smtpTlsVerify, ehloName }: SmarthostSettings,
): { peer: Peer; conversationsMax: number } {
  const url = new URL(text);
  if (url.protocol !== "smtp:" && url.protocol !== "smtps:")
    throw new Error("SMTP_URL must start with smtp:// or smtps://.");
  if (url.hostname === "") throw new Error("SMTP_URL names no host. Write smtp://HOST:PORT.");
  for (const name of url.searchParams.keys())
    if (name !== "pool" && name !== "ca")
      throw new Error(`SMTP_URL takes the parameters ?pool and ?ca, not ?${name}.`);
  const user = decodeURIComponent(url.username);
  const ca = url.searchParams.get("ca");
  return {
    conversationsMax: readPool(url.searchParams.get("pool")),
    peer: {
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port) || (url.protocol === "smtps:" ? 465 : user === "" ? 25 : 587),
      tls: url.protocol === "smtps:" ? "implicit" : smtpTls,
      verifyCertificate: smtpTlsVerify,
      ca: ca === null ? null : readAuthority(ca),
      credentials: user === "" ? null : { user, password: decodeURIComponent(url.password) },
      // an address literal where the machine has no full name (RFC 5321, 4.1.4)
      helo: ehloName ?? ownName() ?? "[127.0.0.1]",
    },
  };
}

function readAuthority(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    throw new Error(`?ca of SMTP_URL names ${path}, which cannot be read.`);
  }
}

function readPool(text: string | null): number {
  const pool = Number(text ?? POOL_DEFAULT);
  if (!Number.isInteger(pool) || pool < 1 || pool > POOL_MAX)
    throw new Error(`?pool of SMTP_URL must be a whole number from 1 to ${POOL_MAX}.`);
  return pool;
}
