/**
 * With whom an attempt was made, how far it got and how long it took, as one text in an e-mail's history:
 * five fields of JSON would cost a tenth of the whole delivery.
 * `dot 12 mx.example.net 192.0.2.1 TLSv1.3 verified sts 198.51.100.7 google`, the last two being the address
 * it left from and the provider; what is unknown at the end is left out, in between it is a hyphen. No part
 * contains a space.
 */
export type Connection = {
  host: string;
  /** null: there was no connection. */
  ip: string | null;
  /** As `TLSv1.3`; null: in the clear. */
  tls: string | null;
  isVerified: boolean;
  /** Who required TLS of it; without one nobody did. */
  policy?: TlsPolicy;
};

/**
 * The receiver's MTA-STS policy, its TLSA records, or the operator for this destination. A policy that is
 * being tested requires nothing: what it would have missed is seen by `tls` and `isVerified`.
 */
export type TlsPolicy = "sts" | "sts-testing" | "dane" | "setting";

export type AttemptDetail = { phase: string; ms: number | null } & Omit<Connection, "host"> & {
    host: string | null;
    /** The source address. */
    from: string | null;
    /** As the shaping file names it. */
    provider: string | null;
  };

const UNKNOWN = "-";
const VERIFIED = "verified";

/** The part that all attempts over one connection share. `from`: the address of our side. */
export function connectionText(
  { host, ip, tls, isVerified, policy }: Connection,
  from: string | null = null,
): string {
  const known = [host.replaceAll(" ", ""), ip, tls, isVerified ? VERIFIED : null, policy ?? null, from];
  while (known.at(-1) === null) known.pop();
  return known.map((part) => part ?? UNKNOWN).join(" ");
}

/** `provider` of a connection whose source address is known; `""`: none. */
export function attemptText(
  phase: string,
  ms: number | undefined,
  connection: string | undefined,
  provider = "",
): string {
  if (ms === undefined) return phase;
  const length = Math.round(ms);
  if (connection === undefined) return `${phase} ${length}`;
  return provider === ""
    ? `${phase} ${length} ${connection}`
    : `${phase} ${length} ${connection} ${provider}`;
}

export function readAttempt(text: string): AttemptDetail {
  const [phase = "", ms, host, ip, tls, verified, policy, from, provider] = text
    .split(" ")
    .map((part) => (part === UNKNOWN ? null : part));
  return {
    phase: phase ?? "",
    ms: ms == null ? null : Number(ms),
    host: host ?? null,
    ip: ip ?? null,
    tls: tls ?? null,
    isVerified: verified === VERIFIED,
    ...(policy && { policy: policy as TlsPolicy }),
    from: from ?? null,
    provider: provider ?? null,
  };
}

/** Without the host and its address, which may be a person's own. */
export function withoutConnection(text: string): string {
  return text.split(" ", 2).join(" ");
}
