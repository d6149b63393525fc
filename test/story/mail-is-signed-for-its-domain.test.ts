/**
 * Mail of a workspace whose domain has a key is signed with it, as the receiver sees it; nobody else's mail
 * is.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeKey, newSelector, publicPartOf, Sealer } from "../../src/domain/key.ts";
import type { SigningKey } from "../../src/message/sign.ts";
import { insertDomainKey } from "../../src/record/workspaces/domainkeys.ts";
import { forgetDomain } from "../../src/record/workspaces/domains.ts";
import { unstuffed } from "../rig/conversation.ts";
import { published, verdictsOn } from "../rig/dkim.ts";
import { type Engine, settingsOf, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

/** Workers look at the record again within ten seconds. */
const REFRESHED = { timeout: 30_000, interval: 500 };

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    settings: { RETRY_SCHEDULE: "1,1" },
  });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const ample = { cap_hour: 100_000, cap_day: 100_000 };
const sealer = new Sealer(settingsOf({}).POSTRIDER_SECRET as string);

/** Puts a key to use, in the place of the one that signed. */
async function signWith(
  ws: TestWorkspace,
  domain: string,
  algorithm: "rsa" | "ed25519" = "rsa",
  under = sealer,
): Promise<SigningKey> {
  const made = await makeKey(algorithm);
  const name = { workspaceId: ws.id, domain, selector: newSelector() };
  const row = { ...name, algorithm, publicKey: publicPartOf(made), sealedKey: under.seal(name, made) };
  expect(await insertDomainKey(engine.sql, row, "signing", new Date())).toBe("inserted");
  return { ...name, ...made };
}

async function send(ws: TestWorkspace, more: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail(more));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

/** The mail as its receiver has it. */
async function arrived(id: string): Promise<Buffer> {
  const [taken] = await stage.sink.ledger.received(1, (one) => one.messageId.startsWith(id));
  return unstuffed(taken?.raw as Buffer);
}

async function verdictsOf(id: string, keys: readonly SigningKey[]) {
  return (await verdictsOn(await arrived(id), keys.map(published))).map(({ result, selector }) => [
    result,
    selector,
  ]);
}

test("signed by each algorithm, also from below the domain, and with nobody else's key", async () => {
  const [ws, other] = [await engine.workspace("pro", ample), await engine.workspace("pro", ample)];
  const keys = [await signWith(ws, "example.com"), await signWith(ws, "example.com", "ed25519")];
  const [rsa, ed25519] = keys as [SigningKey, SigningKey];
  const nearer = await signWith(ws, "near.example.com");
  const both = [
    ["pass", rsa.selector],
    ["pass", ed25519.selector],
  ];

  const shapes = [
    {},
    { from: "Acme <hi@news.example.com>" },
    { html: undefined, text: ".\r\n..dots\n\n  white  space \t\n\n\n" },
    { from: "Jürgen <jürgen@example.com>", subject: `Grüße ${"aus Zürich ".repeat(30)}` },
    { attachments: [{ filename: "a.txt", content: Buffer.from("attached").toString("base64") }] },
    {
      headers: {
        "List-Unsubscribe": "<https://example.com/u>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
      },
    },
  ];
  for (const shape of shapes) expect(await verdictsOf(await send(ws, shape), keys)).toEqual(both);
  expect(await verdictsOf(await send(ws, { from: "a@very.near.example.com" }), [nearer])).toEqual([
    ["pass", nearer.selector],
  ]);
  expect(await verdictsOf(await send(ws, { from: "a@example.org" }), keys)).toEqual([]);
  expect(await verdictsOf(await send(ws, { from: "a@notexample.com" }), keys)).toEqual([]);
  expect(await verdictsOf(await send(other), keys)).toEqual([]);
  expect(stage.sink.ledger.faults).toEqual([]);
});

test("a rotated and a removed key take effect, and no mail meanwhile is signed wrongly", async () => {
  const ws = await engine.workspace("pro", ample);
  const first = await signWith(ws, "example.com");
  expect(await verdictsOf(await send(ws), [first])).toEqual([["pass", first.selector]]);
  const second = await signWith(ws, "example.com");
  await expect
    .poll(async () => {
      const [verdict] = await verdictsOf(await send(ws), [first, second]);
      expect(verdict?.[0]).toBe("pass");
      return verdict?.[1];
    }, REFRESHED)
    .toBe(second.selector);
  await forgetDomain(engine.sql, ws.id, "example.com", new Date());
  await expect.poll(async () => verdictsOf(await send(ws), [first, second]), REFRESHED).toEqual([]);
});

test("a key that does not open holds the mail back until it is mended, and says so", async () => {
  const ws = await engine.workspace("pro", ample);
  await signWith(ws, "example.com", "rsa", new Sealer("another secret, not the one of the engine"));
  const id = await send(ws);
  const replyTo = async () =>
    (await engine.sql<{ reply: string }[]>`select reply from due where email_id = ${id}`)[0]?.reply;
  await expect.poll(replyTo, { timeout: 15_000 }).toContain("POSTRIDER_SECRET");
  expect(stage.sink.ledger.count(`${id}@example.com`)).toBe(0);
  expect(engine.complaints.some(({ err }) => err?.message.includes("POSTRIDER_SECRET"))).toBe(true);

  const mended = await signWith(ws, "example.com");
  expect(await verdictsOf(id, [mended])).toEqual([["pass", mended.selector]]);
});
