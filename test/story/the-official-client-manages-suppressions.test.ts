/** Suppressions through the official client, unmodified: single, in batches, by id and by address. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { officialClient } from "../rig/officialclient.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(async () => {
  await api.stop();
});

const load = () => officialClient("resend", { url: api.url, key: ws.client.key });

test("adds, reads, lists, filters and removes", async () => {
  const { suppressions } = load();
  const added = await suppressions.add({ email: "One@example.net" });
  expect(added).toMatchObject({ error: null, data: { object: "suppression" } });
  const id = added.data?.id as string;
  expect((await suppressions.add({ email: "one@EXAMPLE.net" })).data?.id).toBe(id);
  for (const name of [id, "one@example.net"])
    expect((await suppressions.get(name)).data).toMatchObject({
      object: "suppression",
      id,
      email: "One@example.net",
      origin: "manual",
      source_id: null,
    });
  const batch = await suppressions.batch.add({ emails: ["two@example.net", "three@example.net"] });
  expect(batch.data?.data).toHaveLength(2);
  const page = await suppressions.list({ limit: 2, origin: "manual" });
  expect(page.data?.data.map(({ email }) => email)).toEqual(["three@example.net", "two@example.net"]);
  expect(page.data?.has_more).toBe(true);
  expect((await suppressions.list({ origin: "bounce" })).data?.data).toEqual([]);
  expect((await suppressions.remove("one@example.net")).data).toEqual({
    object: "suppression",
    id,
    deleted: true,
  });
  expect((await suppressions.remove("one@example.net")).error?.name).toBe("not_found");
  const removed = await suppressions.batch.remove({ emails: ["two@example.net", "unknown@example.net"] });
  expect(removed.data?.data).toEqual([{ object: "suppression", id: batch.data?.data[0]?.id, deleted: true }]);
  const ids = batch.data?.data.map((one) => one.id) as string[];
  expect((await suppressions.batch.remove({ ids })).data?.data).toMatchObject([
    { id: ids[1], deleted: true },
  ]);
});

test.each([
  ["/suppressions", {}, "missing_required_field"],
  ["/suppressions", { email: "nobody" }, "validation_error"],
  ["/suppressions", { email: "a@example.net", reason: "dislike" }, "validation_error"],
  ["/suppressions", { email: "a@example.net", scope: "no domain" }, "validation_error"],
  ["/suppressions/batch/add", { emails: [] }, "validation_error"],
  ["/suppressions/batch/add", { emails: new Array(101).fill("a@example.net") }, "validation_error"],
  ["/suppressions/batch/remove", {}, "validation_error"],
  ["/suppressions/batch/remove", { ids: ["1"] }, "validation_error"],
])("%s %j is %s", async (path, body, name) => {
  expect(await ws.client.post(path, body)).toMatchObject({ status: 422, body: { name } });
});

test("a name that is neither an id nor an address, and an unknown filter, are invalid parameters", async () => {
  for (const path of [
    "/suppressions/nobody",
    "/suppressions?reason=dislike",
    "/suppressions?to=a@example.net",
  ])
    expect(await ws.client.get(path)).toMatchObject({ status: 422, body: { name: "invalid_parameter" } });
});
