/**
 * The bench's report is one file: it opens from disk, asks for nothing else, complains of nothing, and fits a
 * phone.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { page } from "../../bench/report/page.ts";
import type { Results } from "../../bench/results.ts";
import { Browser, CHROMIUM, type Screen } from "../rig/browser.ts";

/** Not everybody who runs the tests has one. */
const HAS_CHROMIUM = (process.env.PATH ?? "")
  .split(delimiter)
  .some((folder) => existsSync(join(folder, CHROMIUM)));
const SCREENS: Screen[] = [
  { width: 1_200, height: 900, dress: "light" },
  { width: 375, height: 800, dress: "dark" },
];
const CHARTS = [
  "From the request to the sink",
  "Accepted and committed",
  "What the stages of delivery allow",
  "CPU for a thousand e-mails",
  "accept: takes mail",
  "deliver: brings <mail>",
  "deliver: brings <mail>",
];

const folder = mkdtempSync(join(tmpdir(), "postrider-report-"));
const file = join(folder, "report.html");
let browser: Browser;
beforeAll(async () => {
  writeFileSync(file, page(...reported()));
  if (HAS_CHROMIUM) browser = await Browser.open();
});
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

test.runIf(HAS_CHROMIUM).each(SCREENS)("$width wide and $dress", async (screen) => {
  await browser.visit(pathToFileURL(file).href, screen);
  const captions = await browser.value<string[]>(
    `[...document.querySelectorAll("figure")].map((one) => one.querySelector("svg") && one.innerText)`,
  );
  CHARTS.forEach((caption, n) => {
    expect(captions[n]).toContain(caption);
  });
  expect(captions).toHaveLength(CHARTS.length);
  const root = "document.documentElement";
  expect(await browser.value(`${root}.scrollWidth - ${root}.clientWidth`)).toBe(0);
  expect(await smallestLetters()).toBeGreaterThanOrEqual(screen.width < 600 ? 10 : 12);
  expect(await browser.value("getComputedStyle(document.body).backgroundColor")).toBe(
    screen.dress === "dark" ? "rgb(18, 22, 29)" : "rgb(251, 252, 254)",
  );
});

test.runIf(HAS_CHROMIUM)("nothing was asked for but the file, and nothing complained of", () => {
  expect(new Set(browser.asked)).toEqual(new Set([pathToFileURL(file).href]));
  expect(browser.complaints).toEqual([]);
});

test("what it says of the comparison is there without a browser too", () => {
  const html = readFileSync(file, "utf8");
  expect(html).toMatch(/<td>deliver<\/td><td class="name">CPU per thousand e-mails<\/td>.*<td>worse<\/td>/);
  expect(html).toContain("failed: caps: the record did not answer &#60;in&#62; time");
});

/** In pixels of the screen, as the charts are drawn. */
function smallestLetters(): Promise<number> {
  return browser.value(`Math.min(...[...document.querySelectorAll("svg")].map((one) =>
    parseFloat(getComputedStyle(one).fontSize) * one.getBoundingClientRect().width / one.viewBox.baseVal.width))`);
}

/**
 * A recorded run beside a recorded one that is slower, with courses and distributions as a scenario hands
 * them back.
 */
function reported(): Parameters<typeof page> {
  const [earlier, later] = ["same", "slower"].map((name) =>
    JSON.parse(readFileSync(new URL(`../unit/bench-runs/${name}.json`, import.meta.url), "utf8")),
  ) as [Results, Results];
  const rising = Array.from({ length: 9 }, (_, n): [number, number] => [n, n * n]);
  const scenario = "deliver";
  later.courses = [{ scenario, about: "rate", name: "e-mails in the sink", unit: "/s", points: rising }];
  later.courses.push({ scenario, about: "memory", name: "api", unit: "MB", points: rising });
  later.distributions = [
    {
      scenario: "accept",
      name: "answer",
      unit: "ms",
      points: [
        [0.5, 3],
        [0.999, 90],
      ],
    },
  ];
  later.exhibits = [{ name: "</details><script>alert(1)</script>", text: "a = <b>\n" }];
  later.failed = ["caps: the record did not answer <in> time"];
  const unused = () => Promise.reject(new Error("nothing runs here"));
  const scenarios = [
    { name: "accept", does: "takes mail", run: unused },
    { name: "deliver", does: "brings <mail>", run: unused },
  ];
  return [later, scenarios, earlier];
}
