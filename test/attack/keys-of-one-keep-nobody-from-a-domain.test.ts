/**
 * To make the key of a domain takes a core some tenths of a second. A workspace that asks for many leaves
 * room for others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../rig/eventually.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let database: OwnDatabase;
let api: TestApi;
beforeAll(async () => {
  database = await ownDatabase();
  api = await testApi({ databaseUrl: database.url });
});
afterAll(async () => {
  await api.stop();
  await database.drop();
});

const add = async (workspace: TestWorkspace, n: number) =>
  (
    await workspace.client.post("/domains", {
      name: `d${n}-${workspace.handle.toLowerCase()}.example.com`,
    })
  ).status;

test("a workspace that adds many domains at once has three keys made, and another has its own", async () => {
  const [greedy, other] = [await api.workspace("pro"), await api.workspace("pro")];
  const refused: number[] = [];
  const { asked, others } = await api.sql.begin(async (tx) => {
    // no key is kept, so none is done before all have been asked for
    await tx`lock table domain_key in share mode`;
    const asked = Array.from({ length: 9 }, async (_, n) => {
      const status = await add(greedy, n);
      if (status === 503) refused.push(n);
      return status;
    });
    const others = add(other, 0);
    await eventually(() => expect(refused).toHaveLength(6));
    return { asked, others };
  });
  expect((await Promise.all(asked)).sort()).toEqual([201, 201, 201, ...Array(6).fill(503)]);
  expect(await others).toBe(201);
  expect(await add(greedy, 9)).toBe(201);
});
