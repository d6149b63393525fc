/**
 * Another tab of the screen, another screen, a session that ended: what somebody has typed into an editor is
 * there when they come back, until they save or discard it.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { held, inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { PASSWORD, person } from "../rig/people.ts";

const scene = sceneOf(openConsole);
const SAVED = "<p>saved</p>";
/** More than its first words, which the server's own refusals have too. */
const ENDED = "Your session has ended. Sign in to go on where you were.";
const TYPED = "<p>typed for an hour</p>";
/** By then an answer or a key shows. */
const TWO_FRAMES = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))";

inChromium("a template that is edited stays as it was typed", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await template();
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await editor(page).fill(TYPED);
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByRole("tab", { name: "Edit" }).click();
  await expect.poll(() => editor(page).inputValue()).toBe(TYPED);
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
  await page.goBack();
  await expect.poll(() => editor(page).inputValue()).toBe(TYPED);
  await page.getByRole("button", { name: "Send a test" }).click();
  await page.getByText("What you have not saved is not in it.").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Saved" }).waitFor();
  expect((await workspace.client.get(`/templates/${id}`)).body).toMatchObject({ html: TYPED });
  await page.reload(); // asks nothing any more: a question would be left unanswered, and the page as it is
  await expect.poll(() => editor(page).inputValue()).toBe(TYPED);
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("what is typed as soon as there is a field stays", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  // before the page has been painted once
  await page.addInitScript(`new MutationObserver((_, watcher) => {
    const field = document.querySelector('textarea[aria-label="HTML"], input[type="search"]');
    if (!field) return;
    watcher.disconnect();
    field.value = ${JSON.stringify(TYPED)};
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }).observe(document, { childList: true, subtree: true })`);
  await page.goto(`${engine.consoleUrl}/console/templates/${await template()}`);
  await page.getByRole("button", { name: "Discard changes" }).waitFor();
  expect(await editor(page).inputValue()).toBe(TYPED);
  await page.getByRole("button", { name: "Discard changes" }).click();
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.locator("tbody tr").first().waitFor();
  expect(await page.getByLabel("Find").inputValue()).toBe(TYPED);
});

inChromium("to leave the page with something typed the browser asks, until it is discarded", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${await template()}`);
  await editor(page).fill(TYPED);
  const asked = questionsOf(page);
  await page.reload();
  expect(asked).toEqual(["beforeunload"]);
  await editor(page).fill(TYPED);
  await page.getByRole("button", { name: "Discard changes" }).click();
  await expect.poll(() => editor(page).inputValue()).toBe(SAVED);
  expect(await page.evaluate("document.activeElement.ariaLabel")).toBe("HTML");
  await page.reload();
  expect(asked).toHaveLength(1);
  await editor(page).fill(TYPED);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete the template" }).click();
  await page.getByRole("heading", { level: 1, name: "Templates" }).waitFor();
  await page.reload();
  expect(asked).toHaveLength(1);
});

inChromium("what was saved although nobody was told is no change any more", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${await template()}`);
  await editor(page).fill(TYPED);
  // whoever leaves as soon as it is said to be saved
  await page.evaluate(`new MutationObserver((_, watcher) => {
    if (![...document.querySelectorAll("button")].some(({ textContent }) => textContent === "Saved")) return;
    watcher.disconnect();
    isKept = !dispatchEvent(new Event("beforeunload", { cancelable: true }));
  }).observe(document, { childList: true, characterData: true, subtree: true })`);
  await saveAndLoseReply(page);
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByRole("button", { name: "Saved" }).waitFor();
  expect(await page.evaluate("isKept")).toBe(false);
  const asked = questionsOf(page);
  await page.reload();
  expect(asked).toEqual([]);
});

inChromium("what was saved although nobody was told is not somebody else's", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await template();
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await editor(page).fill(TYPED);
  await saveAndLoseReply(page);
  await editor(page).fill(`${TYPED}<p>and more</p>`);
  const isRead = page.waitForResponse(`**/call/v1/templates/${id}`);
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await (await isRead).finished();
  await page.evaluate(TWO_FRAMES);
  expect(await page.getByText("Somebody else has saved").count()).toBe(0);
  await workspace.client.call("PATCH", `/templates/${id}`, { html: "<p>theirs</p>" });
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText("Somebody else has saved another version meanwhile.").waitFor();
});

inChromium("a dialog with something typed asks before it closes, and gives the keyboard back", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByRole("button", { name: "New template" }).click();
  const dialog = page.getByRole("dialog", { name: "New template" });
  const question = page.getByRole("dialog", { name: "Discard your changes?" });
  const name = dialog.getByLabel("Name");
  for (const close of ["Escape", "the button", "Escape twice"]) {
    await name.fill("Order");
    if (close === "the button") await dialog.getByRole("button", { name: "Close" }).click();
    else await page.keyboard.press("Escape");
    await question.waitFor();
    if (close === "Escape twice") await page.keyboard.press("Escape");
    else await question.getByRole("button", { name: "Go back" }).click();
    await question.waitFor({ state: "detached" });
    expect(await name.inputValue()).toBe("Order");
  }
  await name.focus();
  await page.keyboard.press("Escape");
  await question.getByRole("button", { name: "Discard" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await question.count()).toBe(0);
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("New template");
  // what was emptied again is nothing
  await page.getByRole("button", { name: "New template" }).click();
  await name.fill("Order");
  await name.fill("");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  expect(await question.count()).toBe(0);
});

inChromium("a dialog with something typed asks before somebody goes back, or leaves the page", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.getByRole("link", { name: "Templates" }).click();
  await page.getByRole("button", { name: "New template" }).click();
  const dialog = page.getByRole("dialog", { name: "New template" });
  const question = page.getByRole("dialog", { name: "Discard your changes?" });
  await dialog.getByLabel("Name").fill("Order");
  await page.evaluate("history.back()");
  await question.getByRole("button", { name: "Go back" }).click();
  expect(await dialog.getByLabel("Name").inputValue()).toBe("Order");
  const asked = questionsOf(page);
  await page.reload();
  expect(asked).toEqual(["beforeunload"]);
  await page.getByRole("button", { name: "New template" }).click();
  await dialog.waitFor();
  await page.evaluate("history.back()");
  await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
  await page.reload();
  expect(asked).toHaveLength(1);
});

inChromium("what was chosen in a dialog is asked about as what was typed is", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  const question = page.getByRole("dialog", { name: "Discard your changes?" });
  const expectQuestion = async () => {
    await page.keyboard.press("Escape");
    await question.getByRole("button", { name: "Go back" }).click();
    await question.waitFor({ state: "detached" });
  };
  await page.goto(`${engine.consoleUrl}/console/keys?new=1`);
  const dialog = page.getByRole("dialog", { name: "Create API key" });
  await dialog.getByLabel("Preset").selectOption("own");
  await expectQuestion();
  await dialog.getByLabel("emails:send").check();
  await dialog.getByLabel("Preset").selectOption("sending");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  await page.getByRole("link", { name: "Audiences" }).click();
  await page.getByRole("button", { name: "New audience" }).click();
  const optIn = page.getByLabel("Ask new contacts to confirm");
  await optIn.check();
  await expectQuestion();
  await optIn.uncheck();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(await question.count()).toBe(0);
});

inChromium("a dialog is as it was for whoever signs in again after the session has ended", async () => {
  const { engine, workspace, chromium } = scene;
  const [{ id, email }, other] = [
    await person(engine.sql, workspace.id),
    await person(engine.sql, workspace.id),
  ];
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/emails`);
  await signIn(page, email);
  await page.getByRole("link", { name: "Webhooks" }).click();
  await page.getByRole("button", { name: "Add webhook" }).click();
  const dialog = page.getByRole("dialog", { name: "Add webhook" });
  const endpoint = dialog.getByLabel("Endpoint");
  await endpoint.fill("https://hooks.example.net/typed");
  await dialog.getByLabel("email.bounced").check();
  const end = async () => {
    await engine.sql`delete from session where account_id = ${id}`;
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByText(ENDED).waitFor();
  };
  await end();
  expect(await page.title()).toContain("Sign in");
  expect(await page.getByRole("dialog").count()).toBe(0);
  // neither key leads on, and to go back takes nothing along
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Escape");
  await page.evaluate("history.back()");
  await signIn(page, email);
  await dialog.waitFor();
  expect(await page.title()).toContain("Webhooks");
  expect(await endpoint.inputValue()).toBe("https://hooks.example.net/typed");
  expect(await dialog.getByLabel("email.bounced").isChecked()).toBe(true);
  await page.getByRole("dialog", { name: "Discard your changes?" }).waitFor({ state: "detached" });
  await dialog.getByRole("button", { name: "Close" }).click();
  await page
    .getByRole("dialog", { name: "Discard your changes?" })
    .getByText("They are not saved.")
    .waitFor();
  await end();
  await signIn(page, other.email);
  await page.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();
  await page.evaluate(TWO_FRAMES);
  expect(await page.getByRole("dialog").count()).toBe(0);
  expect(await page.content()).not.toContain("hooks.example.net/typed");
  expect(chromium.complaints.splice(0)).toEqual([]);
});

inChromium("whoever may no longer create a key is told so in the dialog, with what was typed", async () => {
  const { engine, workspace, chromium } = scene;
  const { id, email } = await person(engine.sql, workspace.id, "admin");
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/keys?new=1`);
  await signIn(page, email);
  const dialog = page.getByRole("dialog", { name: "Create API key" });
  await dialog.getByLabel("Name").fill("shop");
  await engine.sql`update member set role = 'member' where account_id = ${id}`;
  await dialog.getByRole("button", { name: "Create key" }).click();
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText("Only owners and admins create and revoke keys.").waitFor();
  await dialog.getByRole("alert").getByText("you are member").waitFor();
  expect(await dialog.getByLabel("Name").inputValue()).toBe("shop");
  // to leave the page the browser asks
  page.on("dialog", (asked) => void asked.accept());
  await page.reload();
  await page.getByText("Only owners and admins create and revoke keys.").waitFor();
  expect(await dialog.count()).toBe(0);
});

inChromium("no palette leads away from a dialog, and signs nobody out amid one", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates`);
  await page.getByRole("button", { name: "New template" }).click();
  const dialog = page.getByRole("dialog", { name: "New template" });
  const palette = page.getByRole("dialog", { name: "Command palette" });
  await dialog.getByLabel("Name").fill("Order");
  await page.keyboard.press("Control+k");
  await page.evaluate(TWO_FRAMES);
  expect(await palette.count()).toBe(0);
  await dialog.getByLabel("Name").fill("");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("Control+k");
  await palette.waitFor();
});

inChromium("what somebody else has saved is told, and stays where nothing was typed", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await template();
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await editor(page).fill(TYPED);
  await workspace.client.call("PATCH", `/templates/${id}`, { html: "<p>theirs</p>", subject: "Theirs" });
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText("Somebody else has saved another version meanwhile.").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Saved" }).waitFor();
  const { body } = await workspace.client.get(`/templates/${id}`);
  expect(body).toMatchObject({ html: TYPED, subject: "Theirs" });
});

inChromium("what somebody else has saved unseen is told before it is replaced", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await template();
  const page = await chromium.pageOf(engine, workspace.id);
  // it reads what is saved when it opens, and when it is refused
  await page.addInitScript("setInterval = () => 0; delete globalThis.SharedWorker");
  await page.route("**/console/call/live?*", (route) => route.abort());
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await editor(page).fill(TYPED);
  await workspace.client.call("PATCH", `/templates/${id}`, { html: "<p>theirs</p>", subject: "Theirs" });
  const save = page.getByRole("button", { name: "Save", exact: true });
  await save.click();
  await page.getByRole("alert").getByText("Nothing was saved: somebody else has saved").waitFor();
  await page.getByText("Somebody else has saved another version meanwhile.").waitFor();
  const stored = async () => (await workspace.client.get(`/templates/${id}`)).body;
  expect(await stored()).toMatchObject({ html: "<p>theirs</p>" });
  await page.getByRole("link", { name: "See what they saved" }).click();
  await page.getByText("- <p>saved</p>").waitFor();
  await page.getByText("+ <p>theirs</p>").waitFor();
  await page.getByRole("tab", { name: "Edit" }).click();
  await save.click();
  await page.getByRole("button", { name: "Saved" }).waitFor();
  expect(await stored()).toMatchObject({ html: TYPED, subject: "Theirs" });
});

inChromium(
  "what was typed in a template that somebody else deletes is shown, until it is discarded",
  async () => {
    const { engine, workspace, chromium } = scene;
    const id = await template();
    const page = await chromium.pageOf(engine, workspace.id);
    await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
    await editor(page).fill(TYPED);
    await workspace.client.call("DELETE", `/templates/${id}`);
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByRole("alert").first().waitFor();
    await page.getByRole("link", { name: "Members" }).click();
    await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
    await page.goBack();
    const left = page.getByLabel("What was typed and not saved");
    await expect.poll(() => left.inputValue()).toBe(TYPED);
    await page.getByRole("button", { name: "Discard changes" }).click();
    await left.waitFor({ state: "detached" });
    const asked = questionsOf(page);
    await page.reload();
    expect(asked).toEqual([]);
  },
);

inChromium("whoever signs out discards nothing of somebody whose session has ended", async () => {
  const { engine, workspace } = scene;
  const { page, email } = await editing();
  await editor(page).fill(TYPED);
  await engine.sql`delete from session where account_id = (select id from account where email = ${email})`;
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText(ENDED).waitFor();
  await signIn(page, (await person(engine.sql, workspace.id)).email);
  await expect.poll(() => editor(page).inputValue()).toBe(SAVED);
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(page, email);
  await expect.poll(() => editor(page).inputValue()).toBe(TYPED);
});

inChromium("a version that is restored takes the place of what was typed", async () => {
  const { engine, workspace, chromium } = scene;
  const id = await template();
  await workspace.client.call("PATCH", `/templates/${id}`, { html: "<p>second</p>" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/templates/${id}`);
  await editor(page).fill(TYPED);
  await page.getByLabel("Variables of the preview").fill('{"first_name":"Ada"}');
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByRole("button", { name: "Restore", exact: true }).click();
  await page.getByText("What was typed under Edit and not saved is discarded.").waitFor();
  await page.getByRole("button", { name: "Restore it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("tab", { name: "Edit" }).click();
  await expect.poll(() => editor(page).inputValue()).toBe(SAVED);
  expect(await page.getByLabel("Variables of the preview").inputValue()).toContain("Ada");
  await page.getByRole("button", { name: "Saved" }).waitFor();
});

inChromium("who signs in again after the session has ended goes on where they were", async () => {
  const { engine, workspace, chromium } = scene;
  const { id, email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/templates/${await template()}`);
  await signIn(page, email);
  await editor(page).fill(TYPED);
  const late = await held(page, "**/call/v1/templates/*", "GET");
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await late.isAsked;
  await engine.sql`delete from session where account_id = ${id}`;
  // at once: the preview asks by itself, and the button is gone when it was refused
  await page.evaluate(
    '[...document.querySelectorAll("button")].find((b) => b.textContent === "Save")?.click()',
  );
  await page.getByText(ENDED).waitFor();
  // the second refusal comes when nobody is signed in any more
  const refused = page.waitForResponse((answer) => answer.status() === 401);
  late.answer();
  await refused;
  await page.evaluate("fetch('/console/call/session')");
  expect(await page.getByText(ENDED).count()).toBe(1);
  await signIn(page, email);
  await expect.poll(() => editor(page).inputValue()).toBe(TYPED);
  // whoever signs out takes it along, and is asked first
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("What was typed and not saved is discarded.").waitFor();
  await page.getByRole("button", { name: "Go back" }).click();
  expect(await editor(page).inputValue()).toBe(TYPED);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  expect(await page.getByText(ENDED).count()).toBe(0);
  await signIn(page, email);
  await expect.poll(() => editor(page).inputValue()).toBe(SAVED);
});

inChromium("whoever is asked about signing out when the session ends is not asked by the next", async () => {
  const { engine, workspace } = scene;
  const { page, email } = await editing();
  await editor(page).fill(TYPED);
  await page.getByRole("button", { name: "Sign out" }).click();
  const question = page.getByRole("dialog", { name: "Sign out?" });
  await question.waitFor();
  await engine.sql`delete from session where account_id = (select id from account where email = ${email})`;
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText(ENDED).waitFor();
  await signIn(page, (await person(engine.sql, workspace.id)).email);
  await editor(page).waitFor();
  await page.evaluate(TWO_FRAMES);
  expect(await question.count()).toBe(0);
});

inChromium("whoever signs out is not told that the session has ended", async () => {
  const { page } = await editing();
  // a call that was under way when the session ended is refused before the page knows of the end
  const end = await answeredLater(page, "**/call/session", "DELETE");
  await page.getByRole("button", { name: "Sign out" }).click();
  await end.isDone;
  await editor(page).fill(TYPED);
  await page.getByText("You are not signed in").waitFor(); // said of the preview
  end.tell();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  expect(await page.getByText(ENDED).count()).toBe(0);
});

inChromium("a call that is refused late does not end the session after it", async () => {
  const { page, email } = await editing();
  const late = await refusedLater(page, "**/call/v1/templates/*");
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await late.isAsked;
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(page, email);
  await editor(page).waitFor();
  await late.refuse();
  await page.evaluate("fetch('/console/call/session')");
  expect(await page.getByRole("heading", { name: "Sign in" }).count()).toBe(0);
  await editor(page).waitFor();
});

inChromium("a document that is edited stays when somebody else saves another version", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const audience = (await client.post<{ id: string }>("/audiences", { name: "Customers" })).body.id;
  const document = { name: "Welcome", audience_id: audience, event: "signed.up", steps: [{ wait: "1h" }] };
  const { id } = (await client.post<{ id: string }>("/automations", document)).body;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/automations/${id}?tab=document`);
  const field = page.getByLabel("Document of the automation");
  const typed = (await field.inputValue()).replace("1h", "3h");
  await field.fill(typed);
  await client.call("PATCH", `/automations/${id}`, { steps: [{ wait: "2h" }] });
  await page.getByRole("tab", { name: "Graph" }).click();
  await page.getByRole("region", { name: "Steps" }).getByText("2h").waitFor();
  await page.getByRole("tab", { name: "Document" }).click();
  await expect.poll(() => field.inputValue()).toBe(typed);
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByText("Somebody else has saved another version meanwhile.").waitFor();
  await page.getByRole("button", { name: "Save as the next version" }).click();
  await page.getByRole("button", { name: "Discard changes" }).waitFor({ state: "detached" });
  expect(JSON.stringify((await client.get(`/automations/${id}`)).body)).toContain("3h");
});

inChromium("a new automation is of the audience that was chosen", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const chosen = (await client.post<{ id: string }>("/audiences", { name: "Chosen" })).body.id;
  await client.post("/audiences", { name: "Newest" });
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/automations`);
  await page.getByRole("button", { name: "New automation" }).click();
  await page.getByLabel("Name").fill("Greeting");
  await page.getByLabel("Audience").selectOption("Chosen");
  await page.getByRole("textbox", { name: "Event" }).fill("signed.up");
  await page.getByLabel("Sender").fill("Shop <hello@example.com>");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const field = page.getByLabel("Document of the automation");
  expect(JSON.parse(await field.inputValue())).toMatchObject({ audience_id: chosen });
});

inChromium("a wrong password is told, and nobody is signed out for it", async () => {
  const { engine, workspace, chromium } = scene;
  const page = await chromium.pageOf(engine, workspace.id);
  await page.goto(`${engine.consoleUrl}/console/profile`);
  await page.getByLabel("Current password").fill("not the password");
  await page.getByLabel("New password").fill("another password");
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByRole("alert").getByText("The current password is wrong.").waitFor();
  await page.getByRole("button", { name: "Turn it on" }).click();
  await page.getByLabel("Code", { exact: true }).fill("000000");
  await page.getByLabel("Your password").fill(PASSWORD);
  await page.getByRole("button", { name: "Turn it on" }).click();
  await page.getByRole("alert").getByText("The code is wrong.").waitFor();
  expect(await page.getByLabel("New password").inputValue()).toBe("another password");
});

/** It is saved, and nobody is told. */
async function saveAndLoseReply(page: Page): Promise<void> {
  await page.route("**/call/v1/templates/*", async (route) => {
    if (route.request().method() !== "PATCH") return route.continue();
    await route.fetch();
    await route.abort();
  });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("The server does not answer.").waitFor();
}

/** Somebody who has signed in at a template, and can sign in again. */
async function editing(): Promise<{ page: Page; email: string }> {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page();
  await page.goto(`${engine.consoleUrl}/console/templates/${await template()}`);
  await signIn(page, email);
  await editor(page).waitFor();
  return { page, email };
}

async function template(): Promise<string> {
  const given = { name: "Order", subject: "Your order", html: SAVED };
  return (await scene.workspace.client.post<{ id: string }>("/templates", given)).body.id;
}

/** What the browser asks from now on. It is answered with yes. */
function questionsOf(page: Page): string[] {
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void dialog.accept();
  });
  return asked;
}

/** The server does it at once, and the page is told on `tell`. */
async function answeredLater(page: Page, url: string, method: string) {
  const [done, told] = [moment(), moment()];
  await page.route(url, async (route) => {
    if (route.request().method() !== method) return route.continue();
    const response = await route.fetch();
    done.come();
    await told.isHere;
    await route.fulfill({ response });
  });
  return { isDone: done.isHere, tell: told.come };
}

/** The next call waits until `refuse`, and those after it are answered. */
async function refusedLater(page: Page, url: string) {
  const [asked, refused] = [moment(), moment()];
  const json = { name: "not_signed_in", message: "Sign in." };
  await page.route(
    url,
    async (route) => {
      asked.come();
      await refused.isHere;
      await route.fulfill({ status: 401, json });
    },
    { times: 1 },
  );
  const refuse = async () => {
    const done = page.waitForResponse((answer) => answer.status() === 401);
    refused.come();
    await done;
  };
  return { isAsked: asked.isHere, refuse };
}

function moment() {
  let come = () => {};
  const isHere = new Promise<void>((resolve) => {
    come = resolve;
  });
  return { isHere, come };
}

function editor(page: Page) {
  return page.getByLabel("HTML", { exact: true });
}
