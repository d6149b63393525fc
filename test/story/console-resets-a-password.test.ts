/**
 * Who forgot the password asks for a link on the page, gets it by a mail of the engine, and chooses another:
 * once.
 */
import PostalMime from "postal-mime";
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { PASSWORD, person } from "../rig/people.ts";
import { openStage } from "../rig/stage.ts";

const CHOSEN = "a better one than before";
const scene = sceneOf(async () => {
  const stage = await openStage({ keepRaw: true });
  const opened = await openConsole(["api", "deliver"], stage);
  return {
    ...{ ...opened, stage },
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

inChromium("by the link of a mail, which works once", async () => {
  const { engine, workspace, chromium, stage } = scene;
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console`);
  await page.getByRole("button", { name: "Forgot the password?" }).click();
  await page.getByLabel("Email").fill(email);
  await page.getByRole("button", { name: "Send the link" }).click();
  await page.getByRole("heading", { name: "Check your mail" }).waitFor();
  const [mail] = await stage.sink.ledger.received(1, ({ to }) => to.includes(email));
  const { text = "" } = await PostalMime.parse(mail?.raw as Buffer);
  const link = /^\S+\/console\/reset#\S+$/m.exec(text)?.[0] as string;

  await page.goto(link);
  await page.getByLabel("New password").fill(CHOSEN);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByRole("heading", { name: "The password is changed" }).waitFor();
  await page.getByRole("link", { name: "Sign in" }).click();
  await signIn(page, email, PASSWORD);
  await page.getByRole("alert").getByText("wrong").waitFor();
  await signIn(page, email, CHOSEN);
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();

  const again = await chromium.page();
  await again.goto(link);
  await again.getByLabel("New password").fill("and another one after it");
  await again.getByRole("button", { name: "Change the password" }).click();
  await again.getByRole("alert").getByText("This link was used before").waitFor();
  await again.getByRole("link", { name: "Back to sign-in" }).click();
  await again.getByRole("button", { name: "Forgot the password?" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});
