/**
 * A workspace moves to another cell while it sends, changes and cancels: every mail is delivered once, quota
 * and caps are exact, nothing is refused, and what the API answers is the same before and after.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { heldUntilItArrived, openCells, type TwoCells } from "../rig/cells.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { pause } from "../rig/pause.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 90_000, interval: 100 };
const LOAD_MS = 6_000;
/** Of each caller: the move is to be watched, and not a machine that is busy. */
const EVERY_MS = 40;
/** A busy machine adds the slowest send of a workspace that stays: to the pause, and to the send in it. */
const PAUSE_MS_MAX = 1_000;

let cells: TwoCells;
let sink: Sink;
let engine: Engine;
let run: CommandLine;
beforeAll(async () => {
  [cells, sink] = await Promise.all([openCells(), openSink()]);
  const { databaseUrl, redisUrl } = cells.home;
  const settings = { CELLS_FILE: cells.file };
  engine = await startEngine(["api", "deliver", "keeper", "automate", "webhooks"], {
    ...{ databaseUrl, redisUrl, settings },
    smtpUrl: sink.url,
  });
  run = commandLine({ databaseUrl, redisUrl, settings });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), cells.close()]);
});

type Sent = { id: string; ms: number };

/** Sends until it is told to stop, and keeps what it was answered. */
class Load {
  readonly sent: Sent[] = [];
  readonly canceled: string[] = [];
  readonly contacts: string[] = [];
  readonly faults: string[] = [];
  readonly #workspace: TestWorkspace;
  #isOver = false;
  #running: Promise<unknown>;

  constructor(workspace: TestWorkspace, audienceId: string) {
    this.#workspace = workspace;
    this.#running = Promise.all([
      this.#repeat((n) => this.#send(n)),
      this.#repeat((n) => this.#send(n)),
      this.#repeat((n) => this.#cancel(n)),
      this.#repeat((n) => this.#contact(audienceId, n)),
    ]);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #repeat(work: (n: number) => Promise<void>): Promise<void> {
    for (let n = 0; !this.#isOver; n++, await pause(EVERY_MS))
      await work(n).catch((error: unknown) => {
        this.faults.push(String(error));
        this.#isOver = true;
      });
  }

  async #send(n: number): Promise<void> {
    const key = `${n % 2}-${Math.random()}`;
    const began = performance.now();
    const headers = { "Idempotency-Key": key };
    const body = mail({ subject: `Order ${key}` });
    const send = () =>
      heldUntilItArrived(() => this.#workspace.client.post<{ id: string }>("/emails", body, headers));
    const first = await send();
    const ms = performance.now() - began;
    const again = await send();
    this.#expect(first.status, 200, first.body);
    this.#expect(again.status, 200, again.body);
    if (first.body.id !== again.body.id) this.faults.push(`${key}: ${first.body.id} and ${again.body.id}`);
    this.sent.push({ id: first.body.id, ms });
  }

  async #cancel(n: number): Promise<void> {
    const at = new Date(Date.now() + 3_600_000 + n).toISOString();
    const { client } = this.#workspace;
    const sent = await heldUntilItArrived(() =>
      client.post<{ id: string }>("/emails", mail({ scheduled_at: at })),
    );
    this.#expect(sent.status, 200, sent.body);
    const later = new Date(Date.now() + 7_200_000).toISOString();
    const changed = await heldUntilItArrived(() =>
      client.call("PATCH", `/emails/${sent.body.id}`, { scheduled_at: later }),
    );
    this.#expect(changed.status, 200, changed.body);
    const canceled = await heldUntilItArrived(() => client.post(`/emails/${sent.body.id}/cancel`));
    this.#expect(canceled.status, 200, canceled.body);
    this.canceled.push(sent.body.id);
  }

  async #contact(audienceId: string, n: number): Promise<void> {
    const email = `reader-${n}@example.net`;
    const { client } = this.#workspace;
    const made = await heldUntilItArrived(() => client.post(`/audiences/${audienceId}/contacts`, { email }));
    this.#expect(made.status, 201, made.body);
    this.contacts.push(email);
  }

  #expect(status: number, wanted: number, body: unknown): void {
    if (status !== wanted && !(status === 200 && wanted === 201))
      this.faults.push(`${status} ${JSON.stringify(body)}`);
  }
}

test("every mail is delivered once, and nobody notices", async () => {
  const limits = { emails_per_month: 1_000_000, cap_day: 1_000_000, cap_hour: 1_000_000 };
  const workspace = await cells.home.workspace(engine.url, "pro", limits);
  const neighbour = await cells.home.workspace(engine.url, "pro", limits);
  const { client } = workspace;
  await run.json("workspace", "set", workspace.id, "--event-log", "on");
  const audience = await client.post<{ id: string }>("/audiences", { name: "Readers" });
  const template = await client.post<{ id: string }>("/templates", { name: "t", html: "<p>Hi</p>" });
  const load = new Load(workspace, audience.body.id);
  const beside = new Load(
    neighbour,
    (await neighbour.client.post<{ id: string }>("/audiences", { name: "R" })).body.id,
  );
  await expect.poll(() => load.sent.length, POLL).toBeGreaterThan(20);
  const began = performance.now();
  const ran = run.postrider("workspace", "move", workspace.id, "--to", "west");
  let said = "";
  const ending = ran.then(({ out, err, status }) => {
    said = `${status} ${out} ${err}`;
  });
  const isThere = async () =>
    (await cells.other.sql`select from workspace where id = ${workspace.id} and handle = ${workspace.handle}`)
      .length > 0;
  await expect.poll(async () => said !== "" || (await isThere()), POLL).toBe(true);
  // by the time that this is seen it may have ended, too
  expect(said).toMatch(/^(0 |$)/);
  const moved = load.sent.length;
  await expect.poll(() => load.sent.length, POLL).toBeGreaterThan(moved + 20);
  if (performance.now() - began < LOAD_MS)
    await expect.poll(() => performance.now() - began, POLL).toBeGreaterThan(LOAD_MS);
  await load.end();
  await beside.end();
  expect(load.faults).toEqual([]);
  expect(beside.faults).toEqual([]);
  const slowestOf = ({ sent }: Load) => Math.max(...sent.map(({ ms }) => ms));
  const usualMs = slowestOf(beside);
  expect(slowestOf(load)).toBeLessThan(PAUSE_MS_MAX + 2 * usualMs);

  const ids = load.sent.map(({ id }) => id);
  for (const id of ids) {
    const status = async () => (await client.get<{ status: string }>(`/emails/${id}`)).body.status;
    await expect.poll(status, POLL).toBe("delivered");
  }
  for (const id of load.canceled)
    expect((await client.get<{ status: string }>(`/emails/${id}`)).body.status).toBe("canceled");
  const arrived = new Map<string, number>();
  for (const { messageId } of sink.ledger.mails) {
    const id = messageId.slice(0, 36);
    arrived.set(id, (arrived.get(id) ?? 0) + 1);
  }
  expect(ids.filter((id) => arrived.get(id) !== 1)).toEqual([]);
  expect(load.canceled.filter((id) => arrived.has(id))).toEqual([]);

  const ledger = await cells.other.sql`
    select month_used as month, cap_day_used as cap from ledger where workspace_id = ${workspace.id}`;
  expect(ledger[0]).toEqual({ month: ids.length + load.canceled.length, cap: ids.length });
  const contacts = await cells.other.sql`select from contact where workspace_id = ${workspace.id}`;
  expect(contacts).toHaveLength(load.contacts.length);
  expect((await client.get(`/templates/${template.body.id}`)).status).toBe(200);

  await expect
    .poll(
      async () =>
        (
          await cells.other.sql`
            select from outbox where workspace_id = ${workspace.id} and sequence is null
            union all select from outbox_batch where workspace_id = ${workspace.id}`
        ).length,
      POLL,
    )
    .toBe(0);
  const [events] = await cells.other.sql<{ count: number; last: number; distinct: number }[]>`
    select count(*)::int, max(sequence)::int as last, count(distinct sequence)::int as distinct
    from outbox where workspace_id = ${workspace.id}`;
  expect(events).toEqual({ count: events?.last, last: events?.last, distinct: events?.last });
  const [delivered] = await cells.other.sql<{ count: number }[]>`
    select count(*)::int from outbox where workspace_id = ${workspace.id} and type = 'email.delivered'`;
  expect(delivered?.count).toBe(ids.length);

  await ending;
  const pause = /(?:a pause|the longest) of (\d+) ms/.exec(said)?.[1];
  expect(Number(pause)).toBeLessThan(PAUSE_MS_MAX + usualMs);
  // what is refused in the pause is tried again
  const complaints = engine.complaints.map(({ err }) => err?.message ?? "");
  expect(complaints.filter((words) => !words.includes("is moving to another cell"))).toEqual([]);
  const left = await cells.home.sql`
    select from email where workspace_id = ${workspace.id}
    union all select from workspace where id = ${workspace.id}
    union all select from workspace_move`;
  expect(left).toHaveLength(0);
  const triggers = await Promise.all(
    [cells.home, cells.other].map(({ sql }) => sql`select from pg_trigger where tgname like '0_move%'`),
  );
  expect(triggers.map(({ length }) => length)).toEqual([0, 0]);
}, 240_000);
