/**
 * What a connection must prove before mail goes over it, and who says so. Without a need the settings decide,
 * and certificates of receivers are not verified.
 */
import type { TlsPolicy } from "../rules/connection.ts";
import type { Tlsa } from "./tlsa.ts";

export type TlsNeed =
  /** Nothing: it is only noted. */
  | { readonly kind: "none"; readonly by: TlsPolicy }
  /** Encrypted, whatever the certificate. */
  | { readonly kind: "encrypted"; readonly by: TlsPolicy }
  /** Its certificate is valid for the host's name, and an authority that we know signed it. */
  | { readonly kind: "verified"; readonly by: TlsPolicy }
  /**
   * Its certificate is one of those that signed DNS names for the host, under this name; `alsoNamed`: or
   * valid for these.
   */
  | {
      readonly kind: "dane";
      readonly by: "dane";
      readonly records: readonly Tlsa[];
      readonly name: string;
      readonly alsoNamed: readonly string[];
    };

/** For replies. */
export const REQUIRED_BY: Record<TlsPolicy, string> = {
  sts: "required by the receiver's MTA-STS policy",
  "sts-testing": "requested by the receiver's MTA-STS policy",
  dane: "required by the receiver's TLSA records",
  setting: "required for this destination",
};

const STRENGTH = { none: 0, encrypted: 1, verified: 2, dane: 3 } as const;

export function requiresTls(need: TlsNeed | null | undefined): need is TlsNeed {
  return need != null && need.kind !== "none";
}

/** The stronger of two. */
export function stronger(a: TlsNeed | null, b: TlsNeed | null): TlsNeed | null {
  if (a === null || b === null) return a ?? b;
  return STRENGTH[b.kind] > STRENGTH[a.kind] ? b : a;
}
