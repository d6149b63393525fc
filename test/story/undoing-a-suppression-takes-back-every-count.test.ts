/**
 * The bounce or complaint is counted for the workspace, for its stream, provider and source, and for the
 * reader's domain.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

type Counted = { hard: number; late: number; complained: number };

async function counted() {
  const sum = async (table: string) => {
    const [row] = await loop.engine.sql<Counted[]>`
      select coalesce(sum(hard_bounced), 0)::int as hard, coalesce(sum(late_bounced), 0)::int as late,
        coalesce(sum(complained), 0)::int as complained
      from ${loop.engine.sql(table)} where workspace_id = ${loop.ws.id}`;
    return row as Counted;
  };
  const [bulk] = await loop.engine.sql<Counted[]>`
    select coalesce(sum(hard_bounced), 0)::int as hard, coalesce(sum(late_bounced), 0)::int as late,
      coalesce(sum(complained), 0)::int as complained
    from part_tally where workspace_id = ${loop.ws.id} and stream = 'bulk'`;
  const [sources] = await loop.engine.sql<{ complained: number }[]>`
    select coalesce(sum(complained), 0)::int as complained from cap_source
    where workspace_id = ${loop.ws.id} and source = 'reader.example'`;
  return { all: await sum("tally"), bulk, sources: sources?.complained };
}

const NONE = { hard: 0, late: 0, complained: 0 };
const NOTHING = { all: NONE, bulk: NONE, sources: 0 };

async function undo(address: string): Promise<void> {
  const { status } = await loop.ws.client.call("DELETE", `/suppressions/${address}`);
  expect(status).toBe(200);
  expect(await counted()).toEqual(NOTHING);
}

test("a bounce of the receiver", async () => {
  const { body } = await loop.ws.client.post<{ id: string }>("/emails", {
    ...{ from: "a@example.com", to: "refuse-550@gone.example", subject: "Hi", text: "Hi", stream: "bulk" },
  });
  await loop.once(body.id, ({ status }) => status === "bounced");
  const bounced = { hard: 1, late: 0, complained: 0 };
  await expect.poll(counted).toEqual({ all: bounced, bulk: bounced, sources: 0 });
  await undo("refuse-550@gone.example");
});

test("a bounce that is reported later", async () => {
  const { id, copies } = await loop.send("late@gone.example", { stream: "bulk" });
  await loop.once(id, ({ status }) => status === "delivered");
  await handIn(loop.port, copies[0]?.from as string, dsn({ recipient: "late@gone.example" }));
  await loop.once(id, ({ status }) => status === "bounced");
  const bounced = { hard: 1, late: 1, complained: 0 };
  expect(await counted()).toEqual({ all: bounced, bulk: bounced, sources: 0 });
  await undo("late@gone.example");
});

test("a complaint", async () => {
  const { id } = await loop.send("ann@reader.example", { stream: "bulk" });
  await loop.once(id, ({ status }) => status === "delivered");
  await loop.ws.client.post("/feedback", [
    { email_id: id, recipient: "ann@reader.example", type: "complaint" },
  ]);
  await loop.once(id, ({ status }) => status === "complained");
  const complained = { hard: 0, late: 0, complained: 1 };
  expect(await counted()).toEqual({ all: complained, bulk: complained, sources: 1 });
  await undo("ann@reader.example");
});

test("of many bounces of a day a key takes back five, whatever it undoes", async () => {
  const emails = Array.from({ length: 12 }, (_, n) => `refuse-550+${n}@many.example`);
  const { body } = await loop.ws.client.post<{ id: string }>("/emails", {
    ...{ from: "a@example.com", to: emails, subject: "Hi", text: "Hi", stream: "bulk" },
  });
  await loop.once(body.id, ({ status }) => status === "bounced");
  const [sum] = await loop.engine.sql<{ bounced: number }[]>`
    select sum(hard_bounced)::int as bounced from tally
    where workspace_id = ${loop.ws.id} and hard_bounced > 0`;
  await expect.poll(async () => (await counted()).all.hard).toBe(12);
  const undone = await Promise.all(
    [emails.slice(0, 6), emails.slice(6)].map((some) =>
      loop.ws.client.post<{ data: unknown[] }>("/suppressions/batch/remove", { emails: some }),
    ),
  );
  expect(undone.map(({ body: { data } }) => data.length)).toEqual([6, 6]);
  const left = (sum?.bounced ?? 0) - 5;
  expect(await counted()).toMatchObject({ all: { hard: left }, bulk: { hard: left } });
  const { body: list } = await loop.ws.client.get<{ data: unknown[] }>("/suppressions");
  expect(list.data).toEqual([]);
});
