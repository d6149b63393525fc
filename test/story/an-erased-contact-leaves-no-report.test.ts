/**
 * Reports repeat the address of the recipient: with the contact they go, and what comes afterwards says
 * nothing of them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";

const ADDRESS = "erased-soon@example.net";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

test("the report goes with the contact, and one that comes later bounces the mail without naming them", async () => {
  const { client } = loop.ws;
  const { id: audience } = (await client.post<{ id: string }>("/audiences", { name: "A" })).body;
  await client.post(`/audiences/${audience}/contacts`, { email: ADDRESS });
  const first = await loop.send(ADDRESS);
  const second = await loop.send(ADDRESS);
  for (const { id } of [first, second]) await loop.once(id, ({ status }) => status === "delivered");
  await handIn(loop.port, first.copies[0]?.from as string, dsn({ recipient: ADDRESS }));
  await loop.once(first.id, ({ status }) => status === "bounced");
  expect(await loop.results()).toEqual(["bounced"]);

  expect((await client.call("DELETE", `/audiences/${audience}/contacts/${ADDRESS}?mode=erase`)).status).toBe(
    200,
  );
  for (const { id } of [first, second])
    await loop.once(id, (email) => !JSON.stringify(email).includes(ADDRESS));
  expect(await loop.results()).toEqual([]);

  await handIn(loop.port, second.copies[0]?.from as string, dsn({ recipient: ADDRESS }));
  const email = await loop.once(second.id, ({ status }) => status === "bounced");
  expect(JSON.stringify(email)).not.toContain(ADDRESS);
  expect(email.events.at(-1)).not.toHaveProperty("detail");
});
