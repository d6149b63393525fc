/**
 * contacts: upserts over 50 connections, half of them of contacts that are known, beside the floor:
 * single-row upserts of the same rows that share commits as the send path does, through nothing but the group
 * commit; then an import of a file by the same means as the command line's.
 */
import { Readable } from "node:stream";
import { csvRecords } from "../../src/audience/csv.ts";
import { importContacts } from "../../src/audience/import.ts";
import { addressHasher } from "../../src/audience/links.ts";
import { newId } from "../../src/ids.ts";
import { insertAudience } from "../../src/record/contacts/audiences.ts";
import { contactCommit } from "../../src/record/contacts/commit.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { figure } from "../figure.ts";
import { load, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { cpuSeconds } from "../meter.ts";
import type { Scenario } from "../scenario.ts";
import { upsertFloor } from "../upserts.ts";

const CONNECTIONS = 50;
const KNOWN = 20_000;
const IMPORTED = 100_000;
const COMMIT_MS = 5_000;

const contacts: Scenario = {
  name: "contacts",
  does: "upserts of contacts over 50 connections, beside single-row upserts that share commits; then an import",
  async run(bench, { seconds, tell }) {
    const workspace = await bench.workspace();
    const audienceId = await newAudience(bench, workspace);
    const api = await bench.role("api");
    const { key } = workspace;
    const url = `${api.url}/api/v1/audiences/${audienceId}/contacts`;
    const bodies = Array.from({ length: 2 * KNOWN }, (_, n) =>
      JSON.stringify({
        email: `user${n % 2 === 0 ? n : n % KNOWN}@example.net`,
        first_name: `User ${n}`,
        properties: { city: "Rome", orders: n },
        tags: ["customer"],
      }),
    );
    await load(bench, { url, key, body: bodies, connections: CONNECTIONS, seconds: WARMUP_SECONDS, tell });
    const before = cpuSeconds(api.pid);
    const upserts = await load(bench, { url, key, body: bodies, connections: CONNECTIONS, seconds, tell });
    const cpu = cpuSeconds(api.pid) - before;
    tell("bare upserts");
    const floor = await upsertFloor(bench, seconds, CONNECTIONS);
    const perSecond = upserts.perSecond * (1 - upserts.failures / upserts.requests);
    const imported = await importRate(bench, workspace, tell);
    return {
      figures: [
        figure("upserts", perSecond, "/s", "at least 4,000"),
        figure("upserts p50", upserts.p50Ms, "ms"),
        figure("upserts p99", upserts.p99Ms, "ms"),
        figure("rows of the floor", floor, "/s"),
        figure("against the floor", perSecond / floor, "x", "at least 0.5"),
        figure("api CPU per thousand upserts", (cpu * 1000) / upserts.requests, "s"),
        figure("imported", imported, "/s", "at least 20,000"),
        figure("refused", upserts.failures, ""),
        unansweredOf(upserts),
      ],
      distributions: [{ name: "answer to an upsert", unit: "ms", points: upserts.latency }],
    };
  },
};

async function newAudience({ sql }: Bench, { id: workspaceId }: Workspace): Promise<string> {
  const now = new Date();
  const id = newId(now.getTime());
  await insertAudience(sql, { workspaceId, id, name: "Bench", doubleOptIn: false }, now);
  return id;
}

async function importRate(bench: Bench, workspace: Workspace, tell: (text: string) => void): Promise<number> {
  const audienceId = await newAudience(bench, workspace);
  const lines = ["email,first_name,tags,city"];
  for (let n = 0; n < IMPORTED; n++) lines.push(`person${n}@example.net,Person ${n},customer;new,Rome`);
  const file = Readable.from([Buffer.from(lines.join("\n"))]);
  const commit = contactCommit(
    { connect: () => connectRecord(bench.postgres.url, "commits", COMMIT_MS), timeoutMs: COMMIT_MS },
    addressHasher("a secret of the bench"),
  );
  const clock = { now: () => Date.now(), given: () => 0 };
  const parts = { commit, workspaceId: workspace.id, audienceId, consent: null, clock };
  const began = performance.now();
  let done = 0;
  try {
    const records = csvRecords(file);
    await records.next();
    for await (const { imported } of importContacts(records, lines[0]?.split(",") ?? [], parts, () => {})) {
      done = imported;
      tell(`${done} imported`);
    }
  } finally {
    await commit.close();
  }
  return (done * 1000) / (performance.now() - began);
}

export const scenarios = [contacts];
