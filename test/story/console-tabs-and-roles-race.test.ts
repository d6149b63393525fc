/**
 * Two tabs of one person, or somebody who changes their role meanwhile: what cannot be done is refused in a
 * sentence, nothing is made or lost unseen, and the screen shows what there is now.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { held, inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const scene = sceneOf(openConsole);
const REFUSED = "Only owners and admins of the workspace can do this; you are member.";

inChromium("a key is neither made nor revoked by whoever is no admin any more", async () => {
  const { page, workspace, lower } = await admin("keys");
  await page.getByRole("button", { name: "Create API key" }).click();
  await page.getByLabel("Name").fill("not made");
  await lower();
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText(REFUSED, { exact: true }).waitFor();
  expect(await page.getByRole("dialog").getByLabel("Name").inputValue()).toBe("not made");
  await discard(page);
  await expectReadOnly(page, "Only owners and admins create and revoke keys.", "Create API key");
  await expect.poll(() => page.getByRole("button", { name: /^Revoke / }).count()).toBe(0);
  expect(await keysOf(workspace)).toEqual([{ isRevoked: false }]);
});

inChromium("nor where they are asked already whether to revoke it", async () => {
  const { page, workspace, lower } = await admin("keys");
  await page.getByRole("button", { name: /^Revoke / }).click();
  await lower();
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText(REFUSED, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Go back" }).click();
  await expectReadOnly(page, "Only owners and admins create and revoke keys.", "Create API key");
  await expect.poll(() => page.getByRole("button", { name: /^Revoke / }).count()).toBe(0);
  expect(await keysOf(workspace)).toEqual([{ isRevoked: false }]);
});

inChromium("a webhook is not added by whoever is no admin any more", async () => {
  const { page, workspace, lower } = await admin("webhooks");
  await page.getByRole("button", { name: "Add webhook" }).click();
  await page.getByLabel("Endpoint").fill("https://example.com/hook");
  await lower();
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").getByText(REFUSED, { exact: true }).waitFor();
  await discard(page);
  await expectReadOnly(page, "Only owners and admins change webhooks.", "Add webhook");
  expect(await scene.engine.sql`select 1 from webhook where workspace_id = ${workspace.id}`).toEqual([]);
});

inChromium("nobody is invited by whoever is no admin any more", async () => {
  const { page, workspace, lower } = await admin("members");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByRole("dialog").getByLabel("Email").fill("ann@example.net");
  await lower();
  await page.getByRole("button", { name: "Send the invitation" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText(REFUSED, { exact: true }).waitFor();
  await discard(page);
  await expectReadOnly(page, "Only owners and admins invite and remove members.", "Invite");
  expect(await scene.engine.sql`select 1 from invitation where workspace_id = ${workspace.id}`).toEqual([]);
});

inChromium("a key that both tabs revoke is revoked, and gone from both", async () => {
  const { page, other, workspace } = await twoTabs("keys");
  for (const tab of [page, other]) {
    await tab.getByRole("button", { name: /^Revoke / }).click();
    await tab.getByRole("button", { name: "Revoke the key" }).waitFor();
  }
  for (const tab of [page, other]) {
    await tab.getByRole("button", { name: "Revoke the key" }).click();
    await tab.getByRole("dialog").waitFor({ state: "detached" });
    await tab.getByText("No key yet").waitFor();
  }
  expect(await keysOf(workspace)).toEqual([{ isRevoked: true }]);
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
});

inChromium("of a template that both tabs change, the second is warned, and both versions stay", async () => {
  const workspace = await scene.engine.workspace();
  const id = await made(workspace, "/templates", { name: "Order", html: "<p>saved</p>" });
  const { page, other } = await twoTabs(`templates/${id}`, workspace);
  const editorOf = (tab: Page) => tab.getByLabel("HTML", { exact: true });
  const save = (tab: Page) => tab.getByRole("button", { name: "Save", exact: true }).click();
  await editorOf(page).fill("<p>first</p>");
  await editorOf(other).fill("<p>second</p>");
  await save(page);
  await page.getByRole("button", { name: "Saved" }).waitFor();
  await other.getByText("Somebody else has saved another version meanwhile.").waitFor();
  expect(await editorOf(other).inputValue()).toBe("<p>second</p>");
  await other.getByRole("link", { name: "See what they saved" }).click();
  await other.getByText("+ <p>first</p>").waitFor();
  await other.getByRole("tab", { name: "Edit" }).click();
  await save(other);
  await other.getByRole("button", { name: "Saved" }).waitFor();
  await expect.poll(() => editorOf(page).inputValue()).toBe("<p>second</p>");
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByText("- <p>first</p>").waitFor();
  await page.getByText("+ <p>second</p>").waitFor();
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
});

inChromium(
  "of an automation that both tabs change, the second is warned, and both versions stay",
  async () => {
    const workspace = await scene.engine.workspace();
    const audience_id = await made(workspace, "/audiences", { name: "Customers" });
    const document = {
      name: "Welcome",
      audience_id,
      event: "joined",
      entry: "once",
      steps: [{ wait: "1h" }],
    };
    const id = await made(workspace, "/automations", document);
    const { page, other } = await twoTabs(`automations/${id}?tab=document`, workspace);
    const editorOf = (tab: Page) => tab.getByLabel("Document of the automation", { exact: true });
    const save = (tab: Page) => tab.getByRole("button", { name: "Save as the next version" });
    for (const [tab, wait] of [
      [page, "2h"],
      [other, "3h"],
    ] as const)
      await editorOf(tab).fill((await editorOf(tab).inputValue()).replace('"1h"', `"${wait}"`));
    await save(page).click();
    await expect.poll(() => save(page).isDisabled()).toBe(true);
    await other.getByText("Somebody else has saved another version meanwhile.").waitFor();
    expect(await editorOf(other).inputValue()).toContain('"3h"');
    await save(other).click();
    await expect.poll(() => editorOf(page).inputValue()).toContain('"3h"');
    const steps = await scene.engine.sql`
    select version, document -> 'steps' as steps from automation_version
    where workspace_id = ${workspace.id} and automation_id = ${id} order by version`;
    expect(steps.map(({ version, steps: [step] }) => [version, step.wait])).toEqual([
      [1, "1h"],
      [2, "2h"],
      [3, "3h"],
    ]);
    expect(scene.chromium.complaints.splice(0)).toEqual([]);
  },
);

inChromium("who saves in the same moment as somebody else replaces nothing unseen", async () => {
  const workspace = await scene.engine.workspace();
  const given = { name: "Order", subject: "Your order", html: "<p>saved</p>" };
  const id = await made(workspace, "/templates", given);
  const stored = async () => (await workspace.client.get(`/templates/${id}`)).body;
  const theirs = (changes: object) => workspace.client.call("PATCH", `/templates/${id}`, changes);
  const { page } = await twoTabs(`templates/${id}`, workspace);
  const html = page.getByLabel("HTML", { exact: true });
  const refused = page.getByText("Nothing was saved: somebody else has ");
  /** `meanwhile`: when the page has read what there is, and has not saved yet. */
  const save = async (button: string, meanwhile: () => Promise<unknown>) => {
    const { isAsked, answer } = await held(page, `**/call/v1/templates/${id}`, "PATCH");
    await page.getByRole("button", { name: button, exact: true }).click();
    await isAsked;
    await meanwhile();
    answer();
  };

  await html.fill("<p>ours</p>");
  await save("Save", () => theirs({ html: "<p>theirs</p>" }));
  await refused.waitFor();
  expect(await stored()).toMatchObject({ html: "<p>theirs</p>" });
  expect(await html.inputValue()).toBe("<p>ours</p>");
  // what is no change of the same stays beside ours
  await save("Save", () => theirs({ subject: "Their subject" }));
  await page.getByRole("button", { name: "Saved" }).waitFor();
  expect(await stored()).toMatchObject({ html: "<p>ours</p>", subject: "Their subject" });

  await page.getByRole("button", { name: "Details" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Our name");
  await save("Save", () => theirs({ name: "Their name" }));
  await dialog.getByText("Their name").waitFor();
  expect(await stored()).toMatchObject({ name: "Their name" });
  await save("Save", () => theirs({ html: "<p>more of theirs</p>" }));
  await dialog.waitFor({ state: "detached" });
  expect(await stored()).toMatchObject({ name: "Our name", html: "<p>more of theirs</p>" });
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
});

inChromium("nor of an automation", async () => {
  const workspace = await scene.engine.workspace();
  const audience_id = await made(workspace, "/audiences", { name: "Customers" });
  const document = { name: "Welcome", audience_id, event: "joined", steps: [{ wait: "1h" }] };
  const id = await made(workspace, "/automations", document);
  const path = `/automations/${id}`;
  const stored = async () => (await workspace.client.get<{ document: object }>(path)).body.document;
  const { page } = await twoTabs(`automations/${id}?tab=document`, workspace);
  const editor = page.getByLabel("Document of the automation", { exact: true });
  await editor.fill((await editor.inputValue()).replace('"1h"', '"2h"'));
  const { isAsked, answer } = await held(page, `**/call/v1${path}`, "PATCH");
  await page.getByRole("button", { name: "Save as the next version" }).click();
  await isAsked;
  await workspace.client.call("PATCH", path, { steps: [{ wait: "3h" }] });
  answer();
  await page.getByText("Nothing was saved: somebody else has ").waitFor();
  expect(await stored()).toMatchObject({ steps: [{ wait: "3h" }] });
  expect(await editor.inputValue()).toContain('"2h"');
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
});

inChromium("a form that is open when the other tab signs out waits for whoever signs in again", async () => {
  const { page, other, workspace, email } = await twoTabs("audiences");
  await other.getByRole("button", { name: "New audience" }).click();
  const name = other.getByRole("dialog").getByLabel("Name");
  await name.fill("typed");
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  // with its next call, at the latest with that of the list behind the dialog
  await other.getByText("Your session has ended. Sign in to go on where you were.").waitFor();
  const audiences = async () =>
    (await workspace.client.get<{ data: { name: string }[] }>("/audiences")).body.data.map((one) => one.name);
  expect(await audiences()).toEqual(["General"]);
  await signIn(other, email);
  await name.waitFor();
  expect(await name.inputValue()).toBe("typed");
  await other.getByRole("button", { name: "Create", exact: true }).click();
  await other.getByRole("heading", { level: 1, name: "typed" }).waitFor();
  expect((await audiences()).sort()).toEqual(["General", "typed"]);
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
});

async function admin(path: string) {
  const { engine, chromium } = scene;
  const workspace = await engine.workspace();
  const { id, email } = await person(engine.sql, workspace.id, "admin");
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/${path}`);
  await signIn(page, email);
  const lower = () =>
    engine.sql`update member set role = 'member' where workspace_id = ${workspace.id} and account_id = ${id}`;
  return { page, workspace, lower };
}

async function twoTabs(path: string, given?: TestWorkspace) {
  const { engine, chromium } = scene;
  const workspace = given ?? (await engine.workspace());
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/${path}`);
  await signIn(page, email);
  await page.getByRole("button", { name: "Sign out", exact: true }).waitFor();
  const other = await page.context().newPage();
  await other.goto(`${engine.consoleUrl}/console/${path}`);
  return { page, other, workspace, email };
}

async function made({ client }: TestWorkspace, path: string, body: object): Promise<string> {
  return (await client.post<{ id: string }>(path, body)).body.id;
}

function keysOf({ id }: TestWorkspace): Promise<object[]> {
  return scene.engine.sql`
    select revoked_at is not null as "isRevoked" from api_key where workspace_id = ${id}`;
}

async function discard(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

/** As for any member. */
async function expectReadOnly(page: Page, words: string, button: string): Promise<void> {
  await page.getByText(words).waitFor();
  expect(await page.getByRole("button", { name: button }).isDisabled()).toBe(true);
  expect(scene.chromium.complaints.splice(0)).toEqual([]);
}
