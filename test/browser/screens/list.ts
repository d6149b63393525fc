/** Every screen of the console, with what to do on it before it is looked at. */
import type { Page } from "playwright-core";
import type { Shop } from "./shop.ts";

export type Screen = { name: string; path: string; act?(page: Page): Promise<unknown> };

async function openFirst(page: Page): Promise<void> {
  await page.locator("tbody .row-link").first().click();
  await page.locator(".back").waitFor();
  await page.locator(".facts").first().waitFor();
}

async function createKey(page: Page): Promise<void> {
  await page.getByLabel("Name").fill("Shop backend");
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByText("Copy it now.").waitFor();
}

async function turnOnSecondFactor(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Turn it on", exact: true }).click();
  await page.getByRole("textbox", { name: "Code" }).waitFor();
}

export function screensOf({ places }: Shop): Screen[] {
  const press = (name: string) => (page: Page) => page.getByRole("button", { name, exact: true }).click();
  return [
    { name: "emails", path: "/emails" },
    { name: "emails-none", path: "/emails?status=canceled" },
    { name: "email-delivered", path: `/emails/${places.delivered}` },
    { name: "email-deferred", path: `/emails/${places.deferred}` },
    { name: "email-bounced", path: `/emails/${places.bounced}` },
    {
      name: "email-raw",
      path: `/emails/${places.delivered}`,
      act: (page) => page.getByRole("tab", { name: "Raw" }).click(),
    },
    { name: "overview", path: "/overview" },
    { name: "queue", path: "/queue" },
    { name: "caps", path: "/caps" },
    { name: "caps-history", path: "/caps?tab=history" },
    { name: "caps-evidence", path: "/caps?tab=evidence" },
    { name: "caps-policy", path: "/caps?tab=policy" },
    {
      name: "simulator",
      path: "/caps/simulator",
      async act(page) {
        await page.getByLabel("Scenario").selectOption("bought-list");
        await page.getByLabel("Workspaces").fill("3");
        await press("Simulate")(page);
        await page.getByText("Measure", { exact: true }).waitFor();
      },
    },
    { name: "suppressions", path: "/suppressions" },
    { name: "mailbox", path: "/mailbox" },
    { name: "audiences", path: "/audiences" },
    { name: "audience", path: `/audiences/${places.audience}` },
    { name: "import", path: `/audiences/${places.audience}/import` },
    { name: "templates", path: "/templates" },
    { name: "template", path: `/templates/${places.template}` },
    { name: "template-versions", path: `/templates/${places.template}?tab=versions` },
    { name: "automations", path: "/automations" },
    { name: "automation", path: `/automations/${places.automation}` },
    { name: "automation-document", path: `/automations/${places.automation}?tab=document` },
    { name: "automation-runs", path: `/automations/${places.automation}?tab=runs` },
    { name: "domains", path: "/domains" },
    { name: "domain", path: `/domains/${places.domain}` },
    { name: "webhooks", path: "/webhooks" },
    { name: "webhook", path: `/webhooks/${places.webhook}` },
    { name: "keys", path: "/keys?show=all" },
    { name: "keys-new", path: "/keys?new=1" },
    { name: "members", path: "/members" },
    { name: "usage", path: "/usage" },
    { name: "audit", path: "/audit" },
    { name: "operator", path: "/operator" },
    { name: "profile", path: "/profile" },
    { name: "palette", path: "/emails", act: (page) => page.keyboard.press("Control+k") },
    { name: "queue-of-all", path: "/operator?tab=queue" },
    { name: "nowhere", path: "/nowhere" },
    { name: "second-factor", path: "/profile", act: turnOnSecondFactor },
    { name: "run", path: `/automations/${places.automation}?tab=runs`, act: openFirst },
    { name: "contact", path: `/audiences/${places.audience}`, act: openFirst },
    { name: "caught", path: "/mailbox", act: openFirst },
    { name: "operator-suspend", path: "/operator", act: press("Suspend") },
    { name: "operator-find", path: "/operator?tab=find" },
    { name: "operator-audit", path: "/operator?tab=changes" },
    { name: "keys-created", path: "/keys?new=1", act: createKey },
    { name: "email-again", path: `/emails/${places.delivered}`, act: press("Send again") },
    { name: "email-reschedule", path: `/emails/${places.scheduled}`, act: press("Reschedule") },
    { name: "override", path: "/caps", act: press("Override") },
    { name: "suppression-add", path: "/suppressions", act: press("Suppress an address") },
    { name: "domain-add", path: "/domains", act: press("Add domain") },
    { name: "webhook-add", path: "/webhooks", act: press("Add webhook") },
    { name: "member-invite", path: "/members", act: press("Invite") },
    { name: "template-test", path: `/templates/${places.template}`, act: press("Send a test") },
    {
      name: "queue-suspend",
      path: "/queue",
      act: (page) => page.getByRole("button", { name: "Suspend" }).first().click(),
    },
    { name: "reset", path: "/reset#none" },
    { name: "invitation", path: places.invitation as string },
    { name: "reference", path: "/../docs" },
    { name: "reference-emails", path: "/../docs/api/emails" },
    { name: "reference-errors", path: "/../docs/errors" },
    { name: "reference-search", path: "/../docs/search?q=suppression" },
  ];
}
