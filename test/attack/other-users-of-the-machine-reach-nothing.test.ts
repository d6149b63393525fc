/**
 * What `npm start` keeps on a machine that others use too: another user of it can neither read nor write the
 * home folder, Redis or Postgres, also when an earlier version left the folder open.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, lstatSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freshHome, start } from "../rig/start.ts";

const CAN_BE_OTHERS = process.getuid?.() === 0;
const NOBODY = 65_534;
/** A cluster of Postgres is made first. */
const START_MS_MAX = 120_000;
const SMTP = { SMTP_URL: "smtp://127.0.0.1:1" };

/** Postgres and Redis go on making and removing files meanwhile. */
const statusOf = (path: string) => lstatSync(path, { throwIfNoEntry: false });

function allBelow(folder: string): string[] {
  const paths = namesIn(folder).map((name) => join(folder, name));
  return paths.flatMap((path) => [path, ...(statusOf(path)?.isDirectory() ? allBelow(path) : [])]);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Sockets too: who cannot enter their folder cannot connect, but a folder may be moved. */
function openToOthers(folder: string): string[] {
  return [folder, ...allBelow(folder)].filter((path) => ((statusOf(path)?.mode ?? 0) & 0o077) !== 0);
}

/** What a program of another user says, and whether it could. */
function asNobody(program: string, ...args: string[]): { status: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync(program, args, {
    uid: NOBODY,
    gid: NOBODY,
    cwd: "/",
    encoding: "utf8",
  });
  return { status, said: `${stdout}${stderr}` };
}

/** What a server says to these words. */
function answerTo(port: number, words: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(words));
    socket.setEncoding("latin1").once("data", (text) => {
      socket.destroy();
      resolve(String(text));
    });
    socket.once("error", reject);
  });
}

test(
  "another user can neither read nor write, and connects to nothing without a password",
  async () => {
    const home = freshHome();
    const { redis_url, database_url } = await start(home, SMTP).ready();
    expect(statSync(home).mode & 0o777).toBe(0o700);
    expect(openToOthers(home)).toEqual([]);

    const redis = new URL(redis_url as string);
    expect(redis.password.length).toBeGreaterThan(30);
    const words = ["PING", "FLUSHALL", "CONFIG SET dir /tmp", "AUTH wrong", "AUTH default", "HELLO 3"];
    for (const word of words)
      expect(await answerTo(Number(redis.port), `${word}\r\n`), word).toMatch(/^-(?:NOAUTH|ERR|WRONGPASS)/);
    expect(await answerTo(Number(redis.port), `AUTH ${redis.password}\r\n`)).toBe("+OK\r\n");

    const postgres = new URL(database_url as string);
    expect(postgres.password.length).toBeGreaterThan(30);
    const startup = Buffer.from("\0\0\0\0\0\x03\0\0user\0postgres\0database\0postrider\0\0", "latin1");
    startup.writeInt32BE(startup.length);
    const asked = await answerTo(Number(postgres.port), startup.toString("latin1"));
    // a request for authentication of the kind SASL, so that a password is asked for
    expect([asked[0], asked.charCodeAt(8), asked.slice(9, 22)]).toEqual(["R", 10, "SCRAM-SHA-256"]);

    const processes = spawnSync("ps", ["axww", "-o", "args"], { encoding: "utf8" }).stdout;
    expect(processes).not.toContain(redis.password);
    expect(processes).not.toContain(postgres.password);
    if (!CAN_BE_OTHERS) return;
    for (const path of [home, ...allBelow(home).filter((path) => !path.includes("/data/"))]) {
      expect(asNobody("cat", path).said, path).toContain("Permission denied");
      expect(asNobody("touch", "-c", path).said, path).toContain("Permission denied");
    }
    expect(asNobody("ls", home).said).toContain("Permission denied");
    expect(asNobody("mkdir", join(home, "mine")).said).toContain("Permission denied");
  },
  START_MS_MAX,
);

test(
  "a home that an earlier version left open is closed, and used again",
  async () => {
    const home = freshHome();
    const first = start(home, SMTP);
    const { api_key } = await first.ready();
    first.signal("SIGTERM");
    await first.ended;
    for (const path of [home, join(home, "logs"), join(home, "redis")]) chmodSync(path, 0o755);
    for (const path of [join(home, "logs", "api.log"), join(home, "secret"), join(home, "demo-key")])
      chmodSync(path, 0o666);
    const second = await start(home, SMTP).ready();
    expect(second.api_key).toBe(api_key);
    expect(openToOthers(home)).toEqual([]);
  },
  2 * START_MS_MAX,
);

test("a folder that is there for something else is left as it is", async () => {
  const home = freshHome();
  mkdirSync(join(home, "logs"));
  writeFileSync(join(home, "thesis.txt"), "");
  const root = start(home, SMTP);
  expect(await root.ended).toBe(1);
  expect(root.said().err).toBe(
    `The folder ${home} (POSTRIDER_HOME) holds other files. Set POSTRIDER_HOME to a folder of its own: it is closed to all other users.\n`,
  );
  expect(statSync(home).mode & 0o777).toBe(0o755);
});
