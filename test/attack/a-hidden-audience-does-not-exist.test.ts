/**
 * An audience that a key may not see is answered like one that does not exist: the same words, the same
 * headers, and the same time, since nothing that could tell the difference is asked.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type Answer, type Client, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const MISSING = "01890000-0000-7000-8000-000000000000";
const ADDRESS = "known@x.example";
const PAIRS = 300;
/**
 * Of the pairs, in how many the hidden one is the slower: half of them by chance, whatever the machine does
 * besides, and once in a million runs 43 more or less. Where one of the two asks more it is nearly all.
 */
const SLOWER = { least: PAIRS / 2 - 43, most: PAIRS / 2 + 43 };

let database: OwnDatabase;
let api: TestApi;
let ws: TestWorkspace;
let hidden: string;
let client: Client;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
  ws = await api.workspace();
  const mine = await newAudience(ws.client);
  hidden = await newAudience(ws.client);
  await ws.client.post(`/audiences/${hidden}/contacts`, { email: ADDRESS });
  ({ client } = await ws.key(["full"], [mine]));
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

const CALLS: [method: string, path: string, body?: unknown][] = [
  ["GET", ""],
  ["DELETE", ""],
  ["GET", "/contacts"],
  ["POST", "/contacts", { email: ADDRESS }],
  ["GET", `/contacts/${ADDRESS}`],
  ["PATCH", `/contacts/${ADDRESS}`, { first_name: "A" }],
  ["DELETE", `/contacts/${ADDRESS}`],
  ["DELETE", `/contacts/${ADDRESS}?mode=erase`],
  ["POST", `/contacts/${ADDRESS}/tags`, { add: ["a"] }],
];

test.each(CALLS)("%s %s: the same answer, and no table is asked", async (method, path, body) => {
  await client.get("/audiences"); // from here on the key is known to Redis
  const holding = await api.sql.reserve();
  await holding`begin`;
  await holding`lock table audience, contact in access exclusive mode`;
  for (const name of ["audiences", "segments"]) {
    const [one, other] = (await Promise.all(
      [hidden, MISSING].map((id) => client.call(method, `/${name}/${id}${path}`, body)),
    )) as [Answer, Answer];
    expect(one.status).toBe(404);
    expect(told(one)).toEqual(told(other));
  }
  await holding`rollback`;
  holding.release();
});

test("what is wrong with a request is said before, in the same words", async () => {
  for (const [method, path, body] of [
    ["POST", "/contacts", { email: "nobody" }],
    ["GET", "/contacts/nonsense", undefined],
    ["GET", "/contacts?limit=0", undefined],
    ["POST", `/contacts/${ADDRESS}/tags`, {}],
  ] as const) {
    const one = await client.call(method, `/audiences/${hidden}${path}`, body);
    const other = await client.call(method, `/audiences/${MISSING}${path}`, body);
    expect(one.status).toBe(422);
    expect(told(one)).toEqual(told(other));
  }
});

test("an audience of another workspace is one that does not exist, for a key without limits", async () => {
  const abroad = await api.workspace();
  for (const [method, path, body] of CALLS) {
    const one = await abroad.client.call(method, `/audiences/${hidden}${path}`, body);
    const other = await abroad.client.call(method, `/audiences/${MISSING}${path}`, body);
    expect(one.status).toBe(404);
    expect(told(one)).toEqual(told(other));
  }
  expect((await ws.client.get(`/audiences/${hidden}/contacts/${ADDRESS}`)).status).toBe(200);
});

test("the same time", async () => {
  const took = async (id: string) => {
    const since = performance.now();
    await client.get(`/audiences/${id}/contacts/${ADDRESS}`);
    return performance.now() - since;
  };
  let slower = 0;
  for (let n = 0; n < PAIRS; n++) {
    const [first, second] = n % 2 === 0 ? [hidden, MISSING] : [MISSING, hidden];
    const [one, other] = [await took(first as string), await took(second as string)];
    if (n % 2 === 0 ? one > other : other > one) slower++;
  }
  expect(slower).toBeGreaterThan(SLOWER.least);
  expect(slower).toBeLessThan(SLOWER.most);
});

/** All that a caller sees, but for what differs from request to request. */
function told({ status, headers, body }: Answer) {
  const kept = [...headers].filter(([name]) => !/^(date|x-request-id|.*ratelimit-.*)$/.test(name));
  return { status, headers: kept, names: [...headers.keys()], body };
}

async function newAudience(full: Client): Promise<string> {
  return (await full.post<{ id: string }>("/audiences", { name: "People" })).body.id;
}
