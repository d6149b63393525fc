/**
 * Two api processes change the same contacts at once. In the end every change that was answered is there,
 * nobody is there twice, and nobody waited for anybody in a ring. One that is killed owes no confirmation
 * mail.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressHasher, Links } from "../../src/audience/links.ts";
import type { Tx } from "../../src/record/db/connect.ts";
import { type Engine, settingsOf, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { Client, type TestWorkspace } from "../rig/workspace.ts";

const PEOPLE = 12;
const ROUNDS = 40;
const CALLERS_EACH = 4;
const PATIENCE_MS = 30_000;
const SECRET = settingsOf({}).POSTRIDER_SECRET as string;

let stage: Stage;
let engine: Engine;
let apis: EngineProcess[];
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  // the keeper works off what erasures leave
  engine = await startEngine(["api", "keeper"], stage);
  apis = await Promise.all([startProcess(["api"], stage), startProcess(["api"], stage)]);
  ws = await engine.workspace();
});
afterAll(async () => {
  await Promise.all(apis.map((api) => api.kill()));
  await engine.stop();
  await stage.close();
});

type Kind = "kept" | "archived" | "erased" | "unsubscribed";
/** What must be there in the end: the plain model. */
type Person = { kind: Kind; address: string; ids: Set<string>; tags: Set<string>; names: Set<string> };

test("what two apis are asked of the same people at once is all there, once", async () => {
  const audiences = await Promise.all([newAudience(), newAudience()]);
  const links = new Links(SECRET, urlOf(0));
  const people = audiences.flatMap((audience) =>
    (["kept", "archived", "erased", "unsubscribed"] as const).flatMap((kind) =>
      Array.from({ length: PEOPLE / 4 }, (_, n) => ({
        audience,
        person: {
          kind,
          address: `${kind}${n}@x.example`,
          ids: new Set(),
          tags: new Set(),
          names: new Set(),
        } as Person,
      })),
    ),
  );
  for (const { audience, person } of people) {
    const { body } = await clientOf(0).post<{ id: string }>(contacts(audience), { email: person.address });
    person.ids.add(body.id);
  }

  const act = async ({ audience, person }: (typeof people)[number], n: number): Promise<void> => {
    const client = clientOf(n);
    const path = contacts(audience);
    const one = `${path}/${person.address}`;
    const mark = `${person.kind}-${n}`;
    const added = await client.post<{ id: string }>(path, {
      // the same person, however it is spelt
      email: n % 3 === 0 ? person.address.toUpperCase() : person.address,
      tags: [mark],
      properties: { [mark]: n },
      ...(person.kind === "unsubscribed" && { unsubscribed: false }),
    });
    expect(added.status).toBe(201);
    person.ids.add(added.body.id);
    person.tags.add(mark);
    const tagged = await client.post(`${one}/tags`, { add: [`${mark}-tag`], remove: ["nothing"] });
    if (tagged.status === 200) person.tags.add(`${mark}-tag`);
    const renamed = await client.call("PATCH", one, {
      first_name: mark,
      properties: { [`${mark}-patch`]: n },
    });
    if (renamed.status === 200) person.names.add(mark);
    // who may be archived or erased at any moment may be gone by now
    const mayBeGone = person.kind === "archived" || person.kind === "erased";
    for (const { status } of [tagged, renamed]) expect(mayBeGone ? [200, 404] : [200]).toContain(status);
    if (person.kind === "archived" && n % 7 === 0)
      expect([200, 404]).toContain((await client.call("DELETE", one)).status);
    if (person.kind === "erased" && n % 7 === 0)
      expect([200, 404]).toContain((await client.call("DELETE", `${one}?mode=erase`)).status);
    if (person.kind === "unsubscribed" && n % 7 === 0) {
      const contactId = added.body.id;
      const link = links.unsubscribeUrl({ workspaceId: ws.id, audienceId: audience, contactId });
      const { status } = await fetch(link.replace(urlOf(0), urlOf(n)), { method: "POST" });
      expect(status).toBe(200);
    }
  };
  // every person is changed by several callers at once
  const caller = async (one: (typeof people)[number], from: number): Promise<void> => {
    for (let n = from; n < ROUNDS; n += CALLERS_EACH) await act(one, n);
  };
  await Promise.all(
    people.flatMap((one) => Array.from({ length: CALLERS_EACH }, (_, from) => caller(one, from))),
  );

  const rows = await engine.sql<Row[]>`
    select id, audience_id, identity, tags, properties, status, first_name from contact where workspace_id = ${ws.id}`;
  const names = rows.map(({ audience_id, identity }) => `${audience_id} ${identity}`);
  expect(new Set(names).size).toBe(names.length);
  for (const { audience, person } of people) {
    const row = rows.find(
      ({ audience_id, identity }) => audience_id === audience && identity === person.address,
    );
    if (person.kind === "erased") continue;
    expect([...person.ids]).toEqual([row?.id]);
    expect(row?.tags).toEqual([...person.tags].sort());
    for (let n = 0; n < ROUNDS; n++) expect(row?.properties).toHaveProperty(`${person.kind}-${n}`, n);
    expect([...person.names]).toContain(row?.first_name);
    expect(row?.status).toBe(person.kind === "unsubscribed" ? "unsubscribed" : "subscribed");
    if (person.kind !== "unsubscribed") continue;
    const kinds = await engine.sql`select kind from consent where contact_id = ${row?.id as string}`;
    expect(kinds.map(({ kind }) => kind)).toEqual(["withdrawn"]);
  }
  const suppressed = addressHasher(SECRET);
  for (const { person } of people.filter(({ person: { kind } }) => kind === "erased"))
    expect(
      await engine.sql`select 1 from suppression where address_hash = ${suppressed(person.address)}`,
    ).toEqual([]);
  const [stats] = await engine.sql`
    select deadlocks::int from pg_stat_database where datname = current_database()`;
  expect(stats?.deadlocks).toBe(0);
}, 240_000);

type Row = {
  id: string;
  audience_id: string;
  identity: string;
  tags: string[];
  properties: Record<string, unknown>;
  status: string;
  first_name: string | null;
};

test("an api killed before it wrote the confirmation mail leaves it to another, which writes one", async () => {
  const audience = await newAudience(true);
  const address = "waiting@x.example";
  const [doomed] = apis as [EngineProcess];
  const client = new Client(`http://127.0.0.1:${doomed.port}`, ws.client.key);
  // a mail needs the workspace's ledger, a contact does not
  const holding = await engine.sql.reserve();
  await holding`begin`;
  await holding`select 1 from ledger where workspace_id = ${ws.id} for update`;
  expect((await client.post(contacts(audience), { email: address })).status).toBe(201);
  await doomed.kill();
  expect(await mailsTo(address, holding)).toBe(0);
  await holding`rollback`;
  holding.release();

  const deadline = performance.now() + PATIENCE_MS;
  while ((await engine.sql`select 1 from confirmation where not is_mailed`).length > 0) {
    if (performance.now() > deadline) throw new Error("nobody wrote the confirmation mail");
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await mailsTo(address)).toBe(1);
  const [row] = await engine.sql`select status from contact where identity = ${address}`;
  expect(row?.status).toBe("pending");
});

async function mailsTo(address: string, sql: Tx = engine.sql): Promise<number> {
  const rows = await sql`select 1 from email where head::text like ${`%${address}%`}`;
  return rows.length;
}

function urlOf(n: number): string {
  return `http://127.0.0.1:${apis[n % 2]?.port}`;
}

function clientOf(n: number): Client {
  return new Client(urlOf(n), ws.client.key);
}

function contacts(audience: string): string {
  return `/audiences/${audience}/contacts`;
}

async function newAudience(doubleOptIn = false): Promise<string> {
  const body = { name: "People", double_opt_in: doubleOptIn };
  return (await ws.client.post<{ id: string }>("/audiences", body)).body.id;
}
