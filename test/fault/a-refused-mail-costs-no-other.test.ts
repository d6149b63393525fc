/** Postgres refuses one mail of the engine's own: the others that were to be written with it are written. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Confirmations } from "../../src/audience/confirm.ts";
import { Links } from "../../src/audience/links.ts";
import { type Flows, type Shop, startFlows, told } from "../rig/flows.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const OTHERS = 6;
const RETRY_MS = 5_000;
const SWEEP_MAX = 200;

let flows: Flows;
let shop: Shop;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());
beforeEach(async () => {
  shop = await flows.shop();
  flows.faults.splice(0);
});

test("a run whose mail a constraint refuses is tried again, and the runs beside it go on", async () => {
  const id = await automate("<p>Hello {{ who }}</p>");
  await flows.sql`alter table body add constraint refusal check (html not like '%poison%') not valid`;
  await runs("poison");
  expect((await shop.runs(id)).map((run) => told(run))).toEqual(expected([]));
  flows.clock.advance(RETRY_MS);
  await flows.go();
  expect((await shop.runs(id)).map((run) => told(run))).toEqual(expected([]));
  await flows.sql`alter table body drop constraint refusal`;
  flows.clock.advance(RETRY_MS);
  await flows.go();
  expect((await shop.runs(id)).map((run) => told(run))).toEqual(expected(["send done"]));
});

test("a step whose mail Postgres can never keep is skipped, and says why", async () => {
  const id = await automate("<p>Hello {{ who }}</p>");
  await flows.sql.unsafe(`
    create function refuse() returns trigger language plpgsql as $$ begin
      raise 'no such text' using errcode = '22021'; end $$;
    create trigger refuse before insert on body for each row when (new.html like '%poison%') execute function refuse()`);
  await runs("poison");
  await flows.sql`drop function refuse cascade`;
  const why = "send skipped the e-mail cannot be kept: no such text";
  expect((await shop.runs(id)).map((run) => told(run))).toEqual(expected([why]));
});

test("confirmations that cannot be written keep back no other, and however many they are", async () => {
  const { ws, audience } = await asking();
  for (let n = 0; n < 3; n++) await add(ws, audience, `late-${n}@example.net`);
  await expect
    .poll(() => flows.sql`select from confirmation where workspace_id = ${ws.id} and is_mailed`)
    .toHaveLength(3);
  await flows.sql`update confirmation set is_mailed = false where workspace_id = ${ws.id}`;
  const [sample] = await flows.sql<{ contactId: string }[]>`
    select contact_id as "contactId" from confirmation where workspace_id = ${ws.id} order by asked_at`;
  // a page of them, older than the others
  await flows.sql`
    with c as (
      insert into contact select (jsonb_populate_record(c, jsonb_build_object(
        'id', gen_random_uuid(), 'email', 'poison-' || n || '@example.net',
        'identity', 'poison-' || n || '@example.net'))).*
      from contact c, generate_series(1, ${SWEEP_MAX}) n where c.id = ${sample?.contactId as string} returning id
    )
    insert into confirmation select (jsonb_populate_record(f, jsonb_build_object(
      'contact_id', c.id, 'asked_at', f.asked_at - interval '1 hour'))).*
    from confirmation f, c where f.contact_id = ${sample?.contactId as string}`;
  const mailed: string[] = [];
  const faults: unknown[] = [];
  const confirmations = new Confirmations({
    sql: flows.sql,
    links: new Links("a secret of the tests, long enough for any use", flows.api.url),
    clock: flows.clock,
    from: "no-reply@example.com",
    textOf: async () => null,
    write: async ({ emails }) => {
      const [to] = JSON.parse(emails[0]?.head as string).to as string[];
      if (to?.startsWith("poison")) throw new Error("refused");
      mailed.push(to as string);
    },
    onFault: (error) => {
      faults.push(error);
    },
  });
  flows.clock.advance(RETRY_MS);
  await confirmations.sweep();
  expect(faults).toHaveLength(SWEEP_MAX);
  await confirmations.sweep();
  expect(mailed.sort()).toEqual([0, 1, 2].map((n) => `late-${n}@example.net`));
});

async function automate(html: string): Promise<string> {
  const send = { from: "Shop <shop@example.com>", subject: "Welcome", html };
  return shop.automate({ steps: [{ send }] });
}

/** All due at once, the one in the middle. */
async function runs(poison: string): Promise<void> {
  for (let n = 0; n <= OTHERS; n++) {
    await shop.contact(`${n}@example.net`);
    const who = n === OTHERS / 2 ? poison : "you";
    await shop.track(`${n}@example.net`, { properties: { who } });
  }
  await flows.go();
}

function expected(ofPoison: string[]): string[][] {
  return Array.from({ length: OTHERS + 1 }, (_, n) => (n === OTHERS / 2 ? ofPoison : ["send done"]));
}

async function asking(): Promise<{ ws: TestWorkspace; audience: string }> {
  const ws = await flows.api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in: true });
  return { ws, audience: body.id };
}

async function add(ws: TestWorkspace, audience: string, email: string): Promise<void> {
  expect((await ws.client.call("POST", `/audiences/${audience}/contacts`, { email })).status).toBe(201);
}
