/** `postrider doctor`: whether this machine and what it reaches can carry the engine, a line each. */

import { Resolver } from "node:dns/promises";
import { statfs } from "node:fs/promises";
import { Cluster, type Redis } from "ioredis";
import { checkServerBinary, hasServerBinary, WrongBinary } from "../api/binary.ts";
import { BUILT_IN, policyFileFault, policyInForce } from "../capacity/inforce.ts";
import { messageOf } from "../caught.ts";
import { inTime } from "../clock.ts";
import { type Config, homeFolder } from "../config.ts";
import { ownNameTrouble } from "../delivery/namecheck.ts";
import { daneFor } from "../delivery/receivers.ts";
import { smarthostTrouble } from "../delivery/smarthostcheck.ts";
import { hostsOf } from "../domain/returnpath.ts";
import { secretDigest } from "../ids.ts";
import { apart, SKEW_MS_MAX } from "../process/recordclock.ts";
import { postgresAt, redisAt, replicaAt, type Store, unreachable } from "../process/unreachable.ts";
import { canCommit } from "../record/db/cancommit.ts";
import { connectRecord, type Sql } from "../record/db/connect.ts";
import { schemaTrouble } from "../record/db/migrate.ts";
import { pastPooler } from "../record/db/pooler.ts";
import { replicaTrouble } from "../record/db/replica.ts";
import { clockTime } from "../record/db/time.ts";
import { encodingOf, encodingTrouble, majorVersion, versionTrouble } from "../record/db/version.ts";
import { countStsPolicies } from "../record/transport/stspolicies.ts";
import { countVerified } from "../record/workspaces/domains.ts";
import { findSecretDigest } from "../record/workspaces/secretcheck.ts";
import { tellingFault } from "../redis/anotherserver.ts";
import { evictionTrouble, infoOf, refusedWrites } from "../redis/canwrite.ts";
import { connectRedis, mastersOf } from "../redis/connect.ts";
import { missingRight } from "../redis/rights.ts";
import { urlAt } from "../rules/urlat.ts";
import { certificateTrouble } from "../submission/certificatecheck.ts";
import { settings } from "./context.ts";
import { findUnfinishedMoves } from "./openmoves.ts";
import { CommandError, type OutputOptions, say, table } from "./print.ts";

const ASK_MS_MAX = 5_000;
const SKEW_MS_WARN = 1_000;
/** As `engines` of package.json says. */
const NODE_MAJORS: readonly number[] = [20, 22];

const POOLED =
  "; Postgres is behind a pooler that takes no settings with a connection: transactions bring theirs, and nothing is prepared";

type CheckResult = { what: string; state: "ok" | "warn" | "fail"; detail: string };
/** Of a store, and how far its clock is ahead of this machine's, in ms; null when it could not be asked. */
type Examined = { findings: CheckResult[]; aheadMs: number | null };

export async function doctor(options: OutputOptions): Promise<void> {
  const config = settings();
  const [ofNode, binary, ofPostgres, ofRedis, ...others] = await Promise.all([
    node(),
    native(),
    postgres(config),
    redis(config),
    courier(config),
    publicUrl(config),
    returnPath(config),
    tlsReports(config),
    shapingFile(config),
    dane(config),
    submission(config),
    disk(config),
    moves(),
  ]);
  const clocks = clockFindings(ofPostgres.aheadMs, ofRedis.aheadMs);
  const findings = [ofNode, binary, ...ofPostgres.findings, ...ofRedis.findings, ...clocks, ...others];
  const rows = findings.map(({ state, what, detail }) => [state, what, detail]);
  say(options, findings, table(rows, ["", "what", "found"]));
  const failed = findings.filter(({ state }) => state === "fail");
  if (failed.length > 0) throw new CommandError(`${failed.length} of ${findings.length} checks failed.`);
}

async function shapingFile({ shapingFile: path }: Config): Promise<CheckResult> {
  const what = "shaping file";
  if (path === null) return { what, state: "ok", detail: "none: SHAPING_FILE is not set" };
  const { readShapingFile } = await import("../shaping/rulesfile.ts");
  try {
    const { rules } = readShapingFile(path).rules;
    return { what, state: "ok", detail: `${path} has ${rules.length} rules` };
  } catch (error) {
    return { what, state: "fail", detail: messageOf(error) };
  }
}

async function moves(): Promise<CheckResult> {
  const what = "moves";
  const found = await findUnfinishedMoves();
  if (found.length === 0) return { what, state: "ok", detail: "no workspace is between two cells" };
  const state = found.every(({ isServed }) => isServed) ? "warn" : "fail";
  return { what, state, detail: found.map(({ text }) => text).join("; ") };
}

function node(): CheckResult {
  const major = Number(process.versions.node.split(".")[0]);
  return {
    what: "Node",
    state: NODE_MAJORS.includes(major) ? "ok" : "fail",
    detail: `version ${process.versions.node}; 20 or 22 is needed, since uWebSockets.js has binaries for these`,
  };
}

async function native(): Promise<CheckResult> {
  const what = "uWebSockets.js";
  try {
    const binary = checkServerBinary();
    if (await hasServerBinary())
      return {
        what,
        state: "ok",
        detail:
          binary === "recorded"
            ? "the native binary loads and its hash is the recorded one"
            : "the native binary loads; no hash is recorded for this platform",
      };
  } catch (error) {
    if (error instanceof WrongBinary) return { what, state: "fail", detail: error.message };
  }
  return {
    what,
    state: "fail",
    detail: `no binary for Node ${process.versions.node} on ${process.platform}-${process.arch}: use Node 20 or 22`,
  };
}

async function postgres(config: Config): Promise<Examined> {
  const { databaseUrl, requireVerifiedDomains } = config;
  if (databaseUrl === null) return failed("Postgres", "DATABASE_URL is not set, and no engine runs here");
  const sql = connectRecord(databaseUrl, "setup", ASK_MS_MAX);
  try {
    const version = await answered(majorVersion(sql));
    const encoding = await encodingOf(sql);
    const migrationTrouble = await schemaTrouble(sql);
    const aheadMs = await aheadOfUs(() => clockTime(sql));
    const findings: CheckResult[] = [
      {
        what: "Postgres",
        state: versionTrouble(version) === null ? "ok" : "fail",
        detail: versionTrouble(version) ?? `version ${version}`,
      },
      {
        what: "encoding",
        state: encodingTrouble(encoding) === null ? "ok" : "fail",
        detail: encodingTrouble(encoding) ?? encoding,
      },
      {
        what: "migrations",
        state: migrationTrouble === null ? "ok" : "warn",
        detail: migrationTrouble ?? "applied",
      },
    ];
    findings.push(await commits(databaseUrl));
    findings.push(await readReplica(config.readDatabaseUrl, sql));
    if (migrationTrouble === null) {
      findings.push(await capsPolicy(config, await policyInForce(sql)));
      findings.push(secretFinding(config.secret, await findSecretDigest(sql)));
      findings.push(senders(await countVerified(sql), requireVerifiedDomains));
      findings.push(mtaSts(config, await countStsPolicies(sql, new Date(await clockTime(sql)))));
    }
    return { findings, aheadMs };
  } catch (error) {
    return failed("Postgres", lacking(postgresAt(databaseUrl), error));
  } finally {
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

/** Whether what somebody wrote or applied is in force. */
async function capsPolicy(
  { capsPolicy: path }: Config,
  inForce: Awaited<ReturnType<typeof policyInForce>>,
): Promise<CheckResult> {
  const what = "caps policy";
  const { version, refused } = inForce;
  const fault = path === null ? null : await policyFileFault(path, inForce);
  const trouble = refused ?? fault;
  if (trouble !== null) return { what, state: "warn", detail: trouble };
  const detail = version === BUILT_IN ? "the built-in policy is in force" : `version ${version} is in force`;
  return { what, state: "ok", detail };
}

/** Over connections as sends have them: a pooler may let others pass. */
async function commits(databaseUrl: string): Promise<CheckResult> {
  // what keeps it from being asked is named by the check
  const url = await pastPooler(databaseUrl, "commits", ASK_MS_MAX).catch(() => databaseUrl);
  const sql = connectRecord(url, "commits", ASK_MS_MAX);
  const trouble = await canCommit(sql).finally(() => sql.end({ timeout: 0 }));
  return {
    what: "commits",
    state: trouble === null ? "ok" : "fail",
    detail: trouble ?? `a send can be committed${url === databaseUrl ? "" : POOLED}`,
  };
}

/** Without it the primary answers. */
async function readReplica(url: string | null, primary: Sql): Promise<CheckResult> {
  const what = "read replica";
  if (url === null) return { what, state: "ok", detail: "none: READ_DATABASE_URL is not set" };
  const past = await pastPooler(url, "lists", ASK_MS_MAX).catch(() => url);
  const standby = connectRecord(past, "lists", ASK_MS_MAX);
  const trouble = await replicaTrouble(primary, standby, ASK_MS_MAX);
  standby.end({ timeout: 0 }).catch(() => {});
  if (trouble === null) return { what, state: "ok", detail: "it streams from the Postgres of DATABASE_URL" };
  const { why, error } = trouble;
  const detail = error === undefined ? `${why} (READ_DATABASE_URL)` : lacking(replicaAt(url), error);
  return { what, state: "warn", detail };
}

function secretFinding(secret: string | null, kept: Buffer | null): CheckResult {
  const what = "secret";
  if (secret === null) return { what, state: "warn", detail: "POSTRIDER_SECRET is not set" };
  if (kept === null)
    return { what, state: "ok", detail: "the first process that starts keeps a digest of it" };
  return kept.equals(secretDigest(secret))
    ? { what, state: "ok", detail: "POSTRIDER_SECRET is the one that this database belongs to" }
    : { what, state: "fail", detail: "POSTRIDER_SECRET is not the one that this database belongs to" };
}

/** Who may write as whom. */
function senders(
  { domains, without }: { domains: number; without: number },
  isRequired: boolean,
): CheckResult {
  const what = "senders";
  if (!isRequired)
    return {
      what,
      state: "warn",
      detail:
        "REQUIRE_VERIFIED_DOMAINS=false: any workspace may send from any domain that no other workspace has verified",
    };
  const lacking = `${without} ${without === 1 ? "workspace has" : "workspaces have"} none and cannot send (\`postrider domain add\`)`;
  const verified = `${domains} verified ${domains === 1 ? "domain" : "domains"}`;
  const detail = without === 0 ? verified : `${verified}; ${lacking}`;
  return { what, state: without > 0 ? "warn" : "ok", detail };
}

/** Whether receivers' policies about TLS are obeyed. */
function mtaSts(
  { courier, mtaSts }: Config,
  { all, enforced }: { all: number; enforced: number },
): CheckResult {
  const what = "MTA-STS";
  if (courier === "relay")
    return { what, state: "ok", detail: "not for this engine: the smarthost delivers" };
  if (!mtaSts)
    return { what, state: "warn", detail: "off (MTA_STS=false): policies of receivers are not obeyed" };
  return { what, state: "ok", detail: `on; ${all} policies are kept, ${enforced} of them enforced` };
}

async function redis({ redisUrl }: Config): Promise<Examined> {
  if (redisUrl === null) return failed("Redis", "REDIS_URL is not set, and no engine runs here");
  const client = connectRedis(redisUrl, "command", ASK_MS_MAX);
  let connectionError: unknown;
  client.on("error", (error) => {
    connectionError = tellingFault(connectionError, error);
  });
  try {
    const told = await answered(infoOf(client, "default"));
    const versions = told.map(
      (info) => /^(?:redis|valkey)_version:(.+)$/m.exec(info)?.[1]?.trim() ?? "unknown",
    );
    const eviction = told.map(evictionTrouble).find((trouble) => trouble !== null) ?? null;
    const trouble =
      eviction === null ? ((await refusedWrites(client, ASK_MS_MAX)) ?? (await missingRight(client))) : null;
    const clocks = await Promise.all((await mastersOf(client)).map(clockOf));
    const aheadMs = clocks.reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst));
    const findings: CheckResult[] = [
      {
        what: "Redis",
        state: versions.every((version) => Number.parseFloat(version) >= 6.2) ? "ok" : "warn",
        detail: `version ${[...new Set(versions)].join(", ")}; 6.2 or newer is needed`,
      },
      ...(client instanceof Cluster ? [await cluster(client)] : []),
      {
        what: "memory policy",
        state: eviction === null ? "ok" : "fail",
        detail: eviction ?? "noeviction",
      },
      {
        what: "Redis accepts writes",
        state: trouble === null ? "ok" : "fail",
        detail: trouble ?? "a key could be written",
      },
    ];
    return { findings, aheadMs };
  } catch (error) {
    return failed("Redis", lacking(redisAt(redisUrl), connectionError ?? error));
  } finally {
    client.disconnect();
  }
}

function clockOf(master: Redis): Promise<number> {
  return aheadOfUs(async () => {
    const [seconds, micros] = (await master.time()).map(Number) as [number, number];
    return seconds * 1000 + micros / 1000;
  });
}

async function cluster(client: Cluster): Promise<CheckResult> {
  const what = "Redis cluster";
  const [masters, replicas] = [client.nodes("master").length, client.nodes("slave").length];
  const info = await answered(client.cluster("INFO"));
  const isWhole = info.includes("cluster_state:ok");
  const detail = `${masters} masters, ${replicas} replicas`;
  if (!isWhole) return { what, state: "fail", detail: `${detail}; some of its slots are served by nobody` };
  return replicas > 0
    ? { what, state: "ok", detail }
    : { what, state: "warn", detail: `${detail}: nobody takes over when a master is lost` };
}

async function courier(config: Config): Promise<CheckResult> {
  return config.courier === "relay" ? smarthost(config) : ourName(config);
}

async function ourName(config: Config): Promise<CheckResult> {
  const what = "EHLO name";
  if (config.smtpUrl !== null)
    return {
      what,
      state: "fail",
      detail: "COURIER=direct uses no smarthost, but SMTP_URL is set: unset one of them",
    };
  const doubt = await ownNameTrouble(config);
  return doubt === null
    ? { what, state: "ok", detail: "the PTR record of its address points back to it" }
    : { what, state: "warn", detail: doubt };
}

async function smarthost(config: Config): Promise<CheckResult> {
  const what = "smarthost";
  if (config.smtpUrl === null)
    return { what, state: "warn", detail: "SMTP_URL is not set: mail cannot leave" };
  try {
    const refusal = await smarthostTrouble(config.smtpUrl, config, ASK_MS_MAX);
    return refusal
      ? { what, state: "fail", detail: `${refusal.phase}: ${refusal.text}` }
      : { what, state: "ok", detail: "accepts our connection and login" };
  } catch (error) {
    return { what, state: "fail", detail: messageOf(error) };
  }
}

/** Whether receivers can tell us what became of mail that they took. */
async function returnPath({ bounceDomain, feedbackAddresses, dnsServers }: Config): Promise<CheckResult> {
  const what = "return path";
  if (bounceDomain === null)
    return {
      what,
      state: "warn",
      detail:
        feedbackAddresses.length > 0
          ? "BOUNCE_DOMAIN is not set: bounces after delivery are not received"
          : "BOUNCE_DOMAIN is not set: bounces and complaints after delivery are not received",
    };
  const resolver = new Resolver({ timeout: ASK_MS_MAX, tries: 1 });
  if (dnsServers.length > 0) resolver.setServers(dnsServers);
  const hosts = await hostsOf(bounceDomain, (name) => resolver.resolveMx(name));
  if (hosts === null) return { what, state: "warn", detail: `DNS gave no answer for ${bounceDomain}` };
  return hosts.length === 0
    ? {
        what,
        state: "warn",
        detail: `${bounceDomain} has no MX record, so no report can reach the role inbound`,
      }
    : { what, state: "ok", detail: `reports to ${bounceDomain} go to ${hosts.join(", ")}` };
}

/** Whether reports about TLS are sent to receivers, and read. */
function tlsReports({ courier, tlsReportsFrom, tlsReportsTo }: Config): CheckResult {
  const sent =
    courier === "relay"
      ? "sent by the smarthost, not by this engine"
      : tlsReportsFrom === null
        ? "not sent (TLS_REPORTS_FROM is not set)"
        : `sent from ${tlsReportsFrom}`;
  const read =
    tlsReportsTo.length > 0 ? `read at ${tlsReportsTo.join(", ")}` : "not read (TLS_REPORTS_TO is not set)";
  return { what: "TLS reports", state: "ok", detail: `${sent}; ${read}` };
}

/** Whether the resolver proves what it says now, as workers ask before they rely on it. */
async function dane(config: Config): Promise<CheckResult> {
  const what = "DANE";
  if (config.courier === "relay")
    return { what, state: "ok", detail: "not for this engine: the smarthost delivers" };
  const asked = daneFor(config);
  if (asked === null) return { what, state: "ok", detail: "off (DANE_RESOLVER is not set)" };
  const doubt = await asked.doubt();
  return doubt === null
    ? { what, state: "ok", detail: "on: the resolver validates DNSSEC" }
    : { what, state: "warn", detail: `off: ${doubt}` };
}

function publicUrl({ publicUrl: url, host, port }: Config): CheckResult {
  const what = "public URL";
  if (url !== null) return { what, state: "ok", detail: `links in e-mails start with ${url}` };
  const detail = `PUBLIC_URL is not set: links in e-mails start with ${urlAt(host, port)}, which recipients cannot open`;
  return { what, state: "warn", detail };
}

/** Whether clients can log in to the submission ports. */
function submission(config: Config): CheckResult {
  const what = "submission";
  const { submissionPort, submissionTlsPort } = config;
  if (submissionPort === null && submissionTlsPort === null)
    return { what, state: "ok", detail: "none: neither SUBMISSION_PORT nor SUBMISSION_TLS_PORT is set" };
  const trouble = certificateTrouble(config, Date.now());
  if (trouble) return { what, state: trouble.isFatal ? "fail" : "warn", detail: trouble.detail };
  return { what, state: "ok", detail: "its certificate is in date and has its key" };
}

async function disk(config: Config): Promise<CheckResult> {
  const folder = config.postgresDataFolder ?? homeFolder(config);
  const stats = await statfs(folder).catch(() => statfs("."));
  const freeMb = Math.round((stats.bavail * stats.bsize) / 1048576);
  const then = config.postgresDataFolder
    ? `sends are refused below ${config.diskFreeMinMb} MB (DISK_FREE_MIN_MB)`
    : "no send is refused for a full disk, since POSTGRES_DATA_FOLDER is not set here";
  return {
    what: "disk",
    state: freeMb >= config.diskFreeMinMb ? "ok" : "warn",
    detail: `${freeMb} MB free; ${then}`,
  };
}

function failed(what: string, detail: string): Examined {
  return { findings: [{ what, state: "fail", detail }], aheadMs: null };
}

async function aheadOfUs(ask: () => Promise<number>): Promise<number> {
  const asked = Date.now();
  const theirs = await answered(ask());
  return theirs - (asked + Date.now()) / 2;
}

/** Postgres' clock is the measure, because everyone follows it. */
function clockFindings(postgresMs: number | null, redisMs: number | null): CheckResult[] {
  if (postgresMs === null) return [];
  const ours = clockFinding("clock", -postgresMs);
  return redisMs === null ? [ours] : [ours, clockFinding("clock of Redis", redisMs - postgresMs)];
}

function clockFinding(what: string, aheadMs: number): CheckResult {
  const detail = apart(aheadMs, "Postgres");
  const ms = Math.abs(aheadMs);
  if (ms <= SKEW_MS_WARN) return { what, state: "ok", detail };
  return {
    what,
    state: ms <= SKEW_MS_MAX ? "warn" : "fail",
    detail: `${detail}: one of the two clocks is wrong. Does NTP run on both?`,
  };
}

function lacking(store: Store, error: unknown): string {
  return unreachable(store, error === NO_ANSWER ? undefined : error).message;
}

const NO_ANSWER = new Error("no answer");

function answered<T>(promise: Promise<T>): Promise<T> {
  return inTime(ASK_MS_MAX, promise, () => {
    throw NO_ANSWER;
  });
}
