/**
 * What the screen of an e-mail says of its way: the source as its receiver has it, each attempt's literal
 * reply, and why it waits. What is copied is in the clipboard, or the button says that it is not.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { makeKey, newSelector, publicPartOf, Sealer } from "../../src/domain/key.ts";
import { insertDomainKey } from "../../src/record/workspaces/domainkeys.ts";
import { unstuffed } from "../rig/conversation.ts";
import { settingsOf } from "../rig/engine.ts";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { signedIn } from "../rig/people.ts";
import { openStage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SETTLED = { timeout: 20_000 };
const scene = sceneOf(async () => {
  const stage = await openStage({ keepRaw: true });
  const opened = await openConsole(["api", "deliver"], { ...stage, settings: { RETRY_SCHEDULE: "3600" } });
  return {
    ...{ ...opened, sink: stage.sink },
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

async function signWith({ id: workspaceId }: TestWorkspace, domain: string): Promise<void> {
  const made = await makeKey("ed25519");
  const name = { workspaceId, domain, selector: newSelector() };
  const sealedKey = new Sealer(settingsOf({}).POSTRIDER_SECRET as string).seal(name, made);
  const row = { ...name, algorithm: made.algorithm, publicKey: publicPartOf(made), sealedKey };
  await insertDomainKey(scene.engine.sql, row, "signing", new Date());
}

async function send({ client }: TestWorkspace, more: Record<string, unknown>): Promise<string> {
  return (await client.post<{ id: string }>("/emails", mail(more))).body.id;
}

async function comesTo(status: string, { client }: TestWorkspace, id: string): Promise<void> {
  const now = async () => (await client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(now, SETTLED).toBe(status);
}

const open = (page: Page, id: string) => page.goto(`${scene.engine.consoleUrl}/console/emails/${id}`);

inChromium("the source has the signature and the mark that its receiver got, once it was sent", async () => {
  const { engine, chromium, sink } = scene;
  const own = await engine.workspace();
  await signWith(own, "example.com");
  const browser = await signedIn(engine.consoleUrl, engine.sql, own.id, "member");
  const source = async (id: string) => (await browser.get<string>(`emails/${id}/raw`)).body;
  const shapes = [
    { subject: "Plain" },
    { to: ["ann@example.net", "Bea <bea@example.net>"], cc: "cy@example.net", reply_to: "help@example.com" },
    { attachments: [{ filename: "a.txt", content: Buffer.from("attached").toString("base64") }] },
  ];
  for (const shape of shapes) {
    const id = await send(own, shape);
    const [taken] = await sink.ledger.received(1, ({ messageId }) => messageId.startsWith(id));
    await comesTo("delivered", own, id);
    expect(await source(id)).toBe(unstuffed(taken?.raw as Buffer).toString());
  }
  const later = await send(own, { scheduled_at: "in 1 hour" });
  expect(await source(later)).toContain("X-Postrider-Mark: ");
  expect(await source(later)).not.toContain("DKIM-Signature");

  const page = await chromium.pageOf(engine, own.id, "member");
  await open(page, later);
  await page.getByRole("tab", { name: "Raw" }).click();
  await page.getByText("the date is set and the signature added when it leaves").waitFor();

  const carrying = await send(own, {
    attachments: [{ filename: "invoice.txt", content: Buffer.from("Total: 12").toString("base64") }],
  });
  await open(page, carrying);
  await page.getByText("transactional", { exact: true }).waitFor();
  const link = await page.getByRole("link", { name: "invoice.txt" }).getAttribute("href");
  const there = `${engine.url}${new URL(link as string).pathname}`;
  expect(await (await fetch(there)).text()).toBe("Total: 12");

  const sent = await send(own, { subject: "Once" });
  await comesTo("delivered", own, sent);
  let asked = 0;
  page.on("request", (request) => {
    if (request.url().endsWith("/raw")) asked++;
  });
  await open(page, sent);
  await page.getByRole("tab", { name: "Headers" }).click();
  await page.getByText("DKIM-Signature: ").waitFor();
  await page.getByText("Its signature is that of the present key of its domain.").waitFor();
  const before = asked;
  // what does not change is not composed again with everything that happens
  const isReadAgain = page.waitForResponse((answer) => answer.url().endsWith(`/v1/emails/${sent}`));
  await send(own, { scheduled_at: "in 1 hour" });
  await isReadAgain;
  await page.getByRole("heading", { level: 1, name: "Once" }).waitFor();
  expect(asked).toBe(before);
  expect(chromium.complaints).toEqual([]);
});

inChromium("each attempt has the receiver's own words, and what waits says until when", async () => {
  const { engine, chromium, sink } = scene;
  const own = await engine.workspace();
  const to = ["defer-451@slow.example", "refuse-550@gone.example"];
  const id = await send(own, { to });
  await comesTo("deferred", own, id);
  const page = await chromium.pageOf(engine, own.id, "member");
  await open(page, id);
  const card = page.locator(".card").filter({ hasText: "2 delivery attempts" });
  for (const recipient of to) {
    const attempt = card.getByRole("listitem").filter({ hasText: recipient });
    expect(await attempt.locator("pre").textContent()).toBe(sink.ledger.repliesTo(recipient)[0]);
    await attempt.getByText(/without TLS · reached: the recipient \(RCPT\) · \d+ ms/).waitFor();
  }
  const banner = page.locator(".banner").filter({ hasText: "Not delivered to slow.example yet" });
  await banner.getByText("451 4.7.1 greylisted, try again later").waitFor();
  const { body } = await own.client.get<{ next_attempt_at: string }>(`/emails/${id}`);
  expect(await banner.locator("time").getAttribute("datetime")).toBe(body.next_attempt_at);
  expect(chromium.complaints).toEqual([]);
});

/** What is pasted into a field of the page. */
async function pasted(page: Page): Promise<string> {
  const field = page.getByLabel("Find");
  await field.fill("");
  await field.press("Control+v");
  return field.inputValue();
}

inChromium("a refused clipboard is told, and without one the text is copied all the same", async () => {
  const { engine, chromium } = scene;
  const own = await engine.workspace();
  const id = await send(own, { scheduled_at: "in 1 hour" });
  const page = await chromium.pageOf(engine, own.id);
  const refuse = `Object.defineProperty(navigator, "clipboard", { configurable: true, value: {
    writeText: () => Promise.reject(new DOMException("Write permission denied.", "NotAllowedError")) } });
    document.execCommand = () => false;`;
  await page.addInitScript(refuse);
  await open(page, id);
  const button = page.getByRole("button", { name: `Copy ${id}` });
  await button.click();
  await button.getByText("Not copied").waitFor();
  expect(chromium.complaints).toEqual([]);

  // as on a page without TLS
  const bare = await chromium.pageOf(engine, own.id);
  await bare.addInitScript(`Object.defineProperty(navigator, "clipboard", { value: undefined })`);
  await bare.goto(`${engine.consoleUrl}/console/keys?new=1`);
  await bare.getByLabel("Name").fill("shop");
  await bare.getByRole("button", { name: "Create key" }).click();
  const key = await bare.getByRole("textbox", { name: "shop" }).inputValue();
  await bare.getByRole("button", { name: "Copy the key" }).click();
  await bare.getByText("Copied").waitFor();
  await bare.getByRole("button", { name: "I have stored it" }).click();
  expect(await pasted(bare)).toBe(key);
  expect(chromium.complaints).toEqual([]);
});
