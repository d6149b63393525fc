/** axe-core finds nothing of any level on any screen of the console, light and dark, wide and narrow. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { screensOf } from "../browser/screens/list.ts";
import { openPlace } from "../browser/screens/place.ts";
import { openShop } from "../browser/screens/shop.ts";
import { Chromium, inChromium, sceneOf, signIn } from "../rig/page.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENS_MS_MAX = 240_000;
const WIDTHS = [1_280, 390];
/** A dress changes colours alone, so that in the other one only these are looked at again. */
const COLOURS = ["color-contrast", "color-contrast-enhanced", "link-in-text-block"];
/** Off in axe as it comes. */
const MORE = [
  "color-contrast-enhanced",
  "identical-links-same-purpose",
  "meta-refresh-no-exceptions",
  "target-size",
];
const scene = sceneOf(async () => {
  const place = await openPlace();
  const [shop, chromium] = [await openShop(place.ready), await Chromium.open()];
  return {
    ...{ place, shop, chromium },
    async close() {
      await chromium.close();
      shop.end();
      await place.end();
    },
  };
});

for (const width of WIDTHS)
  inChromium(
    `light and dark, ${width} wide`,
    async () => {
      const { place, shop, chromium } = scene;
      const { console_url, console_email, console_password } = place.ready;
      const page = await chromium.page({ width });
      await page.goto(console_url as string);
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      const faults = await faultsOf(page, "sign-in");
      await signIn(page, console_email as string, console_password as string);
      await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
      for (const { name, path, act } of screensOf(shop)) {
        await page.goto(`${console_url}${path}`);
        await page.locator("h1").waitFor();
        await page.locator(".skeleton").first().waitFor({ state: "detached" });
        await act?.(page);
        faults.push(...(await faultsOf(page, name)));
        const overflow = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        if (overflow !== 0) faults.push(`${name}: ${overflow} pixels wider than the window`);
        expect(await page.locator("h1").count(), name).toBe(1);
      }
      expect(faults).toEqual([]);
      expect(chromium.complaints).toEqual([]);
    },
    SCREENS_MS_MAX,
  );

async function faultsOf(page: Page, screen: string): Promise<string[]> {
  await page.evaluate(AXE);
  const light = await axe(page, screen);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await axe(page, `${screen}, dark`, COLOURS);
  await page.emulateMedia({ colorScheme: "light" });
  return [...light, ...dark];
}

async function axe(page: Page, screen: string, rules?: readonly string[]): Promise<string[]> {
  const on = Object.fromEntries(MORE.map((rule) => [rule, { enabled: true }]));
  const options = JSON.stringify({ iframes: false, rules: on, ...(rules && { runOnly: rules, rules: {} }) });
  // what others wrote, in frames, is theirs
  const found = (await page.evaluate(`axe.run({ exclude: ['iframe'] }, ${options})`)) as AxeResults;
  return found.violations.map(
    ({ id, help, nodes }) =>
      `${screen}: ${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
  );
}
