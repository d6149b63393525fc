/**
 * The Redis of docker-compose.yml after a restart. It reads what it appended with the rights of the user
 * `default`: without them the effects of a script are left out, and the rest is kept.
 */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect as connectTo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { parsed } from "../rig/opsfiles.ts";
import { REDIS_PROGRAMS, startRedisServer } from "../rig/redisserver.ts";
import { services } from "../rig/services.ts";

const PASSWORD = "letters1and2digits";

type Compose = { services: { redis: { entrypoint: string[]; command: string[] } } };
const [compose] = parsed<Compose>("docker-compose.yml") as [Compose];
const { entrypoint, command } = compose.services.redis;

/** As the container writes them. */
function users(): string {
  const [print = ""] = /printf .*(?= > \/users\.acl)/.exec(entrypoint.join("\n")) ?? [];
  const env = { PATH: process.env.PATH, REDIS_PASSWORD: PASSWORD };
  return execFileSync("sh", ["-c", print.replaceAll("$$", "$")], { env, encoding: "utf8" });
}

/** The options of the command line, as lines of a configuration. */
function lines(aclFile: string): string[] {
  const [, ...options] = command;
  return options
    .join(" ")
    .split(/ ?--/)
    .filter(Boolean)
    .map((line) => line.replace("/users.acl", aclFile))
    .map((line) => (line === "save " ? 'save ""' : line));
}

/** To somebody who knows nothing. */
async function answersTo(port: number, commands: string): Promise<string[]> {
  const socket = connectTo(port, "127.0.0.1");
  socket.write(commands);
  return (await text(socket)).trim().split("\r\n");
}

describe.each(REDIS_PROGRAMS)("$name", ({ program, missing }) => {
  test.skipIf(missing)("keeps all over a restart, and knows nobody without a password", async () => {
    const folder = join(services().folder, `compose-${randomUUID().slice(0, 8)}`);
    mkdirSync(folder);
    const port = await freePort();
    const aclFile = join(folder, "users.acl");
    writeFileSync(aclFile, users(), { mode: 0o600 });
    const start = () => startRedisServer(folder, [`port ${port}`, ...lines(aclFile)], { program });
    const connect = () => new Redis(port, "127.0.0.1", { username: "postrider", password: PASSWORD });
    let server = await start();
    try {
      const before = connect();
      await before.set("alone", 1);
      await before.eval("redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 2)", 2, "a", "b");
      await before.quit();
      await server.stop();
      server = await start();
      const after = connect();
      expect(await after.mget("alone", "a", "b")).toEqual(["1", "1", "2"]);
      await after.quit();
      const answers = await answersTo(port, "get a\r\nauth default x\r\nauth x\r\nget a\r\nquit\r\n");
      expect(answers[0]).toContain("-NOAUTH");
      expect(answers.filter((line) => !line.startsWith("-"))).toEqual(["+OK"]);
    } finally {
      await server.stop();
    }
  });
});
