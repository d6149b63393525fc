/**
 * Under Node 22 mail is taken and delivered; under Node 24 npm, the doctor and the start say what is missing.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { engineUnder, missingNodes, nodeOf, npmUnder } from "../rig/nodes.ts";
import { startProcess } from "../rig/process.ts";
import { services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openStage } from "../rig/stage.ts";
import { Client, mail } from "../rig/workspace.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MAILS = 50;

const ends: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

test("package.json names the versions that have a binary, and npm keeps to it", () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(engines).toEqual({ node: "^20 || ^22" });
  expect(readFileSync(join(ROOT, ".npmrc"), "utf8")).toContain("engine-strict=true");
});

describe.skipIf(missingNodes)(missingNodes ?? "installed from npm", () => {
  test("Node 22 takes and delivers mail", async () => {
    const stage = await openStage();
    ends.push(() => stage.close());
    const program = engineUnder(22, join(services().folder, "node-22"));
    const under = { ...stage, program, execPath: nodeOf(22) };
    const engine = await startProcess(["api", "deliver", "automate", "webhooks", "keeper"], under);
    ends.push(() => engine.stop());
    const { json, postrider } = commandLine(under);
    const { id } = await json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
    const { key } = await json<{ key: string }>("key", "create", "--workspace", id, "--preset", "full");
    const client = new Client(`http://127.0.0.1:${engine.port}`, key);
    const all = Array.from({ length: MAILS }, () => mail());
    expect((await client.post("/emails/batch", all)).status).toBe(200);
    expect((await client.post("/emails", mail())).status).toBe(200);
    const sql = connectRecord(stage.databaseUrl, "setup", 10_000);
    ends.push(() => sql.end());
    expect(await settled(sql, id, 20_000)).toEqual({ delivered: MAILS + 1 });
    const { out } = await postrider("doctor");
    expect(out).toMatch(/ok +Node +version 22\./);
    expect(out).toMatch(/ok +uWebSockets\.js +the native binary loads/);
  }, 240_000);

  test("Node 24 has no binary that Debian 12 can load: each says so", async () => {
    const { status, said } = npmUnder(24, ROOT, "ci", "--dry-run");
    expect(status).not.toBe(0);
    expect(said).toMatch(/EBADENGINE[\s\S]*\^20 \|\| \^22/);
    const { postrider } = commandLine({ execPath: nodeOf(24) });
    const { out } = await postrider("doctor");
    expect(out).toMatch(/fail +Node +version 24\.\S+; 20 or 22 is needed/);
    expect(out).toMatch(/fail +uWebSockets\.js +no binary for Node 24/);
    const start = await postrider("serve", "--role", "api");
    expect(start.status).toBe(1);
    expect(start.err).toMatch(/uWebSockets\.js has no binary for Node 24\S* on \S+: use Node 20 or 22/);
  }, 120_000);
});
