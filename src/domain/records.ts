/** The records that DNS should have for a sender's domain, and looking them all up at once. */
import type { Sql } from "../record/db/connect.ts";
import { type DomainKey, listDomainKeys, putToUse } from "../record/workspaces/domainkeys.ts";
import {
  findShownDomain,
  noteSeen,
  type Raised,
  type RecordStatus,
  type SenderDomain,
  type ShownDomain,
} from "../record/workspaces/domains.ts";
import { judgeProof, lookUpOwnership, ownershipName, ownershipText } from "./ownership.ts";
import { type AskTxt, type DnsFinding, joinedTexts, lookUp, recordName, recordText } from "./published.ts";
import { type ReturnPathDns, returnPathName } from "./returnpath.ts";
import { checkReturnPath, claimDomain } from "./verify.ts";

export type DnsRecord = {
  record: "DKIM" | "Ownership" | "SPF" | "DMARC" | "Return-Path";
  type: "TXT" | "CNAME";
  name: string;
  value: string;
};
export type DomainDns = { askTxt: AskTxt; returnPaths: ReturnPathDns | null };

/** SPF and DMARC are advice: what stands there already may say more, so that any such record counts. */
export function recordsOf(
  claim: Pick<SenderDomain, "domain" | "token">,
  keys: readonly DomainKey[],
  bounceDomain: string | null,
): DnsRecord[] {
  const { domain } = claim;
  return [
    ...current(keys).map((key) => ({
      record: "DKIM" as const,
      type: "TXT" as const,
      name: recordName(key),
      value: recordText(key),
    })),
    { record: "Ownership", type: "TXT", name: ownershipName(domain), value: ownershipText(claim) },
    { record: "SPF", type: "TXT", name: domain, value: "v=spf1 mx ~all" },
    {
      record: "DMARC",
      type: "TXT",
      name: dmarcName(domain),
      value: `v=DMARC1; p=none; rua=mailto:dmarc@${domain}`,
    },
    ...(bounceDomain === null
      ? []
      : [
          {
            record: "Return-Path" as const,
            type: "CNAME" as const,
            name: returnPathName(domain),
            value: bounceDomain,
          },
        ]),
  ];
}

/**
 * Asks DNS for all of them, notes what it shows, and puts to use what is there: the domain, its keys, its
 * return path.
 */
export async function verifyRecords(
  sql: Sql,
  { askTxt, returnPaths }: DomainDns,
  claim: ShownDomain,
  now: number,
): Promise<Raised[]> {
  const { workspaceId, domain } = claim;
  const keys = current(await listDomainKeys(sql, workspaceId, domain));
  const [ownership, spf, dmarc, ...ofKeys] = await Promise.all([
    lookUpOwnership(claim, askTxt),
    lookForText(domain, "v=spf1", askTxt),
    lookForText(dmarcName(domain), "v=DMARC1", askTxt),
    ...keys.map(async (key) => ({ key, finding: await lookUp(key, askTxt) })),
  ]);
  const isShown = judgeProof([ownership, ...ofKeys.map(({ finding }) => finding)]) === "found";
  const verified = isShown ? await claimDomain({ sql, askTxt, now }, claim) : null;
  const seen: Record<string, RecordStatus> = {
    [ownershipName(domain)]: statusOf(ownership),
    [domain]: statusOf(spf),
    [dmarcName(domain)]: statusOf(dmarc),
  };
  for (const { key, finding } of ofKeys) {
    seen[recordName(key)] = statusOf(finding);
    if (verified?.kind === "verified" && finding.isFound && key.state === "waiting")
      await putToUse(sql, { ...key, workspaceId });
  }
  if (verified?.kind === "verified" && returnPaths) {
    const fresh = (await findShownDomain(sql, workspaceId, { domain })) ?? claim;
    seen[returnPathName(domain)] = statusOf(await checkReturnPath(sql, returnPaths, fresh, now));
  }
  await noteSeen(sql, claim, seen, new Date(now));
  return verified?.kind === "verified" ? verified.raised : [];
}

/** What was replaced is of no use any more. */
function current(keys: readonly DomainKey[]): DomainKey[] {
  return keys.filter(({ state }) => state !== "retired");
}

function dmarcName(domain: string): string {
  return `_dmarc.${domain}`;
}

async function lookForText(name: string, beginning: string, askTxt: AskTxt): Promise<DnsFinding> {
  const asked = await joinedTexts(name, askTxt);
  if ("says" in asked) return asked;
  const isFound = asked.texts.some((text) => text.toLowerCase().startsWith(beginning.toLowerCase()));
  return {
    isFound,
    isUnknown: false,
    says: isFound ? "it is there" : `there is no ${beginning} record at ${name}`,
  };
}

function statusOf({ isFound, isUnknown }: DnsFinding): RecordStatus {
  return isFound ? "verified" : isUnknown ? "temporary_failure" : "failed";
}
