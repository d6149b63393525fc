/**
 * `postrider backup - > FILE` and `postrider restore - < FILE`: a container whose file system cannot be
 * written to has no other way. A backup that cannot be written ends, and keeps no snapshot of Postgres.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDatabase } from "../../src/record/db/create.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { commandLine } from "../rig/command.ts";
import { dropDatabase } from "../rig/database.ts";
import { startEngine } from "../rig/engine.ts";
import { POSTRIDER } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { emptyRedis } from "../rig/wholeredis.ts";

let stage: Stage;
let emptyUrl: string;
beforeAll(async () => {
  stage = await openStage();
  const url = new URL(stage.databaseUrl);
  url.pathname = `${url.pathname}_piped`;
  emptyUrl = url.href;
  await createDatabase(stage.databaseUrl, url.pathname.slice(1), "template0");
});
afterAll(async () => {
  await stage.close();
  await dropDatabase(emptyUrl);
});

test("what is written to stdout is read from stdin", async () => {
  const engine = await startEngine(["api"], stage);
  const ws = await engine.workspace();
  await engine.stop();
  const redis = connectRedis(stage.redisUrl, "command", 20_000);
  await emptyRedis(redis);
  redis.disconnect();
  const backup = commandLine(stage).begin("backup", "-");
  const [file, told] = await Promise.all([buffer(backup.stdout), text(backup.stderr)]);
  expect(told).toMatch(/^Wrote [\d,]+ rows of \d+ tables\.\n$/);
  const into = commandLine({ ...stage, databaseUrl: emptyUrl });
  const restore = into.begin("restore", "-");
  restore.stdin.end(file);
  const [said, complained] = await Promise.all([text(restore.stdout), text(restore.stderr)]);
  expect([complained, said]).toEqual(["", expect.stringMatching(/^Restored [\d,]+ rows/)]);
  expect(await into.json("workspace", "list")).toMatchObject([{ id: ws.id }]);
});

test.each([
  ["the disk of stdout is full", "- > /dev/full", "ENOSPC"],
  // whoever could have read it has gone before it begins
  ["nobody reads it", "- >&3", "EPIPE"],
  ["its folder does not exist", "/nowhere/postrider.gz", "there is no folder /nowhere"],
])("when %s, a backup says so and ends", async (_, where, why) => {
  const env = { PATH: process.env.PATH, DATABASE_URL: stage.databaseUrl, REDIS_URL: stage.redisUrl };
  const command = `exec 3> >(true); wait $!; "$0" "$1" backup ${where}`;
  const child = spawn("bash", ["-c", command, process.execPath, POSTRIDER], { env });
  const said = text(child.stderr as Readable);
  const [status] = await once(child, "close");
  expect([status, await said]).toEqual([1, expect.stringMatching(`cannot be written: .*${why}`)]);
});
