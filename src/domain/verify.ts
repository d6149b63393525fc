/**
 * Looking up who may write from a domain, and noting it: for a command at once, for the keeper once in a
 * while.
 */

import { DAY_MS, HOUR_MS } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { listDomainKeys } from "../record/workspaces/domainkeys.ts";
import {
  findDomain,
  giveDomain,
  noteChecked,
  noteReturnPath,
  ownerOf,
  type Raised,
  type SenderDomain,
  takeDomain,
} from "../record/workspaces/domains.ts";
import { type Proof, proofOf } from "./ownership.ts";
import type { AskTxt, DnsFinding } from "./published.ts";
import { lookUpReturnPath, type ReturnPathDns } from "./returnpath.ts";

const CHECK_EVERY_MS = DAY_MS;
/** What is missing or could not be asked is asked again sooner. */
const DOUBTED_EVERY_MS = HOUR_MS;
/** A zone that is moved or mended may show nothing for a while. */
const MISSING_MS_MAX = 7 * DAY_MS;

export type VerifyParts = { sql: Sql; askTxt: AskTxt; now: number };

/** Looks whether mail of the domain may have its return path below it, and notes it. */
export async function checkReturnPath(
  sql: Sql,
  dns: ReturnPathDns,
  checked: SenderDomain,
  now: number,
): Promise<DnsFinding> {
  const finding = await lookUpReturnPath(checked.domain, dns);
  if (finding.isUnknown) return finding;
  // receivers refuse mail whose return path leads nowhere, so what is gone is used no more
  if (finding.isFound !== (checked.returnPathAt !== null))
    await noteReturnPath(sql, checked, finding.isFound ? new Date(now) : null);
  return finding;
}

export type Verified =
  | { kind: "verified"; raised: Raised[] }
  /**
   * DNS shows the proof of another workspace too, or could not be asked about it: who has the domain keeps
   * it.
   */
  | { kind: "another's"; isUnknown: boolean }
  | { kind: "gone" };

/**
 * The workspace has shown its proof: the domain becomes its own, unless who has it can show theirs as well.
 */
export async function claimDomain(
  { sql, askTxt, now }: VerifyParts,
  { workspaceId, domain }: SenderDomain,
): Promise<Verified> {
  const owner = await ownerOf(sql, domain);
  const from = owner && owner.workspaceId !== workspaceId ? owner : null;
  if (from) {
    const proof = await proofOfDomain({ sql, askTxt }, from);
    if (proof !== "missing") return { kind: "another's", isUnknown: proof === "unknown" };
  }
  const change = { to: workspaceId, from: from?.workspaceId ?? null };
  const times = { now: new Date(now), checkAt: new Date(now + CHECK_EVERY_MS) };
  const raised = await giveDomain(sql, domain, change, times);
  if (raised) return { kind: "verified", raised };
  const isNamed = await findDomain(sql, workspaceId, domain);
  return isNamed ? { kind: "another's", isUnknown: false } : { kind: "gone" };
}

/**
 * Asks DNS once more about a verified domain. One that has shown no proof for a week is verified no longer.
 */
export async function checkAgain(
  { sql, askTxt, now }: VerifyParts,
  checked: SenderDomain,
): Promise<Raised[]> {
  const proof = await proofOfDomain({ sql, askTxt }, checked);
  const missingSince = proof === "missing" ? (checked.missingSince ?? new Date(now)) : checked.missingSince;
  if (proof === "missing" && missingSince && now - missingSince.getTime() > MISSING_MS_MAX)
    return takeDomain(sql, checked.workspaceId, checked.domain, new Date(now));
  await noteChecked(sql, checked, {
    checkAt: new Date(now + (proof === "found" ? CHECK_EVERY_MS : DOUBTED_EVERY_MS)),
    missingSince: proof === "found" ? null : missingSince,
  });
  return [];
}

async function proofOfDomain(
  { sql, askTxt }: Pick<VerifyParts, "sql" | "askTxt">,
  claim: SenderDomain,
): Promise<Proof> {
  return proofOf(claim, await listDomainKeys(sql, claim.workspaceId, claim.domain), askTxt);
}
