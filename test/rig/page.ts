/** People at the console in a real Chromium: one browser for each test file, one session for each page. */
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, test } from "vitest";
import type { PersonRole } from "../../src/rules/people.ts";
import type { Role } from "../../src/rules/roles.ts";
import { CHROMIUM_PATH } from "./chromium.ts";
import { type Engine, type EngineOptions, startEngine } from "./engine.ts";
import { watchPage, whatPagesShow } from "./pages.ts";
import { PASSWORD, person, sessionCookie } from "./people.ts";
import { openProxy } from "./proxy.ts";
import type { TestWorkspace } from "./workspace.ts";

/**
 * Sooner than the test's own deadline, so that what was waited for is named. A page reads again every 15 s,
 * which may be when it shows what a test waits for.
 */
const ACTION_MS_MAX = 60_000;
const OPENING_MS_MAX = 120_000;
const STORY_MS_MAX = 300_000;

/**
 * Chromium makes two pages of its address bar beside each page, which nobody sees here and which take longer
 * than the page: 0.9 s of a core. The last list of a command line counts, so Playwright's own is repeated.
 */
const FEATURES_OFF = [
  ...["WebUIOmniboxPopup", "WebUIOmniboxAimPopup"],
  ...["AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"],
  ...["HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"],
  ...["ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"],
  ...["NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"],
].join();

export type View = { dress?: "light" | "dark"; width?: number };

export class Chromium {
  /** What pages complained of: errors of scripts, and what the content security policy refused. */
  readonly complaints: string[] = [];
  readonly #browser: Browser;

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async open(): Promise<Chromium> {
    if (CHROMIUM_PATH === null) throw new Error("there is no chromium in PATH");
    const args = ["--no-sandbox", `--disable-features=${FEATURES_OFF}`];
    const options = { executablePath: CHROMIUM_PATH, args, timeout: OPENING_MS_MAX };
    return new Chromium(await chromium.launch(options));
  }

  async page({ dress = "light", width = 1_280 }: View = {}): Promise<Page> {
    const context = await this.#browser.newContext({ colorScheme: dress, viewport: { width, height: 900 } });
    context.setDefaultTimeout(ACTION_MS_MAX);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    page.on("console", (said) => {
      if (/content security policy/i.test(said.text())) this.complaints.push(said.text());
    });
    watchPage(page);
    return page;
  }

  /** Of somebody new with this role, who is signed in. */
  async pageOf(
    engine: Engine,
    workspaceId: string,
    role: PersonRole = "owner",
    view: View = {},
  ): Promise<Page> {
    const { id } = await person(engine.sql, workspaceId, role);
    const page = await this.page(view);
    const cookie = await sessionCookie(engine.sql, id);
    await page
      .context()
      .addCookies([{ ...cookie, url: engine.consoleUrl, httpOnly: true, sameSite: "Strict" }]);
    await page.goto(`${engine.consoleUrl}/console`);
    await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
    return page;
  }

  /**
   * Open ones would go on reading. What they ask for by themselves may be with a route of the test, whose
   * answer would come too late.
   */
  async closePages(): Promise<void> {
    const contexts = this.#browser.contexts();
    const pages = contexts.flatMap((context) => context.pages());
    await Promise.all(pages.map((page) => page.unrouteAll({ behavior: "ignoreErrors" })));
    await Promise.all(contexts.map((context) => context.close()));
  }

  async close(): Promise<void> {
    await this.closePages();
    await this.#browser.close();
  }
}

/** On the page that asks for it. What comes next is the test's to wait for. */
export async function signIn(page: Page, email: string, password = PASSWORD): Promise<void> {
  // the page of before may wait behind it
  const door = page.locator(".door");
  await door.getByLabel("Email").fill(email);
  await door.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** The calls to `url` with this method wait until `answer`. */
export async function held(page: Page, url: string, method: string) {
  let answer = () => {};
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route(url, async (route) => {
    if (route.request().method() === method) await isAnswered;
    await route.continue();
  });
  return { isAsked: page.waitForRequest((request) => request.method() === method), answer };
}

export type ConsoleScene = {
  engine: Engine;
  workspace: TestWorkspace;
  chromium: Chromium;
  close(): Promise<void>;
};

/** What most stories of the console need. */
export async function openConsole(
  roles: readonly Role[] = ["api"],
  options: EngineOptions = {},
): Promise<ConsoleScene> {
  const settings = { CONSOLE_PORT: "0", ...options.settings };
  const engine = await startEngine([...roles, "console"], { ...options, settings });
  const [workspace, chromium] = await Promise.all([engine.workspace(), Chromium.open()]);
  return {
    ...{ engine, workspace, chromium },
    async close() {
      await chromium.close();
      await engine.stop();
    },
  };
}

/** The same with a proxy before the console, which can cut what it answers. */
export async function openConsoleBehindProxy() {
  const opened = await openConsole();
  const proxy = await openProxy({ host: "127.0.0.1", port: Number(new URL(opened.engine.consoleUrl).port) });
  return {
    ...opened,
    proxy,
    async close() {
      await proxy.close();
      await opened.close();
    },
  };
}

/** For all tests of a file, each with pages of its own. It is there once they run. */
export function sceneOf<S extends { chromium: Chromium; close(): Promise<void> }>(open: () => Promise<S>): S {
  const scene = {} as S;
  beforeAll(async () => {
    if (CHROMIUM_PATH !== null) Object.assign(scene, await open());
  }, OPENING_MS_MAX);
  afterEach(() => scene.chromium?.closePages());
  afterAll(() => scene.close?.());
  return scene;
}

/** A test that needs a browser. Elsewhere it is skipped, and says why. */
export function inChromium(fact: string, run: () => Promise<void>, msMax = STORY_MS_MAX): void {
  const isHere = CHROMIUM_PATH !== null;
  const told = () => run().catch(whatPagesShow);
  test.runIf(isHere)(isHere ? fact : `${fact} (skipped: there is no chromium in PATH)`, told, msMax);
}
