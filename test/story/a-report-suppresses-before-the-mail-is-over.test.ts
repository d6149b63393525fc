/**
 * Of a mail to several one may be reported as gone, or complain, while the mail is still tried for another,
 * for days. Nobody writes to them meanwhile; what became of the mail is noted when it is over, and counted
 * once, or not at all where somebody has undone the suppression before.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";
import { mail } from "../rig/workspace.ts";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

/** Delivered to the first, and tried again tomorrow for the other. */
async function halfDelivered(to: string): Promise<{ id: string; path: string }> {
  const { body } = await loop.ws.client.post<{ id: string }>(
    "/emails",
    mail({ to: [to, "refuse-450@slow.example"] }),
  );
  const [copy] = await loop.sink.ledger.received(1, ({ messageId }) => messageId.startsWith(body.id));
  await loop.once(body.id, ({ status }) => status === "deferred");
  return { id: body.id, path: copy?.from as string };
}

const suppressionOf = (address: string) => loop.ws.client.get<{ reason: string }>(`/suppressions/${address}`);

/** The other recipient is given up, and the report is read again. */
async function over(id: string): Promise<void> {
  await loop.engine.sql`delete from due where email_id = ${id}`;
  await loop.engine
    .sql`update email set status = 'bounced', marks = replace(marks, 'o', 'b'), bag_id = null where id = ${id}`;
  await loop.engine.sql`update report set due_at = now() where email_id = ${id} and done_at is null`;
}

test("a hard bounce is known at once, and counted when the mail is over", async () => {
  const before = (await loop.counts()).hard ?? 0;
  const { id, path } = await halfDelivered("gone@example.net");
  await handIn(loop.port, path, dsn({ recipient: "gone@example.net" }));
  await expect
    .poll(async () => (await suppressionOf("gone@example.net")).body)
    .toMatchObject({ reason: "bounce" });
  const next = await loop.ws.client.post<{ id: string }>("/emails", mail({ to: "gone@example.net" }));
  await loop.once(next.body.id, ({ status }) => status === "suppressed");
  expect((await loop.show(id)).status).toBe("deferred");
  await over(id);
  await loop.once(id, ({ events }) => events.some(({ type }) => type === "bounced"));
  expect((await loop.counts()).hard).toBe(before + 1);
  await loop.ws.client.call("DELETE", "/suppressions/gone@example.net");
  expect((await loop.counts()).hard).toBe(before);
});

test("a complaint is, too", async () => {
  const { id } = await halfDelivered("angry@example.net");
  await loop.ws.client.post("/feedback", [
    { email_id: id, recipient: "angry@example.net", type: "complaint" },
  ]);
  await expect
    .poll(async () => (await suppressionOf("angry@example.net")).body)
    .toMatchObject({ reason: "complaint" });
});

test("what is undone meanwhile stays undone, and is not counted", async () => {
  const before = (await loop.counts()).hard ?? 0;
  const { id, path } = await halfDelivered("back@example.net");
  await handIn(loop.port, path, dsn({ recipient: "back@example.net" }));
  await expect.poll(async () => (await suppressionOf("back@example.net")).status).toBe(200);
  await loop.ws.client.call("DELETE", "/suppressions/back@example.net");
  expect((await loop.counts()).hard ?? 0).toBe(before);
  await over(id);
  await loop.once(id, ({ events }) => events.some(({ type }) => type === "bounced"));
  expect((await suppressionOf("back@example.net")).status).toBe(404);
  expect((await loop.counts()).hard ?? 0).toBe(before);
});

test("a bounce that is soft waits, and so does one of an address behind the recipient's", async () => {
  const { id, path } = await halfDelivered("full@example.net");
  await handIn(
    loop.port,
    path,
    dsn({ recipient: "full@example.net", status: "5.2.2", diagnostic: "smtp; 552 5.2.2 mailbox full" }),
  );
  await handIn(loop.port, path, dsn({ recipient: "member@example.org" }));
  await expect
    .poll(async () => (await loop.engine.sql`select from report where email_id = ${id} and tries > 2`).length)
    .toBeGreaterThan(0);
  expect((await suppressionOf("full@example.net")).status).toBe(404);
});
