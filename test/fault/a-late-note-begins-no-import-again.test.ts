import { expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { findImport, insertImport, noteImport } from "../../src/record/contacts/imports.ts";
import { testApi } from "../rig/workspace.ts";

test("a note that is overtaken by the end of its import changes nothing", async () => {
  const api = await testApi();
  try {
    const { id: workspaceId } = await api.workspace();
    const now = new Date();
    const asked = { workspaceId, audienceId: newId(now.getTime()), id: newId(now.getTime()) };
    const counts = { total: 2, created: 2, updated: 0, skipped: 0, failed: 0 };
    await insertImport(api.sql, asked, now);
    await noteImport(api.sql, asked, "completed", counts, now);
    await noteImport(api.sql, asked, "in_progress", { ...counts, total: 1, created: 1 }, now);
    const found = await findImport(api.sql, workspaceId, null, asked.id, now);
    expect(found).toMatchObject({ status: "completed", completedAt: now, ...counts });
  } finally {
    await api.stop();
  }
});
