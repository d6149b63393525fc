/**
 * Finds the Redis server program on PATH. On Debian and Ubuntu, as root, a missing one is installed with
 * apt-get, and the server that the package brings is not started; elsewhere the command that installs it is
 * said.
 */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { childEnv } from "../config.ts";

const PROGRAMS = ["redis-server", "valkey-server"];
const APT_MS_MAX = 300_000;
const APT_OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
const SERVICE_POLICY = "/usr/sbin/policy-rc.d";
const run = promisify(execFile);

/** Nothing can be done about it from here: the message says what the user can do. */
class NoRedisError extends Error {}

export async function redisProgram(log: (line: string) => void): Promise<string> {
  const found = onPath();
  if (found) return found;
  const isDebian = existsSync("/etc/debian_version");
  if (!isDebian || process.getuid?.() !== 0) throw new NoRedisError(advice(isDebian));
  log("Redis is not installed: installing redis-server with apt-get");
  try {
    await withoutService(install);
  } catch (error) {
    const [line] = error instanceof Error ? error.message.split("\n") : [String(error)];
    throw new NoRedisError(`apt-get could not install redis-server (${line}). ${advice(isDebian)}`);
  }
  const installed = onPath();
  if (!installed) throw new NoRedisError("redis-server was installed, but is not on PATH.");
  return installed;
}

function onPath(): string | null {
  return PROGRAMS.find((name) => spawnSync(name, ["--version"]).status === 0) ?? null;
}

function advice(isDebian: boolean): string {
  if (isDebian) return "Redis is needed: run `sudo apt-get install -y redis-server`, or set REDIS_URL.";
  if (process.platform === "darwin") return "Redis is needed: run `brew install redis`, or set REDIS_URL.";
  return "Redis is needed: install the package `redis` or `valkey` of your system, or set REDIS_URL.";
}

async function install(): Promise<void> {
  const apt = (...args: string[]) =>
    run("apt-get", args, {
      env: childEnv({ DEBIAN_FRONTEND: "noninteractive" }),
      timeout: APT_MS_MAX,
      maxBuffer: APT_OUTPUT_BYTES_MAX,
    });
  const wanted = ["install", "-y", "--no-install-recommends", "redis-server"];
  try {
    await apt(...wanted);
  } catch {
    // a fresh machine does not know its packages yet
    await apt("update");
    await apt(...wanted);
  }
}

/** The policy holds as long as this process lives, should it be killed before it can take it back. */
async function withoutService(act: () => Promise<void>): Promise<void> {
  const isOurs = !existsSync(SERVICE_POLICY);
  if (isOurs)
    writeFileSync(SERVICE_POLICY, `#!/bin/sh\nkill -0 ${process.pid} 2>/dev/null && exit 101\nexit 0\n`, {
      mode: 0o755,
    });
  try {
    await act();
  } finally {
    if (isOurs) rmSync(SERVICE_POLICY);
  }
}
