import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
const never = () => new Promise<never>(() => {});
beforeAll(async () => {
  api = await testApi({ dns: { askTxt: never, returnPaths: null } as never });
});
afterAll(async () => {
  await api.stop();
});

async function domainsOf(workspace: TestWorkspace, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const name = `d${n}-${workspace.handle.toLowerCase()}.example.com`;
    const { status, body } = await workspace.client.post<{ id: string }>("/domains", { name });
    expect(status).toBe(201);
    ids.push(body.id);
  }
  return ids;
}

test("a workspace whose DNS never answers has few domains verified at once", async () => {
  const [slow, other] = [await api.workspace("pro"), await api.workspace("pro")];
  const [ids, [free]] = [await domainsOf(slow, 5), await domainsOf(other, 1)];
  const verify = (workspace: TestWorkspace, id?: string) => workspace.client.post(`/domains/${id}/verify`);
  const statuses = await Promise.all(ids.map(async (id) => (await verify(slow, id)).status));
  expect(statuses.sort()).toEqual([200, 200, 200, 200, 503]);
  expect((await verify(other, free)).status).toBe(200);
});
