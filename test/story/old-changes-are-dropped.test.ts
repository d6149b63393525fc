import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import {
  dropOldChanges,
  insertChange,
  listChanges,
  WHOLE_INSTALLATION,
} from "../../src/record/accounts/changes.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("changes of the console are kept for 400 days", async () => {
  const { id: workspaceId } = await api.workspace();
  const now = Date.now();
  // an id of long ago, as newId would have made it then
  const idAt = (ms: number) =>
    `${ms
      .toString(16)
      .padStart(12, "0")
      .replace(/^(.{8})/, "$1-")}-7${newId(now).slice(15)}`;
  const [old, young] = [idAt(now - 401 * DAY_MS), idAt(now - 399 * DAY_MS)];
  for (const id of [old, young])
    for (const of of [workspaceId, WHOLE_INSTALLATION]) {
      const change = { id, accountId: workspaceId, email: "a@example.com", action: "POST keys", subject: "" };
      await insertChange(api.sql, { ...change, status: 201, workspaceId: of });
    }
  const before = `${workspaceId.slice(0, -4)}0000`;
  await api.sql.begin((tx) => dropOldChanges(tx, before, now, 1_000));
  const page = { after: null, before: null, limit: 100 };
  expect((await listChanges(api.sql, workspaceId, page)).map(({ id }) => id)).toEqual([young]);
  expect((await listChanges(api.sql, WHOLE_INSTALLATION, page)).map(({ id }) => id)).not.toContain(old);
});
