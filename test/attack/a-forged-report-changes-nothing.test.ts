/**
 * Reports that somebody makes up: without our MAC, with that of another mail or workspace, about somebody
 * else, again and again, or too late. None of them changes anything but what its own return path stands for,
 * and that once.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { BOUNCE_DOMAIN, FEEDBACK, ReportLoop } from "../rig/loop.ts";
import { arf, dsn, handIn } from "../rig/reports.ts";
import { SECRET } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const FOREIGN = "550 5.7.1 only reports about our own mail are accepted here";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

async function delivered(to: string) {
  const { id, copies } = await loop.send(to);
  await loop.once(id, ({ status }) => status === "delivered");
  const path = copies[0]?.from as string;
  return { id, path, local: path.split("@")[0] as string };
}

test("a return path with any other letter is not taken, nor one under another secret", async () => {
  const { local, id } = await delivered("victim@example.net");
  const forged = new ReturnPathKey("a secret that the attacker made up, as long").write(
    { handle: loop.ws.handle, emailId: id, place: 0 },
    Date.now(),
  );
  const changed = [0, 5, 20, 43, 45, 55].map((at) => {
    const other = local[at] === "a" ? "b" : "a";
    return local.slice(0, at) + other + local.slice(at + 1);
  });
  for (const one of [forged, ...changed, id, `bounce+${id}`, "postmaster"])
    expect(
      await handIn(loop.port, `${one}@${BOUNCE_DOMAIN}`, dsn({ recipient: "victim@example.net" })),
    ).toEqual([FOREIGN]);
  expect((await loop.show(id)).status).toBe("delivered");
});

test("a report about another recipient counts for the one whose return path it came to, and nobody else", async () => {
  const own = await delivered("attacker@example.net");
  const { id } = await delivered("rival@example.org");
  await handIn(loop.port, own.path, dsn({ recipient: "rival@example.org" }));
  await loop.once(own.id, ({ status }) => status === "bounced");
  expect((await loop.show(own.id)).events.at(-1)).toMatchObject({ recipient: "attacker@example.net" });
  expect((await loop.show(id)).status).toBe("delivered");
});

test("a list whose member is gone does not bounce the list", async () => {
  const { path, id } = await delivered("list@example.net");
  const report = dsn({
    recipient: "list@example.net",
    action: "expanded",
    status: "2.0.0",
    diagnostic: "smtp; 250 ok",
  });
  const member = [
    "Final-Recipient: rfc822; member@example.org",
    "Action: failed",
    "Status: 5.1.1",
    "Diagnostic-Code: smtp; 550 5.1.1 no such user",
    "",
    "--r1",
    "Content-Type: message/rfc822",
  ].join("\r\n");
  await handIn(loop.port, path, report.replace("--r1\r\nContent-Type: message/rfc822", member));
  expect((await loop.results()).at(-1)).toBe("ignored: it is about addresses behind the recipient's");
  expect((await loop.show(id)).status).toBe("delivered");
});

test("a member who is gone, reported to the list's return path, does not suppress the list", async () => {
  const { path, id } = await delivered("members@example.net");
  const before = await loop.counts();
  await handIn(loop.port, path, dsn({ recipient: "member@example.org" }));
  await loop.once(id, ({ status }) => status === "bounced");
  expect(await loop.counts()).toMatchObject({ hard: before.hard, soft: (before.soft ?? 0) + 1 });
  expect((await loop.ws.client.get("/suppressions/members@example.net")).status).toBe(404);
});

test("a member who is gone, reported with the address of the list beside it, does not suppress the list", async () => {
  const { path, id } = await delivered("sales@example.net");
  const report = dsn({ recipient: "sales@example.net" });
  await handIn(
    loop.port,
    path,
    report.replace("Final-Recipient: rfc822; sales@", "Final-Recipient: rfc822; left.long.ago@"),
  );
  await loop.once(id, ({ status }) => status === "bounced");
  expect((await loop.ws.client.get("/suppressions/sales@example.net")).status).toBe(404);
});

test("a mailbox at a host of the domain, reported with the recipient beside it, is the recipient", async () => {
  const { path, id } = await delivered("stored@example.net");
  const report = dsn({ recipient: "stored@example.net" });
  await handIn(
    loop.port,
    path,
    report.replace("Final-Recipient: rfc822; stored@", "Final-Recipient: rfc822; stored@store3."),
  );
  await loop.once(id, ({ status }) => status === "bounced");
  expect((await loop.ws.client.get("/suppressions/stored@example.net")).status).toBe(200);
});

test("a report about the mailbox without its tag is about the recipient, one about a tag of theirs is not", async () => {
  const tagged = await delivered("left+news@example.net");
  await handIn(loop.port, tagged.path, dsn({ recipient: "left@example.net" }));
  await loop.once(tagged.id, ({ status }) => status === "bounced");
  expect((await loop.ws.client.get("/suppressions/left+news@example.net")).status).toBe(200);
  const there = await delivered("there@example.net");
  await handIn(loop.port, there.path, dsn({ recipient: "there+folder@example.net" }));
  await loop.once(there.id, ({ status }) => status === "bounced");
  expect((await loop.ws.client.get("/suppressions/there@example.net")).status).toBe(404);
});

test("a report about the mailbox at a host of the domain is about the recipient", async () => {
  const { path, id } = await delivered("moved@example.net");
  await handIn(loop.port, path, dsn({ recipient: "moved@store.example.net" }));
  await loop.once(id, ({ status }) => status === "bounced");
  expect((await loop.ws.client.get("/suppressions/moved@example.net")).status).toBe(200);
});

test("the id of one workspace's mail under the MAC of another finds nothing", async () => {
  const { id } = await delivered("theirs@example.net");
  const other = await loop.engine.workspace();
  const key = new ReturnPathKey(SECRET);
  const path = `${key.write({ handle: other.handle, emailId: id, place: 0 }, Date.now())}@${BOUNCE_DOMAIN}`;
  await handIn(loop.port, path, dsn({ recipient: "theirs@example.net" }));
  expect((await loop.results()).at(-1)).toBe("ignored: there is no such e-mail");
  await other.client.post("/feedback", [{ email_id: id, type: "complaint" }]);
  expect((await loop.results()).at(-1)).toBe("ignored: there is no such e-mail");
  expect((await loop.show(id)).status).toBe("delivered");
});

test("a report that is replayed counts once", async () => {
  const { path, id } = await delivered("again@example.net");
  const before = await loop.counts();
  for (let n = 0; n < 5; n++) await handIn(loop.port, path, dsn({ recipient: "again@example.net" }));
  expect((await loop.results()).slice(-5).sort()).toEqual([
    "bounced",
    ...Array(4).fill("ignored: bounced stands"),
  ]);
  expect(await loop.counts()).toEqual({ ...before, hard: (before.hard ?? 0) + 1 });
  expect((await loop.show(id)).events.filter(({ type }) => type === "bounced")).toHaveLength(1);
});

test("what is said against a bounce does not take it back", async () => {
  const { path, id } = await delivered("contradicted@example.net");
  await handIn(loop.port, path, dsn({ recipient: "contradicted@example.net" }));
  await handIn(
    loop.port,
    path,
    dsn({ recipient: "contradicted@example.net", action: "delivered", status: "2.0.0" }),
  );
  await loop.results();
  expect((await loop.show(id)).status).toBe("bounced");
});

test("a return path that has expired is refused", async () => {
  const { id } = await delivered("late@example.net");
  const key = new ReturnPathKey(SECRET);
  const old = key.write({ handle: loop.ws.handle, emailId: id, place: 0 }, Date.now() - 40 * DAY_MS);
  expect(await handIn(loop.port, `${old}@${BOUNCE_DOMAIN}`, dsn({ recipient: "late@example.net" }))).toEqual([
    "550 5.1.6 this return path has expired",
  ]);
});

test("a complaint that shows no mail of ours is none, whatever ids it makes up", async () => {
  const { id } = await delivered("calm@example.net");
  const headers = [
    [`Message-ID: <${id}@example.com>`],
    [`Message-ID: <${id}@example.com>`, "X-Postrider-Mark: 0123456789abcdefghjkmnpqrs"],
    [`Message-ID: <${newId(Date.now())}@example.com>`, `Return-Path: <${"a".repeat(56)}@${BOUNCE_DOMAIN}>`],
    ["Subject: spam"],
  ];
  for (const header of headers) await handIn(loop.port, FEEDBACK, arf({ header }));
  expect((await loop.results()).slice(-4)).toEqual(Array(4).fill("ignored: it shows no mail of ours"));
  expect((await loop.show(id)).status).toBe("delivered");
});
