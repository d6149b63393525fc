/** Filters of the list of e-mails where few of many match: the first page has them, wherever they are. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { floorId } from "../../src/ids.ts";
import { plainArray, texts } from "../../src/record/db/arrays.ts";
import { WALK_MAX } from "../../src/record/mail/search.ts";
import {
  auditBlocks,
  BLOCK_EMAILS,
  cutBlocks,
  FIRST_BLOCK,
  forgetBlocks,
  readBlocks,
} from "../../src/record/mail/searchblocks.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const MANY = 4 * WALK_MAX;
const MINUTE_MS = 60_000;
const SETUP_MS_MAX = 60_000;
const OLDEST_MS = Date.now() - 20 * MINUTE_MS;
/** From the oldest on, and each far from the newest. */
const RARE = { first: 0, second: 1, third: 2_500, fourth: 7_777, fifth: 7_778, sixth: 12_000 };

type Item = { id: string };
type List = { data: Item[]; has_more: boolean; next_cursor: string | null };

let api: TestApi;
let ws: TestWorkspace;
let other: string;
beforeAll(async () => {
  api = await testApi({ timeoutMs: SETUP_MS_MAX });
  ws = await api.workspace();
  other = (await ws.key(["emails:send"])).id;
  await insertMany();
  await indexAll();
}, 2 * SETUP_MS_MAX);
afterAll(() => api.stop());

function idOf(n: number): string {
  return floorId(OLDEST_MS + n * 10).replace("-000000000000", `-${ws.id.slice(-12)}`);
}

async function insertMany(): Promise<void> {
  const rows = Array.from({ length: MANY }, (_, n) => ({
    id: idOf(n),
    keyId: n === RARE.third ? other : ws.keyId,
    head: JSON.stringify({
      from: "a@x.com",
      to: [n === RARE.first ? "Ann <Ann@Rare.example>" : `person${n % 100}@example.net`],
      cc: n === RARE.sixth ? ["ann@rare.example"] : [],
      bcc: [],
      reply_to: [],
      subject: n === RARE.fourth || n === RARE.fifth ? `Größe 44: return #${n}` : "Your order",
    }),
  }));
  await api.sql`
    insert into email (workspace_id, id, key_id, bulk, status, head, weight, bytes, created_at, updated_at)
    select ${ws.id}, id, key_id, false, 'delivered', head::json, 1, 1, ${new Date(OLDEST_MS)}, ${new Date(OLDEST_MS)}
    from unnest(${plainArray(rows.map(({ id }) => id))}::uuid[], ${plainArray(rows.map(({ keyId }) => keyId))}::uuid[],
      ${texts(
        api.sql,
        rows.map(({ head }) => head),
      )}) as r(id, key_id, head)`;
  await api.sql`
    insert into body (workspace_id, id, extra)
    select workspace_id, id, json_build_object('tags', json_build_array(json_build_object('name', 'kind', 'value',
      case id when ${idOf(RARE.second)} then 'Odd' else 'even' end)))
    from email where workspace_id = ${ws.id}`;
  const end = (n: number, status: string) =>
    api.sql`update email set status = ${status} where workspace_id = ${ws.id} and id = ${idOf(n)}`;
  await end(RARE.first, "bounced");
  await end(RARE.fourth, "bounced");
  await end(RARE.second, "failed");
  await end(RARE.second, "delivered");
  await end(RARE.sixth, "complained");
}

async function indexAll(): Promise<void> {
  while ((await cutBlocks(api.sql, ws.id, Date.now(), 8)) === 8);
  while ((await readBlocks(api.sql, 5)) === 5);
}

const placeOf = ({ id }: Item) => (Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16) - OLDEST_MS) / 10;
async function list(query: string) {
  const { body } = await ws.client.get<List>(`/emails?${query}`);
  return { ...body, places: body.data.map(placeOf) };
}

/** All pages, from the newest or from the oldest on. */
async function pages(query: string): Promise<number[][]> {
  const all: number[][] = [];
  for (let cursor = ""; ; ) {
    const { places, has_more, next_cursor } = await list(query + cursor);
    all.push(places);
    if (!has_more) return all;
    cursor = `&cursor=${next_cursor}`;
  }
}

describe("the first page has all that match by", () => {
  test.each([
    ["recipient", "to=ann@rare.example", [RARE.sixth, RARE.first]],
    ["words of the subject", "subject=RETURN GRöße", [RARE.fifth, RARE.fourth]],
    ["one word of it", "subject=7777", [RARE.fourth]],
    ["tag", "tag=kind:Odd", [RARE.second]],
    ["key", () => `api_key_id=${other}`, [RARE.third]],
    ["status", "status=bounced", [RARE.fourth, RARE.first]],
    ["another status", "status=complained", [RARE.sixth]],
    ["status and recipient", "status=bounced&to=ann@rare.example", [RARE.first]],
    ["recipient and time", () => `to=ann@rare.example&until=${timeOf(RARE.third)}`, [RARE.first]],
  ])("%s", async (_, query, wanted) => {
    const { places, has_more } = await list(typeof query === "string" ? query : query());
    expect({ places, has_more }).toEqual({ places: wanted, has_more: false });
  });

  test("a status that it had before does not match", async () => {
    expect(await list("status=failed")).toMatchObject({ places: [], has_more: false });
  });

  test("a tag of another case does not match", async () => {
    expect((await pages("tag=kind:odd")).flat()).toEqual([]);
  });
});

// by the id, since all of them were accepted at one time
function timeOf(n: number): string {
  return new Date(OLDEST_MS + n * 10).toISOString();
}

test("pages in either direction have all that match, each once", async () => {
  const wanted = Array.from({ length: MANY / 100 }, (_, n) => n * 100 + 7);
  const down = await pages("to=person7@example.net&limit=30");
  expect(down.flat()).toEqual(wanted.toReversed());
  const up: number[] = [];
  for (let before = idOf(0); ; ) {
    const { data, places, has_more } = await list(`to=person7@example.net&limit=100&before=${before}`);
    up.push(...places.toReversed());
    if (!has_more) break;
    before = data[0]?.id as string;
  }
  expect(up).toEqual(wanted);
});

test("backwards, too, what is far is found", async () => {
  const from = floorId(OLDEST_MS);
  expect((await list(`subject=return&before=${from}`)).places).toEqual([RARE.fifth, RARE.fourth]);
});

describe("a block is unknown, and searched as if it had everything,", () => {
  const unknown = async () => {
    const rows = await api.sql`
      select from search_block where workspace_id = ${ws.id} and terms is null`;
    return rows.length;
  };

  test("after an e-mail was written among its e-mails", async () => {
    expect(await unknown()).toBe(0);
    const late = { workspaceId: ws.id, id: idOf(RARE.third + 0.1) };
    await api.sql.begin(async (tx) => {
      await tx`insert into email (workspace_id, id, key_id, bulk, status, head, weight, bytes, created_at, updated_at)
        select workspace_id, ${late.id}, key_id, bulk, status, 
          ${tx.json({ from: "a@x.com", to: ["late@rare.example"], cc: [], bcc: [], reply_to: [], subject: "" })},
          1, 1, created_at, updated_at from email where workspace_id = ${ws.id} and id = ${idOf(0)}`;
      await forgetBlocks(tx, [late]);
    });
    expect(await unknown()).toBe(1);
    expect((await list("to=late@rare.example")).data).toMatchObject([{ id: late.id }]);
    await readBlocks(api.sql, 5);
    expect(await unknown()).toBe(0);
    expect((await list("to=late@rare.example")).data).toMatchObject([{ id: late.id }]);
  });

  test("when it is found to hold another number of e-mails", async () => {
    await api.sql`delete from email where workspace_id = ${ws.id} and id = ${idOf(BLOCK_EMAILS + 1)}`;
    let at: typeof FIRST_BLOCK | null = FIRST_BLOCK;
    while (at) at = await auditBlocks(api.sql, at, 50);
    expect(await unknown()).toBe(1);
    await readBlocks(api.sql, 5);
  });
});
