/**
 * A workspace with a webhook, runs that sleep and imports of contacts moves to another cell. Whoever moves it
 * is killed in several phases, the move is undone once, and Postgres and Redis of the new cell go away: every
 * run takes its steps once, every import ends, and what happened is told without a gap, each under one id.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TwoCells } from "../rig/cells.ts";
import type { CommandLine } from "../rig/command.ts";
import type { Engine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { type OwnCells, startOwnCells } from "../rig/owncells.ts";
import { pause } from "../rig/pause.ts";
import { runsEnded, settled } from "../rig/settled.ts";
import type { Sink } from "../rig/sink.ts";
import type { Answer, TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 90_000, interval: 100 };
const LIMITS = { emails_per_month: 1_000_000, cap_day: 1_000_000, cap_hour: 1_000_000 };
const EVERY_MS = 100;
const IMPORT_EVERY_MS = 2_000;
const IMPORTED = 40;
const FIRST_TRIES_REFUSED = 20;

let own: OwnCells;
let servers: OwnCells["servers"];
let cells: TwoCells;
let sink: Sink;
let receiver: Receiver;
let engine: Engine;
let run: CommandLine;
beforeAll(async () => {
  receiver = await openReceiver();
  own = await startOwnCells(["api", "deliver", "keeper", "automate", "webhooks"], TO_LOOPBACK);
  ({ servers, cells, sink, engine, run } = own);
});
afterAll(async () => {
  await own.close();
  await receiver.close();
});

/** Repeats each request until it is accepted. */
class Shop {
  readonly imports: string[] = [];
  readonly faults: string[] = [];
  events = 0;
  #isOver = false;
  readonly #workspace: TestWorkspace;
  readonly #audienceId: string;
  readonly #running: Promise<unknown>;

  constructor(workspace: TestWorkspace, audienceId: string) {
    this.#workspace = workspace;
    this.#audienceId = audienceId;
    this.#running = Promise.all([this.#signUp("a"), this.#signUp("b"), this.#import()]);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #signUp(line: string): Promise<void> {
    const { client } = this.#workspace;
    for (let n = 0; !this.#isOver; n++, await pause(EVERY_MS)) {
      const email = `${line}-${n}@example.net`;
      await this.#patiently(() => client.post(`/audiences/${this.#audienceId}/contacts`, { email }));
      const event = { audience_id: this.#audienceId, email, name: "signed.up" };
      await this.#patiently(() => client.post("/events", event, { "Idempotency-Key": email }));
      this.events++;
    }
  }

  async #import(): Promise<void> {
    for (let n = 0; !this.#isOver; n++, await pause(IMPORT_EVERY_MS)) {
      const people = Array.from({ length: IMPORTED }, (_, m) => `import-${n}-${m}@example.org`);
      const { id } = await this.#patiently(() => this.#upload(["email", ...people].join("\n")));
      this.imports.push(id);
    }
  }

  async #upload(csv: string): Promise<Pick<Answer<{ id: string }>, "status" | "body">> {
    const form = new FormData();
    form.set("file", new Blob([csv], { type: "text/csv" }), "people.csv");
    form.set("segments", JSON.stringify([{ id: this.#audienceId }]));
    const answer = await fetch(`${engine.url}/api/v1/contacts/imports`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#workspace.client.key}` },
      body: form,
    });
    return { status: answer.status, body: (await answer.json()) as { id: string } };
  }

  async #patiently<T>(ask: () => Promise<Pick<Answer<T>, "status" | "body">>): Promise<T> {
    for (;;) {
      const { status, body } = await ask();
      if (status < 300) return body;
      // a store is away, or nobody knows yet what became of the last try
      if (![409, 500, 503].includes(status)) this.faults.push(`${status} ${JSON.stringify(body)}`);
      await pause(EVERY_MS);
    }
  }
}

/** Runs the move, and does something as soon as it says that it has come so far. */
async function interrupted(id: string, phase: string, interfere: (pid: number) => unknown): Promise<void> {
  const child = run.begin("workspace", "move", id, "--to", "west");
  let said = "";
  let interfering: unknown = null;
  child.stderr.on("data", (chunk) => {
    said += chunk;
    if (interfering === null && said.includes(phase)) interfering = interfere(child.pid as number) ?? true;
  });
  await new Promise((resolve) => child.once("close", resolve));
  expect([phase, interfering === null]).toEqual([phase, false]);
  await interfering;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it was faster
  }
}

async function isIn(cell: TwoCells["home"], { id, handle }: TestWorkspace): Promise<boolean> {
  return (await cell.sql`select from workspace where id = ${id} and handle = ${handle}`).length > 0;
}

test("runs, webhooks and imports go on in the new cell", async () => {
  const workspace = await cells.home.workspace(engine.url, "pro", LIMITS);
  const { id, client } = workspace;
  const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "People" });
  const send = (subject: string) => ({ send: { from: "hi@example.com", subject, html: "<p>Hello</p>" } });
  const automation = {
    ...{ name: "Welcome", audience_id: audience.id, event: "signed.up", entry: "every", status: "enabled" },
    steps: [{ wait: "3s" }, send("first"), { tag: { add: ["greeted"] } }, { wait: "15s" }, send("second")],
  };
  expect((await client.post("/automations", automation)).status).toBe(201);
  expect((await client.post("/webhooks", { endpoint: receiver.url() })).status).toBe(201);
  const known = new Set<unknown>();
  receiver.answerWith = ({ headers }, response, nth) => {
    const isNew = known.size !== known.add(headers["webhook-id"]).size;
    response.statusCode = isNew && nth % FIRST_TRIES_REFUSED === 0 ? 500 : 200;
    response.end();
  };
  const shop = new Shop(workspace, audience.id);
  await expect.poll(() => shop.events, POLL).toBeGreaterThan(10);

  const { home, other } = cells;
  await interrupted(id, "copying", kill);
  await interrupted(id, "waiting for workers", async () => {
    await servers[1].stop("immediate");
    await servers[1].start();
  });
  if (await isIn(home, workspace)) {
    await interrupted(id, "waiting for workers", kill);
    await run.postrider("workspace", "move", id, "--abort");
  }
  if (await isIn(home, workspace)) await interrupted(id, "switched", kill);
  await other.redisServer.kill();
  await run.postrider("workspace", "move", id, "--to", "west");
  await other.redisServer.restart();
  expect((await run.postrider("workspace", "move", id, "--to", "west")).status).toBe(0);
  expect(await isIn(other, workspace)).toBe(true);
  const { events } = shop;
  await expect.poll(() => shop.events, POLL).toBeGreaterThan(events + 10);
  await shop.end();
  expect(shop.faults).toEqual([]);

  expect(await runsEnded(other.sql, id, 90_000)).toEqual({ finished: shop.events });
  expect(await settled(other.sql, id, 90_000)).toEqual({ delivered: 2 * shop.events });
  const received = sink.ledger.mails.map(({ messageId }) => messageId);
  expect([received.length, new Set(received).size]).toEqual([2 * shop.events, 2 * shop.events]);
  for (const one of shop.imports)
    await expect
      .poll(async () => (await client.get<{ status: string }>(`/contacts/imports/${one}`)).body.status, POLL)
      .toBe("completed");
  const [contacts] = await other.sql`select count(*)::int as count from contact where workspace_id = ${id}`;
  expect(contacts?.count).toBe(shop.events + IMPORTED * shop.imports.length);

  const unnumbered = () => other.sql`
    select from outbox where workspace_id = ${id} and sequence is null
    union all select from outbox_batch where workspace_id = ${id}`;
  await expect.poll(async () => (await unnumbered()).length, POLL).toBe(0);
  const [log] = await other.sql`
    select count(*)::int as count, max(sequence)::int as last from outbox where workspace_id = ${id}`;
  expect(log?.last).toBe(log?.count);
  await expect.poll(() => known.size, POLL).toBe(log?.count);
  const repeated = await other.sql`
    select from outbox where workspace_id = ${id} and type like 'email.%'
    group by type, subject_id having count(*) > 1`;
  expect(repeated).toHaveLength(0);
}, 400_000);
