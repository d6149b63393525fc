/**
 * `postrider domain`: which domains a workspace may write from, the keys that sign its mail, what DNS has to say of both,
 * and whether it does.
 */
import { Resolver } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import {
  bitsOf,
  makeKey,
  newSelector,
  type PrivateKey,
  publicPartOf,
  RSA_BITS_ADVISED,
  readDomain,
  readKey,
  readSelector,
  Sealer,
} from "../domain/key.ts";
import { judgeProof, lookUpOwnership, ownershipName, ownershipText } from "../domain/ownership.ts";
import {
  type AskTxt,
  type Finding,
  lookUp,
  publicKeyOf,
  recordName,
  recordText,
  zoneLine,
} from "../domain/published.ts";
import { returnPathLine, returnPathName } from "../domain/returnpath.ts";
import { checkReturnPath, claimDomain } from "../domain/verify.ts";
import {
  type Algorithm,
  type DomainKey,
  deleteDomainKeys,
  insertDomainKey,
  listDomainKeys,
  putToUse,
} from "../record/domains.ts";
import { findDomain, forgetDomain, listDomains, type Raised, type SenderDomain } from "../record/senders.ts";
import {
  CommandError,
  type Context,
  type Output,
  requireSecret,
  say,
  table,
  time,
  withContext,
} from "./context.ts";
import { readId } from "./workspace.ts";

const ASK_MS_MAX = 3_000;
const ASK_TRIES = 2;
/** Workers look at the record again within this time. */
const IN_FORCE = "within 10 seconds";

type Of = Output & { workspace: string };
type NewOptions = Of & { selector?: string; key?: PrivateKey; algorithm?: Algorithm; now?: boolean };

export function domainCommand(): Command {
  const command = new Command("domain").description(
    "domains that a workspace writes from, and the keys that sign their mail (DKIM)",
  );
  addNew(
    command,
    "add",
    "names a domain to write from, with those below it, and makes a key that signs its mail",
    add,
  );
  addNew(command, "rotate", "another key, which takes the place of the one that signs", rotate);
  of(command, "list")
    .description("all keys of the workspace, and which domains are verified")
    .action((options) => withContext((context) => list(context, options)));
  of(command, "show")
    .argument("<domain>", "which", readName)
    .description("what to publish in DNS")
    .action((domain, options) => withContext((context) => show(context, domain, options)));
  of(command, "verify")
    .argument("<domain>", "which", readName)
    .option("--resolver <address>", "the DNS server to ask: 192.0.2.1 or 192.0.2.1:53", readServer)
    .description(
      "looks in DNS for the keys and the record of ownership: either verifies the domain, and a key that waits begins to sign",
    )
    .action((domain, options) =>
      withContext((context) => verify(context, domain, options), { isLong: true }),
    );
  of(command, "remove")
    .argument("<domain>", "which", readName)
    .option("--selector <name>", "this key only, which must not be the one that signs", readLabel)
    .description("forgets a domain, so that the workspace no longer writes from it, or one of its keys")
    .action((domain, options) => withContext((context) => remove(context, domain, options)));
  return command;
}

function of(command: Command, name: string): Command {
  return command
    .command(name)
    .requiredOption("--workspace <id>", "whose domain", readId)
    .option("--json", "as JSON");
}

function addNew(
  command: Command,
  name: string,
  does: string,
  run: (context: Context, domain: string, options: NewOptions) => Promise<void>,
): void {
  of(command, name)
    .argument("<domain>", "what follows @ in the senders' addresses, or a domain above it", readName)
    .option("--selector <name>", "where in DNS the key stands; default: a name of its own", readLabel)
    .addOption(
      new Option("--algorithm <name>", "of a key to be made (rsa); an ed25519 key signs besides an rsa key")
        .choices(["rsa", "ed25519"])
        .conflicts("key"),
    )
    .option("--key <file>", "a private key of yours, PEM, instead of one made here", readKeyFile)
    .option("--now", "sign at once, without waiting for `verify` to find the key in DNS")
    .description(does)
    .action((domain, options) => withContext((context) => run(context, domain, options)));
}

async function add(context: Context, domain: string, options: NewOptions): Promise<void> {
  const algorithm = algorithmOf(options);
  const keys = await keysOf(context, domain, options);
  if (keys.some((key) => key.algorithm === algorithm && key.state !== "retired"))
    throw new CommandError(`${domain} has an ${algorithm} key already: use \`domain rotate\`.`);
  await enter(context, domain, options);
}

async function rotate(context: Context, domain: string, options: NewOptions): Promise<void> {
  const algorithm = algorithmOf(options);
  const keys = (await keysOf(context, domain, options)).filter((key) => key.algorithm === algorithm);
  if (!keys.some((key) => key.state === "signing"))
    throw new CommandError(`No ${algorithm} key signs for ${domain} yet: use \`domain add\` or \`verify\`.`);
  const waiting = keys.find((key) => key.state === "waiting");
  if (waiting) throw new CommandError(`The key ${waiting.selector} waits already: verify it, or remove it.`);
  await enter(context, domain, options);
}

async function enter(context: Context, domain: string, options: NewOptions): Promise<void> {
  const secret = requireSecret(context);
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
  if (entered === "unknown workspace") throw new CommandError(`There is no workspace ${workspaceId}.`);
  if (entered === "taken")
    throw new CommandError(`${domain} has a key ${selector} already, or another one was just made.`);
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
      ? [`A key of ${bits} bits is short: some receivers do not count it. ${RSA_BITS_ADVISED} are advised.`]
      : []),
    now
      ? `It signs ${IN_FORCE}.`
      : `It signs once \`postrider domain verify ${domain} --workspace ${workspaceId}\` has found it there.`,
    ...(claim.verifiedAt === null
      ? [
          "",
          `The same command verifies ${domain} for this workspace, which may then write from it. To do so without`,
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

async function list(context: Context, options: Of): Promise<void> {
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

async function show(context: Context, domain: string, options: Of): Promise<void> {
  const keys = await someKeysOf(context, domain, options);
  const claim = await claimOf(context, domain, options);
  const words = keys.flatMap((key) => [
    `; ${key.selector}, ${key.algorithm}: ${STATE_WORDS[key.state]}`,
    zoneLine(key),
    "",
  ]);
  const ownership = [
    `; ownership: ${claim.verifiedAt === null ? "not verified" : "verified"}; this record or that of a key shows it`,
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
    "; Advisable besides, unless the domain has them:",
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
  retired: "signs no more; mail on its way is verified with it, so leave it for a week",
};

async function verify(context: Context, domain: string, options: Of & { resolver?: string }): Promise<void> {
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
): Promise<Finding | null> {
  if (bounceDomain === null) return null;
  const askMx = (name: string) => resolver.resolveMx(name);
  return checkReturnPath(sql, { bounceDomain, askMx }, claim, clock.now());
}

type Verdict = { isOwn: boolean; says: string };

function notShown(domain: string): Verdict {
  return { isOwn: false, says: `nothing in DNS shows that ${domain} is this workspace's` };
}

async function claimFor(
  { sql, clock, keyring }: Context,
  claim: SenderDomain,
  askTxt: AskTxt,
): Promise<Verdict> {
  const verified = await claimDomain({ sql, askTxt, now: clock.now() }, claim);
  switch (verified.kind) {
    case "verified":
      await forgetAll(keyring, verified.raised);
      return { isOwn: true, says: `${claim.domain} is verified for this workspace` };
    case "another's": {
      const why = verified.isUnknown ? "could not be asked for now" : "is still in DNS";
      return {
        isOwn: false,
        says: `another workspace has ${claim.domain}, and its record ${why}: take that out of DNS, then verify again`,
      };
    }
    case "gone":
      return { isOwn: false, says: `${claim.domain} was removed meanwhile` };
  }
}

type KeyFinding = Finding & { key: DomainKey };

async function begins({ sql }: Context, { key, isFound }: KeyFinding, { workspace }: Of): Promise<boolean> {
  return key.state === "waiting" && isFound && (await putToUse(sql, { ...key, workspaceId: workspace }));
}

function judge(verdict: Verdict, ownership: Finding, current: readonly KeyFinding[]): void {
  const wanting = current.filter(({ isFound }) => !isFound);
  if (wanting.some(({ isUnknown }) => isUnknown)) throw new CommandError("DNS could not be asked.");
  if (wanting.some(({ key }) => key.state === "signing"))
    throw new CommandError("A key that signs is not in DNS: receivers do not verify the mail.");
  // with the record of ownership the workspace may write, unsigned until its key is there
  if (wanting.length > 0 && !ownership.isFound) throw new CommandError("A key that waits is not in DNS yet.");
  if (!verdict.isOwn) throw new CommandError(`Not verified: ${verdict.says}.`);
}

async function forgetAll(keyring: Context["keyring"], raised: readonly Raised[]): Promise<void> {
  for (const { handle, version } of raised) await keyring.forget(handle, version);
}

async function claimOf({ sql }: Context, domain: string, { workspace }: Of): Promise<SenderDomain> {
  const claim = await findDomain(sql, workspace, domain);
  if (!claim) throw new CommandError(`${domain} was removed meanwhile.`);
  return claim;
}

function ownershipLine(claim: SenderDomain): string {
  return `${ownershipName(claim.domain)}. 3600 IN TXT "${ownershipText(claim)}"`;
}

async function remove(context: Context, domain: string, options: Of & { selector?: string }): Promise<void> {
  const keys = await someKeysOf(context, domain, options);
  const { selector } = options;
  const key = keys.find((one) => one.selector === selector);
  if (selector !== undefined && !key) throw new CommandError(`${domain} has no key ${selector}.`);
  const gone = await deleteDomainKeys(context.sql, options.workspace, domain, selector ?? null);
  if (gone === 0)
    throw new CommandError(`The key ${selector} signs: rotate first, or remove the whole domain.`);
  if (selector === undefined) {
    const raised = await forgetDomain(context.sql, options.workspace, domain, new Date(context.clock.now()));
    await forgetAll(context.keyring, raised);
  }
  const words = key
    ? `The key ${selector} of ${domain} is gone; take ${recordName(key)} out of DNS.`
    : `${domain} is forgotten with ${gone} keys; this workspace writes from it no longer, unless a domain above it is verified.`;
  say(options, { domain, removed: gone }, words);
}

function keysOf({ sql }: Context, domain: string, { workspace }: Of): Promise<DomainKey[]> {
  return listDomainKeys(sql, workspace, domain);
}

async function someKeysOf(context: Context, domain: string, options: Of): Promise<DomainKey[]> {
  const keys = await keysOf(context, domain, options);
  if (keys.length === 0)
    throw new CommandError(`This workspace has no key for ${domain}: use \`domain add\`.`);
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

function readName(text: string): string {
  const domain = readDomain(text);
  if (domain === null) throw new InvalidArgumentError("It must be a domain with two labels at least.");
  return domain;
}

function readLabel(text: string): string {
  const selector = readSelector(text);
  if (selector === null) throw new InvalidArgumentError("It must be made of letters, digits and hyphens.");
  return selector;
}

function readKeyFile(file: string): PrivateKey {
  try {
    return readKey(readFileSync(file, "utf8"));
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

function readServer(text: string): string {
  try {
    new Resolver().setServers([text]);
    return text;
  } catch {
    throw new InvalidArgumentError("It must be an IP address, with or without a port.");
  }
}
