/** An owner invites by mail; the one who is invited makes an account, and signs out everywhere. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { mailedInvitation } from "../rig/people.ts";

const scene = sceneOf(openConsole);

inChromium("invited, joined, given another role, and signed out everywhere", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email").fill("grace@example.net");
  await page.getByRole("button", { name: "Send the invitation" }).click();
  await page.getByText("A link was mailed to grace@example.net").waitFor();
  const link = await mailedInvitation(engine.sql, workspace.id, "grace@example.net");
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByText("grace@example.net").waitFor();

  const theirs = await chromium.page();
  await theirs.goto(link);
  await theirs.getByText("grace@example.net is invited as member").waitFor();
  await theirs.getByLabel("Password").fill("short");
  await theirs.getByRole("button", { name: "Join" }).click();
  await theirs.getByRole("alert").waitFor();
  await theirs.getByLabel("Password").fill("long enough for anybody");
  await theirs.getByRole("button", { name: "Join" }).click();
  await theirs.getByRole("heading", { level: 1, name: "Emails" }).waitFor();

  await theirs.goto(`${engine.consoleUrl}/console/members`);
  await theirs.getByText("Only owners and admins invite and remove members.").waitFor();
  expect(await theirs.getByRole("button", { name: "Invite" }).isDisabled()).toBe(true);
  expect(await theirs.getByRole("button", { name: "Remove" }).count()).toBe(0);
  const row = page.getByRole("row").filter({ hasText: "grace@example.net" });
  await row.getByRole("combobox").selectOption("admin");
  await theirs.reload();
  await theirs.getByRole("button", { name: "Invite", disabled: false }).waitFor();

  const other = await chromium.page();
  await other.goto(`${engine.consoleUrl}/console`);
  await signIn(other, "grace@example.net", "long enough for anybody");
  await other.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await other.goto(`${engine.consoleUrl}/console/profile`);
  await other.getByRole("button", { name: "Sign out everywhere" }).click();
  await other.getByRole("dialog").getByRole("button", { name: "Sign out everywhere" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await theirs.reload();
  await theirs.getByRole("heading", { name: "Sign in" }).waitFor();

  await theirs.goto(link);
  await theirs.getByRole("heading", { name: "This invitation does not work" }).waitFor();
  await theirs.getByRole("link", { name: "go to the console" }).click();
  await theirs.getByRole("heading", { name: "Sign in" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});
