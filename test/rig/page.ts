/** People at the console in a real Chromium: one browser for each test file, one session for each page. */
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, test } from "vitest";
import type { PersonRole } from "../../src/rules/people.ts";
import type { Role } from "../../src/rules/roles.ts";
import { CHROMIUM_PATH } from "./chromium.ts";
import { type Engine, type EngineOptions, startEngine } from "./engine.ts";
import { watchPage, whatPagesShow } from "./pages.ts";
import { PASSWORD, person } from "./people.ts";
import { openProxy } from "./proxy.ts";
import type { TestWorkspace } from "./workspace.ts";

/**
 * Sooner than the test's own deadline, so that what was waited for is named. A page reads again every 15 s,
 * which may be when it shows what a test waits for.
 */
const ACTION_MS_MAX = 60_000;
const OPENING_MS_MAX = 120_000;
const STORY_MS_MAX = 300_000;

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
    const options = { executablePath: CHROMIUM_PATH, args: ["--no-sandbox"], timeout: OPENING_MS_MAX };
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

  /** Signed in through the form, as somebody new with this role. */
  async pageOf(
    engine: Engine,
    workspaceId: string,
    role: PersonRole = "owner",
    view: View = {},
  ): Promise<Page> {
    const { email } = await person(engine.sql, workspaceId, role);
    const page = await this.page(view);
    await page.goto(`${engine.consoleUrl}/console`);
    await signIn(page, email);
    await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
    return page;
  }

  /** What a page asks for by itself may be with a route of the test, whose answer would come too late. */
  async close(): Promise<void> {
    const pages = this.#browser.contexts().flatMap((context) => context.pages());
    await Promise.all(pages.map((page) => page.unrouteAll({ behavior: "ignoreErrors" })));
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

/** For all tests of a file. It is there once they run. */
export function sceneOf<S extends { close(): Promise<void> }>(open: () => Promise<S>): S {
  const scene = {} as S;
  beforeAll(async () => {
    if (CHROMIUM_PATH !== null) Object.assign(scene, await open());
  }, OPENING_MS_MAX);
  afterAll(() => scene.close?.());
  return scene;
}

/** A test that needs a browser. Elsewhere it is skipped, and says why. */
export function inChromium(fact: string, run: () => Promise<void>, msMax = STORY_MS_MAX): void {
  const isHere = CHROMIUM_PATH !== null;
  const told = () => run().catch(whatPagesShow);
  test.runIf(isHere)(isHere ? fact : `${fact} (skipped: there is no chromium in PATH)`, told, msMax);
}
