/**
 * Everything that a workspace has is in the new cell as it was in the old: row by row, of every table that
 * the catalog has. Its neighbours keep all of theirs.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { TABLE_MODES, workspaceTables } from "../../src/record/cells/tables.ts";
import { openCells, type TwoCells } from "../rig/cells.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { rowsOf } from "../rig/moves.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let cells: TwoCells;
let engine: Engine;
beforeAll(async () => {
  cells = await openCells();
  const { databaseUrl, redisUrl } = cells.home;
  // nobody works on what is there
  engine = await startEngine(["api"], {
    ...{ databaseUrl, redisUrl },
    settings: { CELLS_FILE: cells.file },
  });
});
afterAll(async () => {
  await engine.stop();
  await cells.close();
});

test("every table with a workspace says how it moves, and no other does", async () => {
  const tables = await workspaceTables(cells.home.sql);
  expect(tables.map(({ name }) => name).sort()).toEqual(Object.keys(TABLE_MODES).sort());
  for (const { name, mode, key } of tables)
    if (mode === "early") expect([name, key[0]?.name]).toEqual([name, "workspace_id"]);
});

test("every row is the same in the new cell", async () => {
  const workspace = await cells.home.workspace(engine.url);
  const neighbour = await cells.home.workspace(engine.url);
  for (const one of [workspace, neighbour]) await furnish(one);
  const kept = await rowsOf(cells.home.sql, neighbour.id);
  const before = await rowsOf(cells.home.sql, workspace.id);
  const filled = Object.keys(before).filter((name) => before[name]?.length);
  for (const name of [
    "email",
    "body",
    "attachment",
    "bag",
    "due",
    "claim",
    "contact",
    "contact_tag",
    "webhook",
    "ledger",
  ])
    expect(filled).toContain(name);
  const { databaseUrl, redisUrl } = cells.home;
  const run = commandLine({ databaseUrl, redisUrl, settings: { CELLS_FILE: cells.file } });
  await run.json("workspace", "move", workspace.id, "--to", "west");
  const after = await rowsOf(cells.other.sql, workspace.id);
  for (const name of filled) expect([name, after[name]]).toEqual([name, before[name]]);
  expect(await rowsOf(cells.home.sql, neighbour.id)).toEqual(kept);
  const left = await rowsOf(cells.home.sql, workspace.id);
  expect(Object.values(left).flat()).toEqual([]);
  const again = await run.json<{ cell: string }>("workspace", "move", workspace.id, "--to", "west");
  expect(again.cell).toBe("west");
});

async function furnish({ client }: TestWorkspace): Promise<void> {
  const attachments = [{ filename: "a.txt", content: Buffer.from([0, 255, 10, 92]).toString("base64") }];
  await client.post("/emails", mail({ subject: 'quotes " and \\ and é, {braces}', attachments }), {
    "Idempotency-Key": "k",
  });
  await client.post("/emails", mail({ scheduled_at: new Date(Date.now() + 86_400_000).toISOString() }));
  const sent = await client.post<{ id: string }>(
    "/emails",
    mail({ scheduled_at: new Date(Date.now() + 86_400_000).toISOString() }),
  );
  await client.post(`/emails/${sent.body.id}/cancel`);
  const { body } = await client.post<{ id: string }>("/audiences", { name: "Readers" });
  for (const email of ["one@example.net", "two@example.net"])
    await client.post(`/audiences/${body.id}/contacts`, {
      email,
      first_name: 'O\'Neil, "x"',
      tags: ["a b", "c"],
    });
  await client.post("/suppressions", { email: "gone@example.net" });
  await client.post("/templates", { name: "t", html: "<p>Hi</p>" });
  await client.post("/domains", { name: "shop.example" });
  await client.post("/webhooks", { endpoint: "https://hooks.example.com/", events: ["email.sent"] });
}
