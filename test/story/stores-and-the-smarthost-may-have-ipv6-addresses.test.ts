/** IPv6 addresses stand in brackets in the URLs of the stores and the smarthost; `HOST` may be one, too. */
// @module-tag one-redis: reaches its Redis by way of one IPv6 address
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { startEngine } from "../rig/engine.ts";
import { launch } from "../rig/launched.ts";
import { listenOn } from "../rig/port.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const isMissing = !Object.values(networkInterfaces())
  .flat()
  .some((one) => one?.address === "::1");
if (isMissing) console.warn("this machine has no ::1: what is said of IPv6 is not tested");

let stage: Stage;
let there: { databaseUrl: string; redisUrl: string; smtpUrl: string };
let key: string;
const folder = mkdtempSync(join(tmpdir(), "postrider-ipv6-"));
const relays: Server[] = [];
beforeAll(async () => {
  if (isMissing) return;
  stage = await openStage();
  const engine = await startEngine(["api"], stage);
  key = (await engine.workspace()).client.key;
  await engine.stop();
  there = {
    databaseUrl: await overIpv6(stage.databaseUrl),
    redisUrl: await overIpv6(`redis://127.0.0.1:${stage.redis.port}`),
    smtpUrl: await overIpv6(stage.smtpUrl),
  };
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  for (const relay of relays) relay.close();
  await stage?.close();
});

async function overIpv6(url: string): Promise<string> {
  const parsed = new URL(url);
  const { hostname: host, port } = parsed;
  const relay = createServer((from) => {
    const to = connect(Number(port), host);
    pipeline(from, to, from, () => {});
  });
  relays.push(relay);
  parsed.host = `[::1]:${await listenOn(relay, undefined, "::1")}`;
  parsed.search = "";
  return parsed.href;
}

test.skipIf(isMissing)("mail is accepted at ::1, and delivered by way of it", async () => {
  const process = launch(["api", "deliver"], { ...there, settings: { HOST: "::1" } });
  const { port } = (await process.says("serving")) as unknown as { port: number };
  const answer = await fetch(`http://[::1]:${port}/api/v1/emails`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(mail()),
  });
  expect(answer.status).toBe(200);
  await stage.sink.ledger.received(1);
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);
});

test.skipIf(isMissing)("commands, too", async () => {
  const line = commandLine(there);
  const { out } = await line.postrider("doctor");
  expect(out).toMatch(/^ok +Postgres/m);
  expect(out).toMatch(/^ok +Redis/m);
  const backup = await line.postrider("backup", join(folder, "backup.gz"));
  expect(backup).toMatchObject({ status: 0, err: "" });
});

test.skipIf(isMissing)("an address that nobody listens on is named", async () => {
  const { err, status } = await commandLine({ ...there, databaseUrl: "postgres://a:b@[::1]:1/c" }).postrider(
    "migrate",
  );
  expect(err).toMatch(/^Postgres at \[::1\]:1 \(DATABASE_URL\) refuses connections/);
  expect(status).toBe(69);
});
