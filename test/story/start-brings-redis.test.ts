/**
 * A machine that has no Redis: on Debian as root it is installed, and what cannot be done is said in one line
 * with the command that does it. The machine is played by a PATH that holds nothing but an apt-get of ours.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshHome, start } from "../rig/start.ts";

const CAN_INSTALL = process.getuid?.() === 0 && existsSync("/etc/debian_version");
const HAS_POLICY = existsSync("/usr/sbin/policy-rc.d");
const INSTALL = "install -y --no-install-recommends redis-server";
const REDIS = execFileSync("sh", ["-c", "command -v redis-server || command -v valkey-server"], {
  encoding: "utf8",
}).trim();

let database: OwnDatabase;
beforeAll(async () => {
  database = await ownDatabase();
});
afterAll(() => database.drop());

/**
 * A start on a machine where apt-get does this; BIN is the only folder of PATH, and `asked` the calls so far.
 */
function startWhere(aptGet: string) {
  const bin = join(freshHome(), "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "apt-get"), `#!/bin/sh\nBIN=${bin}\necho "$@" >> $BIN/asked\n${aptGet}\n`, {
    mode: 0o755,
  });
  const root = start(freshHome(), {
    PATH: bin,
    DATABASE_URL: database.url,
    SMTP_URL: "smtp://127.0.0.1:1",
  });
  return { root, asked: () => readFileSync(join(bin, "asked"), "utf8").trim().split("\n") };
}

test.runIf(CAN_INSTALL)("it is installed, also where no package is known yet, and runs", async () => {
  const { root, asked } = startWhere(`
    if [ "$1" = update ]; then : > $BIN/known; exit 0; fi
    [ -e $BIN/known ] || exit 100
    /bin/ln -s ${REDIS} $BIN/redis-server`);
  const { redis_url } = await root.ready();
  expect(root.said().out).toContain("Redis is not installed: installing redis-server with apt-get ...");
  expect(asked()).toEqual([INSTALL, "update", INSTALL]);
  expect(redis_url).toMatch(/^redis:\/\/:[0-9a-f]{36}@127\.0\.0\.1:\d+$/);
  root.signal("SIGTERM");
  expect(await root.ended).toBe(0);
});

test.runIf(CAN_INSTALL)(
  "no service of the package is started meanwhile, and others may start again later",
  async () => {
    const { root, asked } = startWhere(
      `/usr/sbin/policy-rc.d redis-server start; echo "policy $?" >> $BIN/asked; exit 100`,
    );
    expect(await root.ended).toBe(1);
    if (!HAS_POLICY) expect(asked().slice(0, 2)).toEqual([INSTALL, "policy 101"]);
    expect(existsSync("/usr/sbin/policy-rc.d")).toBe(HAS_POLICY);
  },
);

test("what cannot be installed is said in one line, with the command", async () => {
  const { root } = startWhere("exit 100");
  expect(await root.ended).toBe(1);
  expect(root.said().err).toMatch(
    /^[^\n]*(apt-get install -y redis-server|brew install redis|install the package)[^\n]*\n$/,
  );
});
