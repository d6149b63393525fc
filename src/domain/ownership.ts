/**
 * Whether DNS shows that a workspace may write from a domain: by one of its own signing keys, or by the TXT
 * record of ownership, which holds a token of that workspace alone. Whoever keeps the zone decides: while the
 * proof of the workspace that has the domain is in DNS, nobody else gets it; once it is gone, whoever shows
 * theirs does.
 */
import type { DomainKey } from "../record/workspaces/domainkeys.ts";
import type { SenderDomain } from "../record/workspaces/domains.ts";
import { type AskTxt, type DnsFinding, joinedTexts, lookUp } from "./published.ts";

const TOKEN_PREFIX = "postrider-verification=";

export type Proof = "found" | "missing" | "unknown";

export function ownershipName(domain: string): string {
  return `_postrider.${domain}`;
}

export function ownershipText({ token }: Pick<SenderDomain, "token">): string {
  return TOKEN_PREFIX + token;
}

export async function lookUpOwnership(
  claim: Pick<SenderDomain, "domain" | "token">,
  askTxt: AskTxt,
): Promise<DnsFinding> {
  const name = ownershipName(claim.domain);
  const asked = await joinedTexts(name, askTxt);
  if ("says" in asked) return asked;
  const isFound = asked.texts.some((text) => text.trim() === ownershipText(claim));
  const says = isFound
    ? `the record at ${name} shows ownership`
    : `there is no TXT record ${ownershipText(claim)} at ${name}`;
  return { isFound, isUnknown: false, says };
}

/** Keys that have been replaced prove nothing: their records may stay for as long as anybody likes. */
export async function proofOf(
  claim: Pick<SenderDomain, "domain" | "token">,
  keys: readonly DomainKey[],
  askTxt: AskTxt,
): Promise<Proof> {
  const current = keys.filter(({ state }) => state !== "retired");
  return judgeProof(
    await Promise.all([lookUpOwnership(claim, askTxt), ...current.map((key) => lookUp(key, askTxt))]),
  );
}

export function judgeProof(findings: readonly DnsFinding[]): Proof {
  if (findings.some(({ isFound }) => isFound)) return "found";
  return findings.some(({ isUnknown }) => isUnknown) ? "unknown" : "missing";
}
