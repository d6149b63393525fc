/** A start that cannot work says why in a line, leaves nothing running, and harms no other start. */
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as listenTo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openStage, type Stage } from "../rig/stage.ts";
import { freshHome, readReady, start } from "../rig/start.ts";
import { SECRET } from "../rig/workspace.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

function fileIn(folder: string): string {
  const file = join(folder, "file");
  writeFileSync(file, "");
  return file;
}

/** Nothing has to be brought up. All homes have the secret of the one database. */
function given(): Record<string, string> {
  return {
    DATABASE_URL: stage.databaseUrl,
    REDIS_URL: stage.redisUrl,
    SMTP_URL: "smtp://127.0.0.1:1",
    POSTRIDER_SECRET: SECRET,
  };
}

test("a taken port", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  const { port } = other.address() as AddressInfo;
  const home = freshHome();
  const root = start(home, { PORT: String(port) });
  expect(await root.ended).toBe(1);
  expect(root.said().err).toBe(
    `Port ${port} on 127.0.0.1 is in use. Stop the process that listens there, or set PORT.\n`,
  );
  expect(existsSync(join(home, "ready.json"))).toBe(false);
  expect(existsSync(join(home, "postgres"))).toBe(false);
  other.close();
});

test("an address that this machine does not have", async () => {
  const root = start(freshHome(), { ...given(), HOST: "203.0.113.1", PORT: "0" });
  expect(await root.ended).toBe(1);
  expect(root.said().err).toMatch(
    /^The API cannot listen on 203\.0\.113\.1, port 0: .*EADDRNOTAVAIL.*\. Set HOST or PORT\.\n$/,
  );
});

test.each([
  ["that the system does not let anybody make", () => "/proc/postrider/home"],
  ["in a place that is read-only", () => "/sys/postrider"],
  ["that is a file", () => fileIn(freshHome())],
  ["below a file", () => join(fileIn(freshHome()), "home")],
])("a home %s", async (_, homeOf) => {
  const home = homeOf();
  const root = start(home, given());
  expect(await root.ended).toBe(1);
  const { out, err } = root.said();
  expect(out).toBe("");
  expect(err).toMatch(
    /^The folder \S+ \(POSTRIDER_HOME\) cannot be used: E[A-Z]+: .*\. Set POSTRIDER_HOME to .*\.\n$/,
  );
  expect(err).toContain(`The folder ${home} `);
});

test("a list of processes that a power cut left empty", async () => {
  const home = freshHome();
  const file = join(home, "processes.json");
  writeFileSync(file, "");
  const root = start(home, given());
  expect(await root.ended).toBe(1);
  expect(root.said().err).toBe(`${file} is damaged. If no Postrider runs in this folder, remove the file.\n`);
});

test("wrong settings, all of them at once, with status 78", async () => {
  const root = start(freshHome(), { PORT: "many", SMTP_TLS: "maybe" });
  expect(await root.ended).toBe(78);
  expect(root.said().err.trim().split("\n")).toEqual([
    expect.stringMatching(/^PORT must be /),
    expect.stringMatching(/^SMTP_TLS must be /),
  ]);
});

test("a second start in the same home, and the first goes on", async () => {
  const home = freshHome();
  const first = start(home, given());
  const ready = await first.ready();
  const second = start(home, given());
  expect(await second.ended).toBe(1);
  expect(second.said().err).toBe(`Postrider is already running in ${home} (pid ${first.pid}).\n`);
  expect(readReady(home)).toEqual(ready);
  expect((await fetch(`${ready.base_url}/readyz`)).status).toBe(200);
  first.signal("SIGTERM");
  expect(await first.ended).toBe(0);
});

test("a smarthost url that the worker cannot read", async () => {
  const home = freshHome();
  const root = start(home, { ...given(), SMTP_URL: "smtp://relay.example?pool=none" });
  expect(await root.ended).toBe(78);
  expect(root.said().err).toBe("?pool of SMTP_URL must be a whole number from 1 to 1000.\n");
  expect(existsSync(join(home, "processes.json"))).toBe(false);
});

test("sending to the receivers' own hosts when there is a smarthost", async () => {
  const root = start(freshHome(), { ...given(), COURIER: "direct" });
  expect(await root.ended).toBe(78);
  expect(root.said().err).toMatch(/^COURIER=direct needs no smarthost, but SMTP_URL is set/);
});

test("being stopped while it starts: it ends in order, with status 0", async () => {
  const home = freshHome();
  // takes connections and says nothing, so that the roles wait for their database
  const silent = listenTo().listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const connected = new Promise((resolve) => silent.once("connection", resolve));
  const { port } = silent.address() as AddressInfo;
  const root = start(home, { ...given(), DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none` });
  await connected;
  root.signal("SIGTERM");
  expect(await root.ended).toBe(0);
  expect(root.said().err).toBe("");
  expect(existsSync(join(home, "processes.json"))).toBe(false);
  silent.close();
});
