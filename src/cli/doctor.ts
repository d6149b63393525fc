/** `postrider doctor`: whether this machine and what it reaches can carry the engine, a line each. */
import { statfs } from "node:fs/promises";
import { Command } from "commander";
import { hasServerBinary } from "../api/binary.ts";
import { type Config, homeFolder } from "../config.ts";
import { doubtAboutUs } from "../delivery/credence.ts";
import { knock } from "../delivery/knock.ts";
import { connectRecord } from "../record/connect.ts";
import { askServer } from "../record/doctor.ts";
import { isMigrated } from "../record/migrate.ts";
import { connectRedis } from "../redis/connect.ts";
import { CommandError, type Output, say, settings, table } from "./context.ts";

const ASK_MS_MAX = 5_000;
const SKEW_MS_MAX = 1_000;
const POSTGRES_MIN = 15;

type Finding = { what: string; state: "ok" | "warn" | "fail"; detail: string };

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("check this machine, Postgres, Redis, and who takes the mail or what receivers think of us")
    .option("--json", "as JSON")
    .action(async (options: Output) => {
      const config = settings();
      const findings = (
        await Promise.all([node(), native(), postgres(config), redis(config), courier(config), disk(config)])
      ).flat();
      const rows = findings.map(({ state, what, detail }) => [state, what, detail]);
      say(options, findings, table(rows, ["", "what", "found"]));
      const failed = findings.filter(({ state }) => state === "fail");
      if (failed.length > 0) throw new CommandError(`${failed.length} of ${findings.length} checks failed.`);
    });
}

function node(): Finding {
  const major = Number(process.versions.node.split(".")[0]);
  return {
    what: "Node",
    state: major >= 20 ? "ok" : "fail",
    detail: `${process.versions.node}, 20 or newer is needed`,
  };
}

async function native(): Promise<Finding> {
  if (await hasServerBinary()) return { what: "uWebSockets.js", state: "ok", detail: "its binary loads" };
  const detail = `no binary for Node ${process.versions.node} on this machine`;
  return { what: "uWebSockets.js", state: "fail", detail };
}

async function postgres({ databaseUrl }: Config): Promise<Finding[]> {
  if (databaseUrl === null)
    return [{ what: "Postgres", state: "fail", detail: "DATABASE_URL is not set and nothing runs here" }];
  const sql = connectRecord(databaseUrl, "setup", ASK_MS_MAX);
  try {
    const { version, now } = await inTime(askServer(sql));
    const isMigratedNow = await isMigrated(sql).catch(() => false);
    return [
      {
        what: "Postgres",
        state: version >= POSTGRES_MIN ? "ok" : "fail",
        detail: `version ${version}, ${POSTGRES_MIN} or newer is needed`,
      },
      {
        what: "migrations",
        state: isMigratedNow ? "ok" : "warn",
        detail: isMigratedNow ? "applied" : "missing: run postrider migrate",
      },
      skew("clock of Postgres", now.getTime()),
    ];
  } catch (error) {
    return [{ what: "Postgres", state: "fail", detail: reason(error) }];
  } finally {
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

async function redis({ redisUrl }: Config): Promise<Finding[]> {
  if (redisUrl === null)
    return [{ what: "Redis", state: "fail", detail: "REDIS_URL is not set and nothing runs here" }];
  const client = connectRedis(redisUrl, "worker", ASK_MS_MAX);
  client.on("error", () => {});
  try {
    const info = await inTime(client.info());
    const version = /^(?:redis|valkey)_version:(.+)$/m.exec(info)?.[1]?.trim() ?? "unknown";
    const policy = /^maxmemory_policy:(.+)$/m.exec(info)?.[1]?.trim() ?? "unknown";
    const [seconds, micros] = (await inTime(client.time())).map(Number) as [number, number];
    return [
      {
        what: "Redis",
        state: Number.parseFloat(version) >= 6.2 ? "ok" : "warn",
        detail: `version ${version}, 6.2 or newer is needed`,
      },
      {
        what: "memory policy",
        state: policy === "noeviction" ? "ok" : "fail",
        detail: policy === "noeviction" ? policy : `${policy}: set maxmemory-policy noeviction`,
      },
      skew("clock of Redis", seconds * 1000 + micros / 1000),
    ];
  } catch (error) {
    return [{ what: "Redis", state: "fail", detail: reason(error) }];
  } finally {
    client.disconnect();
  }
}

async function courier(config: Config): Promise<Finding> {
  return config.courier === "relay" ? smarthost(config) : ourName(config);
}

async function ourName(config: Config): Promise<Finding> {
  const what = "our name";
  if (config.smtpUrl !== null)
    return { what, state: "fail", detail: "COURIER=direct needs no smarthost, but SMTP_URL is set" };
  const doubt = await doubtAboutUs(config);
  return doubt === null
    ? { what, state: "ok", detail: "has an address whose PTR record says it" }
    : { what, state: "warn", detail: doubt };
}

async function smarthost(config: Config): Promise<Finding> {
  const what = "smarthost";
  if (config.smtpUrl === null) return { what, state: "warn", detail: "SMTP_URL is not set" };
  try {
    const refusal = await knock(config.smtpUrl, config, ASK_MS_MAX);
    return refusal
      ? { what, state: "fail", detail: `${refusal.phase}: ${refusal.text}` }
      : { what, state: "ok", detail: "lets us in" };
  } catch (error) {
    return { what, state: "fail", detail: reason(error) };
  }
}

async function disk(config: Config): Promise<Finding> {
  const folder = config.postgresDataFolder ?? homeFolder(config);
  const stats = await statfs(folder).catch(() => statfs("."));
  const freeMb = Math.round((stats.bavail * stats.bsize) / 1048576);
  return {
    what: "disk",
    state: freeMb >= config.diskFreeMinMb ? "ok" : "warn",
    detail: `${freeMb} MB free, sends stop below ${config.diskFreeMinMb}`,
  };
}

function skew(what: string, theirs: number): Finding {
  const ms = Math.round(theirs - Date.now());
  return { what, state: Math.abs(ms) <= SKEW_MS_MAX ? "ok" : "warn", detail: `${ms} ms from ours` };
}

function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer")), ASK_MS_MAX);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message || String((error as { code?: string }).code) : String(error);
}
