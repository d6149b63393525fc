/**
 * A mail to several, some of whom have it: when the worker's note comes after its lease was lost, what
 * receivers took is kept all the same, and whoever holds the bag by then goes on with the others.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { claimBag, type HeldBag, loadOpen } from "../../src/record/mail/bagleases.ts";
import { type Settled, settle } from "../../src/record/mail/settle.ts";
import { mail, type TestApi, testApi } from "../rig/workspace.ts";

const TO = ["a@example.net", "b@example.net", "c@example.net"];

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

/** A mail whose bag somebody else holds by now. */
async function lostMail(): Promise<{ id: string; lost: HeldBag; held: HeldBag; read(): Promise<Shown> }> {
  const ws = await api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: TO }));
  const [bag] = await api.sql<{ id: string; generation: number }[]>`
    select id, generation from bag where workspace_id = ${ws.id}`;
  const at = { workspaceId: ws.id, id: bag?.id as string, generation: bag?.generation as number };
  const [lost, held] = [
    { ...at, token: randomUUID() },
    { ...at, token: randomUUID() },
  ];
  expect(await claimBag(api.sql, held, 0)).toMatchObject({ emailIds: [body.id] });
  const read = async () => (await ws.client.get<Shown>(`/emails/${body.id}`)).body;
  return { id: body.id, lost, held, read };
}

type Shown = { status: string; last_event: string; attempts: number };

function noteOf(bag: HeldBag, emailId: string, marks: string): Settled {
  const now = Date.now();
  const places = [...marks].flatMap((mark, place) => (mark === "o" ? [] : [place]));
  const typeOf = (place: number) => (marks[place] === "d" ? "delivered" : "bounced");
  return {
    ...{ bag, emailId, marks, attemptedAt: now, at: now, places },
    status: marks.includes("o") ? "deferred" : "bounced",
    events: places.map((place) => ({
      type: typeOf(place),
      at: new Date(now).toISOString(),
      recipient: TO[place] as string,
    })),
    nextAt: marks.includes("o") ? now + 60_000 : null,
    domain: "example.net",
    reply: null,
    counts: { attempted: 3, delivered: places.length },
  };
}

async function countsOf({ lost }: { lost: HeldBag }): Promise<{ attempted: number; delivered: number }> {
  const [row] = await api.sql<{ attempted: number; delivered: number }[]>`
    select sum(attempted)::int as attempted, sum(delivered)::int as delivered
    from tally where workspace_id = ${lost.workspaceId}`;
  return { ...row } as { attempted: number; delivered: number };
}

test("two of three have it: only the third is open, however often it is noted", async () => {
  const given = await lostMail();
  const note = noteOf(given.lost, given.id, "dod");
  for (let n = 0; n < 2; n++) expect(await settle(api.sql, "worker", [note], [])).toEqual([note]);
  const [open] = await loadOpen(api.sql, given.held, [given.id]);
  expect(open?.marks).toBe("dod");
  expect(await countsOf(given)).toEqual({ attempted: 3, delivered: 2 });
  const [row] = await api.sql<{ history: { recipient: string }[] }[]>`
    select history from email where id = ${given.id}`;
  expect(row?.history.map(({ recipient }) => recipient)).toEqual([TO[0], TO[2]]);
});

test("one was delivered and two bounced: the bounces are asked for again, the delivery is not", async () => {
  const given = await lostMail();
  await settle(api.sql, "worker", [noteOf(given.lost, given.id, "bdb")], []);
  expect((await loadOpen(api.sql, given.held, [given.id]))[0]?.marks).toBe("odo");
});

test("what the new holder found out stands, and the last delivery ends the mail", async () => {
  const given = await lostMail();
  const theirs = { ...noteOf(given.held, given.id, "ddo"), nextAt: Date.now() + 60_000 };
  expect(await settle(api.sql, "other", [theirs], [])).toEqual([]);
  await settle(api.sql, "worker", [noteOf(given.lost, given.id, "ood")], []);
  expect((await given.read()).status).toBe("delivered");
  expect(await api.sql`select from due where email_id = ${given.id}`).toHaveLength(0);
});

test("its recipients count as tried once: by the late note, and by nobody after it", async () => {
  const given = await lostMail();
  await settle(api.sql, "worker", [noteOf(given.lost, given.id, "dod")], []);
  const [open] = await loadOpen(api.sql, given.held, [given.id]);
  expect(open?.attempts).toBe(1);
  const second = { ...noteOf(given.held, given.id, "ddd"), status: "delivered", nextAt: null } as const;
  const counts = { delivered: 1 };
  expect(await settle(api.sql, "other", [{ ...second, counts }], [])).toEqual([]);
  expect(await countsOf(given)).toEqual({ attempted: 3, delivered: 3 });
  expect(await given.read()).toMatchObject({ status: "delivered", attempts: 2 });
});

test("nor by a new holder who was on the way already, and takes its attempt for the first", async () => {
  const given = await lostMail();
  await settle(api.sql, "worker", [noteOf(given.lost, given.id, "dod")], []);
  const theirs = { ...noteOf(given.held, given.id, "ddd"), status: "delivered", nextAt: null } as const;
  expect(await settle(api.sql, "other", [theirs], [])).toEqual([]);
  expect(await countsOf(given)).toEqual({ attempted: 3, delivered: 5 });
});

test("nor by a delivery that is known only when the next holder has tried it, too", async () => {
  const given = await lostMail();
  expect(await settle(api.sql, "other", [noteOf(given.held, given.id, "ooo")], [])).toEqual([]);
  const late = { ...noteOf(given.lost, given.id, "ddd"), status: "delivered", nextAt: null } as const;
  expect(await settle(api.sql, "worker", [late], [])).toEqual([]);
  expect(await countsOf(given)).toEqual({ attempted: 3, delivered: 3 });
});

test("whoever has it is not open again because the new holder was deferred there", async () => {
  const given = await lostMail();
  await settle(api.sql, "worker", [noteOf(given.lost, given.id, "doo")], []);
  const theirs = noteOf(given.held, given.id, "ood");
  expect(await settle(api.sql, "other", [theirs], [])).toEqual([theirs]);
  expect((await loadOpen(api.sql, given.held, [given.id]))[0]?.marks).toBe("dod");
});
