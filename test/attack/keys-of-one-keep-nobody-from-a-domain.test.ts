/**
 * To make the key of a domain takes a core some tenths of a second. A workspace that asks for many leaves
 * room for others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api.stop();
});

const add = async (workspace: TestWorkspace, n: number) =>
  (
    await workspace.client.post("/domains", {
      name: `d${n}-${workspace.handle.toLowerCase()}.example.com`,
    })
  ).status;

test("a workspace that adds many domains at once has three keys made, and another has its own", async () => {
  const [greedy, other] = [await api.workspace("pro"), await api.workspace("pro")];
  const asked = Array.from({ length: 9 }, (_, n) => add(greedy, n));
  const others = add(other, 0);
  expect((await Promise.all(asked)).sort()).toEqual([201, 201, 201, ...Array(6).fill(503)]);
  expect(await others).toBe(201);
  expect(await add(greedy, 9)).toBe(201);
}, 30_000);
