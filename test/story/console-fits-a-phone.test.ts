/** Names, addresses and domains of one long word are broken on a narrow screen, and push no button off it. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import { mail } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const WIDTH = 390;
const LONG = "w".repeat(60);

inChromium("with a number of nine digits, 320 wide", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id, "owner", { width: 320 });
  await page.route("**/call/queue", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.emails.deferred = 123_456_789;
    await route.fulfill({ json: answer });
  });
  await page.goto(`${engine.consoleUrl}/console/queue`);
  const tile = page.locator(".tile").filter({ hasText: "123,456,789" });
  await tile.waitFor();
  const [tileBox, value] = [await tile.boundingBox(), await tile.locator(".value").boundingBox()];
  expect(endOf(value)).toBeLessThan(endOf(tileBox));
});

inChromium("with a subject from right to left, which is cut at its end, and a role, 320 wide", async () => {
  const { engine, workspace, chromium } = scene;
  const subject = `${"\u05e9\u05dc\u05d5\u05dd "}${"\u05e2\u05d5\u05dc\u05dd ".repeat(40)}`.trim();
  await workspace.client.post("/emails", mail({ subject }));
  const { email } = await person(engine.sql, workspace.id, "member");
  const page = await chromium.pageOf(engine, workspace.id, "owner", { width: 320 });
  const cell = page.locator("td .narrow .ellipsis").filter({ hasText: "\u05e9\u05dc\u05d5\u05dd" });
  await cell.waitFor();
  expect(await cell.evaluate((element) => element.matches(":dir(rtl)"))).toBe(true);
  await page.goto(`${engine.consoleUrl}/console/members`);
  const role = await page.getByLabel(`Role of ${email}`).boundingBox();
  expect(role?.width).toBeGreaterThan(80);
  await page.getByRole("button", { name: `Remove ${email}` }).waitFor();
});

inChromium("with the tab that is shown, 240 wide", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id, "owner", { width: 240 });
  await page.goto(`${engine.consoleUrl}/console/caps?tab=policy`);
  const tab = page.getByRole("tab", { name: "Policy" });
  await tab.waitFor();
  const [row, shown] = [page.getByRole("tablist", { name: "Caps" }), await tab.boundingBox()];
  expect(endOf(shown)).toBeLessThanOrEqual(endOf(await row.boundingBox()) + 1);
});

inChromium("with the evidence of a suppression", async () => {
  const { engine, workspace, chromium } = scene;
  const evidence = "550 5.1.1 no such user";
  const email = "gone@example.net";
  await workspace.client.post("/suppressions", { email, evidence });
  const page = await chromium.pageOf(engine, workspace.id, "owner", { width: WIDTH });
  await page.goto(`${engine.consoleUrl}/console/suppressions`);
  await page.locator("tbody").getByText(evidence).filter({ visible: true }).waitFor();
  await page.goto(`${engine.consoleUrl}/console/suppressions?find=${email}`);
  await page.locator(".banner").getByText(evidence).waitFor();
});

inChromium("on paper it is the screen alone, dark on white", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.evaluate("localStorage.setItem('theme', 'dark')");
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.emulateMedia({ media: "print" });
  expect(await page.getByRole("navigation").isVisible()).toBe(false);
  expect(await page.evaluate("getComputedStyle(document.body).color")).toBe("rgb(26, 32, 48)");
});

function endOf(box: { x: number; width: number } | null): number {
  return box ? box.x + box.width : Number.NaN;
}

inChromium("with words of 60 letters and more", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const made = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const email = `${LONG}@${LONG}.example.com`;
  const audience = await made("/audiences", { name: LONG });
  const contact = await made(`/audiences/${audience}/contacts`, {
    ...{ email, first_name: LONG, tags: [LONG], properties: { [LONG]: LONG } },
  });
  const domain = await made("/domains", { name: `${LONG}.${LONG}.example.com` });
  const sent = await made("/emails", mail({ to: email, subject: LONG.repeat(4) }));
  const page = await chromium.pageOf(engine, workspace.id, "owner", { width: WIDTH });
  await page.goto(`${engine.consoleUrl}/console/keys?new=1`);
  await page.getByLabel("Name", { exact: true }).fill(LONG);
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("button", { name: "I have stored it" }).click();
  for (const path of [
    "overview",
    "keys",
    `emails/${sent}`,
    `audiences/${audience}`,
    `audiences/${audience}/contacts/${contact}`,
    `domains/${domain}`,
  ]) {
    await page.goto(`${engine.consoleUrl}/console/${path}`);
    await page.locator("h1").waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "detached" });
    const width = await page.evaluate("document.documentElement.scrollWidth");
    expect(width, path).toBe(WIDTH);
  }
  await page.goto(`${engine.consoleUrl}/console/keys`);
  const box = await page.getByRole("button", { name: `Revoke ${LONG}` }).boundingBox();
  expect((box?.x ?? WIDTH) + (box?.width ?? 0)).toBeLessThan(WIDTH);
});
