/**
 * Whether a name below a sender's domain leads where the operator takes reports, so that mail of the domain
 * may have its return path there: SPF is asked of that name, and counts for DMARC when it is below the domain
 * in From.
 */
import { codeOf } from "../caught.ts";
import type { DnsFinding } from "./published.ts";

const LABEL = "bounces";
const TTL_SECONDS = 3_600;

export type AskMx = (name: string) => Promise<{ exchange: string }[]>;
/** Of the operator; where DNS is asked. */
export type ReturnPathDns = { bounceDomain: string; askMx: AskMx };

export function returnPathName(domain: string): string {
  return `${LABEL}.${domain}`;
}

export function returnPathLine(domain: string, bounceDomain: string): string {
  return `${returnPathName(domain)}. ${TTL_SECONDS} IN CNAME ${bounceDomain}.`;
}

/** By the MX records, which a CNAME record leads to, and which some zones copy instead. */
export async function lookUpReturnPath(
  domain: string,
  { bounceDomain, askMx }: ReturnPathDns,
): Promise<DnsFinding> {
  const name = returnPathName(domain);
  const [ours, theirs] = await Promise.all([hostsOf(bounceDomain, askMx), hostsOf(name, askMx)]);
  if (ours === null || theirs === null)
    return {
      isFound: false,
      isUnknown: true,
      says: `DNS gave no answer for ${ours === null ? bounceDomain : name}`,
    };
  if (ours.length === 0)
    return { isFound: false, isUnknown: false, says: `${bounceDomain} (BOUNCE_DOMAIN) has no MX record` };
  const isFound = ours.join() === theirs.join();
  const says = isFound
    ? `${name} leads to ${bounceDomain}`
    : `${name} does not lead to ${bounceDomain}: publish ${returnPathLine(domain, bounceDomain)}`;
  return { isFound, isUnknown: false, says };
}

/** null: DNS gave no answer. */
export async function hostsOf(name: string, askMx: AskMx): Promise<string[] | null> {
  try {
    return (await askMx(name))
      .map(({ exchange }) => exchange.toLowerCase())
      .filter(Boolean)
      .sort();
  } catch (error) {
    const code = codeOf(error);
    return code === "ENOTFOUND" || code === "ENODATA" ? [] : null;
  }
}
