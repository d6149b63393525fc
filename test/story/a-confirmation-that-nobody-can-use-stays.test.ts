/**
 * A confirmation mail may wait for the month, or for a cap. When it may leave, it asks only who can still
 * answer it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("who withdrew while it waited, or whose link is dead, gets none; others do", async () => {
  const ws = await engine.workspace("pro", { emails_per_month: 1 });
  await ws.client.send([mail()]);
  const audience = await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in: true });
  const contacts = `/audiences/${audience.body.id}/contacts`;
  const people = ["stays", "withdrew", "late"].map((name) => `${name}@example.net`);
  for (const email of people) expect((await ws.client.post(contacts, { email })).status).toBe(201);
  const statuses = async () => {
    const rows = await engine.sql<{ to: string; status: string }[]>`
      select head -> 'to' ->> 0 as to, status from email where workspace_id = ${ws.id}`;
    return Object.fromEntries(rows.map(({ to, status }) => [to.split("@")[0], status]));
  };
  await expect.poll(statuses).toMatchObject({ stays: "waiting", withdrew: "waiting", late: "waiting" });
  await ws.client.call("PATCH", `${contacts}/withdrew@example.net`, { unsubscribed: true });
  const aWeekAgo = Date.now() - 7 * DAY_MS;
  const [late] = await engine.sql<{ id: string }[]>`
    update confirmation f set asked_at = ${new Date(aWeekAgo)} from contact c
    where c.workspace_id = ${ws.id} and c.email = 'late@example.net' and f.contact_id = c.id
      and f.workspace_id = c.workspace_id returning c.id`;
  const asks = JSON.stringify({ asks: { contactId: late?.id, askedAt: aWeekAgo } });
  await engine.sql`
    update body b set extra = ${asks}::text::json from email e
    where e.workspace_id = ${ws.id} and e.head -> 'to' ->> 0 = 'late@example.net' and b.id = e.id
      and b.workspace_id = e.workspace_id`;
  await commandLine(stage).json("workspace", "set", ws.id, "--limit", "emails_per_month=default");
  await expect
    .poll(statuses, { timeout: 20_000 })
    .toMatchObject({ stays: "delivered", withdrew: "canceled", late: "canceled" });
});
