/**
 * `npm run screens`: pictures of every screen of the console, light and dark, 1,280 and 390 wide, with the
 * data of a plausible shop, in ./screens. Some words after the command choose screens:
 * `npm run screens -- caps emails`.
 */
import { mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { CHROMIUM_PATH } from "../../rig/chromium.ts";
import { type Screen, screensOf } from "./list.ts";
import { openPlace } from "./place.ts";
import { openShop } from "./shop.ts";

const FOLDER = fileURLToPath(new URL("../../../screens/", import.meta.url));
const WIDTHS = [1_280, 390];
const HEIGHT = 900;
const DRESSES = ["light", "dark"] as const;

if (CHROMIUM_PATH === null)
  throw new Error("There is no chromium in PATH. Install it: apt-get install chromium");
const place = await openPlace();
const browser = await chromium.launch({ executablePath: CHROMIUM_PATH, args: ["--no-sandbox"] });
try {
  const shop = await openShop(place.ready);
  const wanted = process.argv.slice(2);
  const shown = screensOf(shop).filter(
    ({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)),
  );
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER);
  for (const dress of DRESSES)
    for (const width of WIDTHS) {
      const context = await browser.newContext({ colorScheme: dress, viewport: { width, height: HEIGHT } });
      await shoot(context, shown, dress, width);
      await context.close();
    }
  shop.end();
} finally {
  await browser.close();
  await place.end();
}

async function shoot(
  context: BrowserContext,
  shown: readonly Screen[],
  dress: string,
  width: number,
): Promise<void> {
  const suffix = `${dress}-${width}`;
  const { console_url, console_email, console_password } = place.ready;
  const page = await context.newPage();
  page.on("pageerror", (error) => process.stderr.write(`${error.stack}\n`));
  await page.goto(console_url as string);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.screenshot({ path: `${FOLDER}sign-in-${suffix}.png` });
  await page.getByLabel("Email").fill(console_email as string);
  await page.getByLabel("Password").fill(console_password as string);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Emails", level: 1 }).waitFor();
  for (const { name, path, act } of shown) {
    await page.setViewportSize({ width, height: HEIGHT });
    await page.goto(`${console_url}${path}`);
    await page.locator("h1").waitFor();
    await settled(page);
    await act?.(page);
    await settled(page);
    await page.screenshot({ path: `${FOLDER}${name}-${suffix}.png`, fullPage: true, animations: "disabled" });
  }
}

/** The live stream never ends, so the network is never idle. */
async function settled(page: Page): Promise<void> {
  const { width } = page.viewportSize() ?? { width: 0 };
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
  for (const plot of await page.locator(".plot").all()) await plot.locator("canvas").waitFor();
  const frames = await page.locator("iframe").all();
  // frames out of sight are not drawn
  if (frames.length > 0) await page.setViewportSize({ width, height: await heightOf(page) });
  for (const frame of frames) await frame.contentFrame().locator("body > *").first().waitFor();
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
}

function heightOf(page: Page): Promise<number> {
  return page.evaluate<number>("document.documentElement.scrollHeight");
}
