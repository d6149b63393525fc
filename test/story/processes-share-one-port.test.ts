import { afterAll, beforeAll, expect, test } from "vitest";
import { identify } from "../../src/embedded/process.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { eventually } from "../rig/eventually.ts";
import { launch } from "../rig/launched.ts";
import { scrape } from "../rig/scrape.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const ASKED = 60;

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

/** Each over a connection of its own. */
async function askOften(port: number): Promise<number[]> {
  const ask = async () =>
    (await fetch(`http://127.0.0.1:${port}/healthz`, { headers: { connection: "close" } })).status;
  return Promise.all(Array.from({ length: ASKED }, ask));
}

test("two apis serve on one port, one that dies is started again, and SIGTERM ends all", async () => {
  const settings = { METRICS_PORT: "0" };
  const fleet = launch(["api"], { ...stage, settings }, ["--processes", "2"]);
  const ports = await eventually(
    () => {
      const own = fleet.lines.find(({ msg, processes }) => msg === "serving" && processes === 2);
      if (!own) throw new Error("not yet");
      return own;
    },
    { timeout: 20_000 },
  );
  const { port, metricsPort } = ports as unknown as { port: number; metricsPort: number };
  const asked = (process: string) =>
    scrape(`http://127.0.0.1:${metricsPort}/metrics`).then((told) =>
      told.value("postrider_requests_total", { process, route: "none" }),
    );
  expect(await askOften(port)).toEqual(Array(ASKED).fill(200));
  await expect.poll(async () => (await asked("api-1")) + (await asked("api-2"))).toBe(ASKED);
  expect(await asked("api-1")).toBeGreaterThan(0);
  expect(await asked("api-2")).toBeGreaterThan(0);

  const pids = fleet.lines.filter(({ msg }) => msg === "starting").map(({ pid }) => pid as number);
  expect(pids).toHaveLength(2);
  process.kill(pids[0] as number, "SIGKILL");
  await fleet.says("a process ended and is started again");
  const serving = () => fleet.lines.filter(({ msg }) => msg === "serving").length;
  await expect.poll(serving, { timeout: 20_000 }).toBe(4);
  expect(await askOften(port)).toEqual(Array(ASKED).fill(200));

  const successor = fleet.lines.filter(({ msg }) => msg === "starting").at(-1);
  process.kill(successor?.pid as number, "SIGKILL");
  await expect.poll(serving, { timeout: 20_000 }).toBe(5);
  const pauses = fleet.lines.filter(({ msg }) => msg === "a process ended and is started again");
  expect(pauses.map(({ in_ms }) => in_ms)).toEqual([400, 800]);

  fleet.signal("SIGHUP");
  await fleet.says("all processes are replaced");
  expect(await askOften(port)).toEqual(Array(ASKED).fill(200));
  fleet.signal("SIGTERM");
  expect(await fleet.ended).toBe(0);
  const all = fleet.lines.filter(({ msg }) => msg === "starting").map(({ pid }) => pid as number);
  expect(all.length).toBe(6);
  expect(all.filter((pid) => identify(pid) !== null)).toEqual([]);
});

test("a place is filled again whose process dies while its successor cannot start", async () => {
  const own = await openStage();
  const sql = connectRecord(own.databaseUrl, "setup", 10_000);
  const fleet = launch(["api"], own, ["--processes", "2"]);
  const said = (msg: string) => fleet.lines.filter((line) => line.msg === msg && !line.processes);
  const pidsOf = (msg: string) => said(msg).map(({ pid }) => pid as number);
  await expect.poll(() => said("serving").length, { timeout: 20_000 }).toBe(2);
  const former = pidsOf("starting");

  // whoever starts now finds that the database belongs to another secret
  const [kept] = await sql<{ digest: Buffer }[]>`select digest from secret_check`;
  await sql`update secret_check set digest = sha256(digest)`;
  await sql.begin(async (tx) => {
    await tx`lock table secret_check in access exclusive mode`; // which holds up whoever starts
    fleet.signal("SIGHUP");
    await expect.poll(() => pidsOf("starting").length).toBe(3);
    for (const pid of former) process.kill(pid, "SIGKILL");
    await fleet.says("a process ended and is started again"); // the other place, whose turn had not come
  });
  await fleet.says(/^a process could not be replaced/);
  await sql`update secret_check set digest = ${kept?.digest as Buffer}`;
  await expect.poll(() => said("serving").length, { timeout: 20_000 }).toBe(4);

  // an end amid a replacement leaves nobody behind
  const begun = pidsOf("starting").length;
  fleet.signal("SIGHUP");
  await expect.poll(() => pidsOf("starting").length).toBeGreaterThan(begun);
  fleet.signal("SIGTERM");
  expect(await fleet.ended).toBe(0);
  expect(pidsOf("starting").filter((pid) => identify(pid) !== null)).toEqual([]);
  await sql.end();
  await own.close();
});

test("roles with a port of their own are refused, and a wrong setting ends all with its status", async () => {
  const wrong = launch(["inbound"], stage, ["--processes", "2"]);
  expect(await wrong.ended).toBe(2);
  expect(wrong.err()).toContain("The role inbound listens on a port that processes cannot share");
  const unset = launch(["deliver"], { ...stage, settings: { SMTP_URL: "" } }, ["--processes", "2"]);
  expect(await unset.ended).toBe(78);
  expect(unset.err()).toContain("SMTP_URL is not set");
});
