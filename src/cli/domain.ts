/**
 * `postrider domain`: which domains a workspace may write from, the keys that sign its mail, what DNS has to
 * say of both, and whether it does.
 */
import { Resolver } from "node:dns/promises";
import {
  bitsOf,
  makeKey,
  newSelector,
  type PrivateKey,
  publicPartOf,
  RSA_BITS_ADVISED,
  Sealer,
} from "../domain/key.ts";
import { judgeProof, lookUpOwnership, ownershipName, ownershipText } from "../domain/ownership.ts";
import {
  type AskTxt,
  type DnsFinding,
  lookUp,
  publicKeyOf,
  recordName,
  recordText,
  zoneLine,
} from "../domain/published.ts";
import { returnPathLine, returnPathName } from "../domain/returnpath.ts";
import { checkReturnPath, claimDomain } from "../domain/verify.ts";
import { listTlsReports } from "../record/transport/tlsreports.ts";
import {
  type DomainKey,
  deleteDomainKey,
  insertDomainKey,
  listDomainKeys,
  putToUse,
} from "../record/workspaces/domainkeys.ts";
import {
  findDomain,
  forgetDomain,
  listDomains,
  type Raised,
  type SenderDomain,
} from "../record/workspaces/domains.ts";
import type { Algorithm } from "../rules/signing.ts";
import { type Context, requireSecret } from "./context.ts";
import { CommandError, type OutputOptions, say, table, time, unknownWorkspace } from "./print.ts";

const ASK_MS_MAX = 3_000;
const ASK_TRIES = 2;
/** Workers look at the record again within this time. */
const IN_FORCE = "within 10 seconds";

type DomainOf = OutputOptions & { workspace: string };
type NewOptions = DomainOf & { selector?: string; key?: PrivateKey; algorithm?: Algorithm; now?: boolean };

export async function add(context: Context, domain: string, options: NewOptions): Promise<void> {
  const algorithm = algorithmOf(options);
  const keys = await keysOf(context, domain, options);
  if (keys.some((key) => key.algorithm === algorithm && key.state !== "retired"))
    throw new CommandError(
      `${domain} already has an ${algorithm} key. \`postrider domain show\` prints its record; \`postrider domain rotate\` replaces it.`,
    );
  await enter(context, domain, options);
}

export async function rotate(context: Context, domain: string, options: NewOptions): Promise<void> {
  const algorithm = algorithmOf(options);
  const keys = (await keysOf(context, domain, options)).filter((key) => key.algorithm === algorithm);
  if (!keys.some((key) => key.state === "signing"))
    throw new CommandError(
      `No ${algorithm} key signs for ${domain} yet. Use \`postrider domain add\` or \`postrider domain verify\`.`,
    );
  const waiting = keys.find((key) => key.state === "waiting");
  if (waiting)
    throw new CommandError(
      `The new key ${waiting.selector} is not in use yet. Verify it or remove it first.`,
    );
  await enter(context, domain, options);
}

async function enter(context: Context, domain: string, options: NewOptions): Promise<void> {
  const secret = await requireSecret(context);
  const { sql, clock } = context;
  const { workspace: workspaceId, selector = newSelector(), now = false } = options;
  const privateKey = options.key ?? (await makeKey(algorithmOf(options)));
  const name = { workspaceId, domain, selector };
  const publicKey = publicPartOf(privateKey);
  const sealedKey = new Sealer(secret).seal(name, privateKey);
  const key = { ...name, algorithm: privateKey.algorithm, publicKey, sealedKey };
  const state = now ? "signing" : "waiting";
  const createdAt = new Date(clock.now());
  const entered = await insertDomainKey(sql, key, state, createdAt);
  if (entered === "unknown workspace") throw unknownWorkspace(workspaceId);
  if (entered === "taken")
    throw new CommandError(
      `${domain} already has a key ${selector}, or another command has just created one.`,
    );
  const bits = bitsOf(privateKey.key);
  const made: DomainKey = { domain, selector, algorithm: privateKey.algorithm, state, publicKey, createdAt };
  const claim = await claimOf(context, domain, options);
  const words = [
    `Publish this TXT record at ${recordName(made)}`,
    "",
    recordText(made),
    "",
    "or, as a line of a zone file:",
    "",
    zoneLine(made),
    "",
    ...(bits !== null && bits < RSA_BITS_ADVISED
      ? [
          `This key has ${bits} bits. Some receivers ignore keys this short; ${RSA_BITS_ADVISED} bits are advised.`,
        ]
      : []),
    now
      ? `It signs ${IN_FORCE}.`
      : `It signs once \`postrider domain verify ${domain} --workspace ${workspaceId}\` has found it there.`,
    ...(claim.verifiedAt === null
      ? [
          "",
          `The same command verifies ${domain} for this workspace, which may then send from it. To do so without`,
          "the key's record, publish this one:",
          "",
          ownershipLine(claim),
        ]
      : []),
    "",
    ...besides(context, domain),
  ];
  say(options, shown(context, made, claim), words.join("\n"));
}

export async function list(context: Context, options: DomainOf): Promise<void> {
  const { sql } = context;
  const claims = new Map((await listDomains(sql, options.workspace)).map((claim) => [claim.domain, claim]));
  const keys = (await listDomainKeys(sql, options.workspace)).map((key) =>
    shown(context, key, claims.get(key.domain) ?? null),
  );
  const rows = keys.map((key) => [
    key.domain,
    key.verified ? "yes" : "no",
    key.selector,
    key.algorithm,
    key.bits,
    key.state,
    key.created_at,
  ]);
  say(options, keys, table(rows, ["domain", "verified", "selector", "algorithm", "bits", "state", "made"]));
}

export async function show(context: Context, domain: string, options: DomainOf): Promise<void> {
  const keys = await someKeysOf(context, domain, options);
  const claim = await claimOf(context, domain, options);
  const words = keys.flatMap((key) => [
    `; ${key.selector}, ${key.algorithm}: ${STATE_WORDS[key.state]}`,
    zoneLine(key),
    "",
  ]);
  const ownership = [
    `; ownership: ${claim.verifiedAt === null ? "not verified" : "verified"}; this record or that of a key proves it`,
    ownershipLine(claim),
    "",
  ];
  say(
    options,
    keys.map((key) => shown(context, key, claim)),
    [...words, ...ownership, ...besides(context, domain)].join("\n"),
  );
}

/** Records that nothing waits for. */
function besides({ config: { bounceDomain } }: Context, domain: string): string[] {
  return [
    "; Also advised, unless the domain has them:",
    `; SPF, with whatever your smarthost tells you to include: ${domain}. 3600 IN TXT "v=spf1 include:... ~all"`,
    `; DMARC, to begin with; its reports tell who else sends: _dmarc.${domain}. 3600 IN TXT "v=DMARC1; p=none; rua=mailto:dmarc@${domain}"`,
    ...(bounceDomain === null
      ? []
      : [
          "; return path, so that SPF counts for DMARC; `domain verify` puts it to use:",
          returnPathLine(domain, bounceDomain),
        ]),
  ];
}

const STATE_WORDS = {
  waiting: "signs once `domain verify` has found it",
  signing: "signs",
  retired: "no longer signs; keep it in DNS for a week, for e-mails under way",
};

export async function verify(
  context: Context,
  domain: string,
  options: DomainOf & { resolver?: string },
): Promise<void> {
  const keys = await someKeysOf(context, domain, options);
  const claim = await claimOf(context, domain, options);
  const resolver = new Resolver({ timeout: ASK_MS_MAX, tries: ASK_TRIES });
  if (options.resolver) resolver.setServers([options.resolver]);
  const askTxt: AskTxt = (name) => resolver.resolveTxt(name);
  const [ownership, ...ofKeys] = await Promise.all([
    lookUpOwnership(claim, askTxt),
    ...keys.map(async (key) => ({ key, ...(await lookUp(key, askTxt)) })),
  ]);
  const current = ofKeys.filter(({ key }) => key.state !== "retired");
  const isShown = judgeProof([ownership, ...current]) === "found";
  const verdict = isShown ? await claimFor(context, claim, askTxt) : notShown(domain);
  const findings = await Promise.all(
    ofKeys.map(async (one) => ({ ...one, begins: verdict.isOwn && (await begins(context, one, options)) })),
  );
  const now = await claimOf(context, domain, options);
  const path = verdict.isOwn ? await returnPathOf(context, now, resolver) : null;
  const values = findings.map(({ key, isFound, says, begins }) => ({
    ...shown(context, begins ? { ...key, state: "signing" } : key, now),
    found: isFound,
    finding: says,
    return_path_found: path?.isFound ?? false,
  }));
  const lines = findings.map(({ key, isFound, says, begins }) => {
    const state = begins ? `signs ${IN_FORCE}` : STATE_WORDS[key.state];
    return `${isFound ? "ok  " : "FAIL"}  ${key.selector} (${state}): ${says}.`;
  });
  const owned = `${verdict.isOwn ? "ok  " : "FAIL"}  ownership: ${verdict.says} (${ownership.says}).`;
  const returns = path ? [`${path.isFound ? "ok  " : "note"}  return path: ${path.says}.`] : [];
  say(options, values, [...lines, owned, ...returns].join("\n"));
  judge(verdict, ownership, current);
}

/** Mail goes without it too: then its return path is below the operator's domain. */
async function returnPathOf(
  { sql, clock, config: { bounceDomain } }: Context,
  claim: SenderDomain,
  resolver: Resolver,
): Promise<DnsFinding | null> {
  if (bounceDomain === null) return null;
  const askMx = (name: string) => resolver.resolveMx(name);
  return checkReturnPath(sql, { bounceDomain, askMx }, claim, clock.now());
}

type DomainVerdict = { isOwn: boolean; says: string };

function notShown(domain: string): DomainVerdict {
  return { isOwn: false, says: `no record in DNS shows that ${domain} belongs to this workspace` };
}

async function claimFor(
  { sql, clock, keyring }: Context,
  claim: SenderDomain,
  askTxt: AskTxt,
): Promise<DomainVerdict> {
  const verified = await claimDomain({ sql, askTxt, now: clock.now() }, claim);
  switch (verified.kind) {
    case "verified":
      await forgetAll(keyring, verified.raised);
      return { isOwn: true, says: `${claim.domain} is verified for this workspace` };
    case "another's": {
      const why = verified.isUnknown ? "could not be checked, because DNS did not answer" : "is still in DNS";
      return {
        isOwn: false,
        says: `another workspace has ${claim.domain}, and its record ${why}: remove that record from DNS, then verify again`,
      };
    }
    case "gone":
      return { isOwn: false, says: `${claim.domain} was removed by another command` };
  }
}

type KeyFinding = DnsFinding & { key: DomainKey };

async function begins(
  { sql }: Context,
  { key, isFound }: KeyFinding,
  { workspace }: DomainOf,
): Promise<boolean> {
  return key.state === "waiting" && isFound && (await putToUse(sql, { ...key, workspaceId: workspace }));
}

function judge(verdict: DomainVerdict, ownership: DnsFinding, current: readonly KeyFinding[]): void {
  const wanting = current.filter(({ isFound }) => !isFound);
  if (wanting.some(({ isUnknown }) => isUnknown))
    throw new CommandError("DNS did not answer. Try again, or name another server with --resolver.");
  if (wanting.some(({ key }) => key.state === "signing"))
    throw new CommandError(
      "A key in use is missing in DNS: receivers cannot verify its signatures. Publish the record that `postrider domain show` prints.",
    );
  // with the record of ownership the workspace may write, unsigned until its key is there
  if (wanting.length > 0 && !ownership.isFound)
    throw new CommandError(
      "The new key is not in DNS yet. Publish the record that `postrider domain show` prints, and try again later.",
    );
  if (!verdict.isOwn) throw new CommandError(`Not verified: ${verdict.says}.`);
}

async function forgetAll(keyring: Context["keyring"], raised: readonly Raised[]): Promise<void> {
  for (const { handle, version } of raised) await keyring.forget(handle, version);
}

async function claimOf({ sql }: Context, domain: string, { workspace }: DomainOf): Promise<SenderDomain> {
  const claim = await findDomain(sql, workspace, domain);
  if (!claim) throw new CommandError(`${domain} was removed by another command.`);
  return claim;
}

function ownershipLine(claim: SenderDomain): string {
  return `${ownershipName(claim.domain)}. 3600 IN TXT "${ownershipText(claim)}"`;
}

/** Who wrote a report is their own claim. */
export async function reports({ sql }: Context, domain: string, options: OutputOptions): Promise<void> {
  const heard = await listTlsReports(sql, domain);
  const values = heard.map((one) => ({
    domain: one.domain,
    organization: one.organization,
    report_id: one.reportId,
    begins_at: one.beginsAt.toISOString(),
    ends_at: one.endsAt.toISOString(),
    policy: one.policy,
    succeeded: one.succeeded,
    failed: one.failed,
    failures: one.failures,
  }));
  const rows = values.map(({ begins_at, domain, organization, policy, succeeded, failed, failures }) => [
    begins_at.slice(0, 10),
    domain,
    organization,
    policy,
    succeeded,
    failed,
    failures
      .map(({ result, host, sessions }) => `${sessions} ${result}${host ? ` at ${host}` : ""}`)
      .join(", "),
  ]);
  const words =
    rows.length > 0
      ? table(rows, ["day", "domain", "reported by", "policy", "succeeded", "failed", "failures"])
      : `No TLS reports about ${domain} have been received. See docs/transport.md.`;
  say(options, values, words);
}

export async function remove(
  context: Context,
  domain: string,
  options: DomainOf & { selector?: string },
): Promise<void> {
  const keys = await someKeysOf(context, domain, options);
  const { selector } = options;
  const key = keys.find((one) => one.selector === selector);
  if (selector !== undefined && !key)
    throw new CommandError(`${domain} has no key ${selector}. \`postrider domain show\` lists its keys.`);
  if (key) {
    const isGone = await deleteDomainKey(context.sql, { ...key, workspaceId: options.workspace });
    if (!isGone)
      throw new CommandError(`The key ${selector} is in use. Rotate it first, or remove the whole domain.`);
  } else {
    const raised = await forgetDomain(context.sql, options.workspace, domain, new Date(context.clock.now()));
    await forgetAll(context.keyring, raised);
  }
  const gone = key ? 1 : keys.length;
  const words = key
    ? `The key ${selector} of ${domain} is removed. Remove ${recordName(key)} from DNS.`
    : `${domain} and its ${gone} keys are removed. This workspace can no longer send from it, unless a parent domain is verified.`;
  say(options, { domain, removed: gone }, words);
}

function keysOf({ sql }: Context, domain: string, { workspace }: DomainOf): Promise<DomainKey[]> {
  return listDomainKeys(sql, workspace, domain);
}

async function someKeysOf(context: Context, domain: string, options: DomainOf): Promise<DomainKey[]> {
  const keys = await keysOf(context, domain, options);
  if (keys.length === 0)
    throw new CommandError(
      `This workspace does not have the domain ${domain}. Add it with \`postrider domain add\`.`,
    );
  return keys;
}

function algorithmOf({ key, algorithm = "rsa" }: NewOptions): Algorithm {
  return key?.algorithm ?? algorithm;
}

function shown({ config: { bounceDomain } }: Context, key: DomainKey, claim: SenderDomain | null) {
  return {
    domain: key.domain,
    selector: key.selector,
    algorithm: key.algorithm,
    bits: bitsOf(publicKeyOf(key.publicKey)),
    state: key.state,
    created_at: time(key.createdAt),
    record: { name: recordName(key), type: "TXT", value: recordText(key) },
    verified: claim?.verifiedAt != null,
    ownership: claim && { name: ownershipName(claim.domain), type: "TXT", value: ownershipText(claim) },
    return_path: bounceDomain && { name: returnPathName(key.domain), type: "CNAME", value: bounceDomain },
  };
}
