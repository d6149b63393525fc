/**
 * A real Chromium without a screen, spoken to over a pipe in its own protocol. It notes what a page complains
 * of and what it asks for besides itself.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";

export const CHROMIUM = "chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"];
const CLOSE_MS_MAX = 5_000;

export type Screen = { width: number; height: number; dress: "light" | "dark" };
type Message = {
  id?: number;
  method?: string;
  params?: object;
  result?: object;
  error?: { message: string };
};

export class Browser {
  readonly complaints: string[] = [];
  /** Addresses that were asked for, the page's own included. */
  readonly asked: string[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "postrider-chromium-"));
  readonly #child: ChildProcess;
  readonly #answers = new Map<number, (message: Message) => void>();
  readonly #events = new Map<string, () => void>();
  #session: string | undefined;
  #count = 0;

  static async open(): Promise<Browser> {
    const browser = new Browser();
    try {
      const { targetId } = await browser.#say<{ targetId: string }>("Target.createTarget", {
        url: "about:blank",
      });
      const attached = await browser.#say<{ sessionId: string }>("Target.attachToTarget", {
        targetId,
        flatten: true,
      });
      browser.#session = attached.sessionId;
      for (const domain of ["Page", "Runtime", "Log", "Network"]) await browser.#say(`${domain}.enable`);
      return browser;
    } catch (error) {
      await browser.close();
      throw error;
    }
  }

  constructor() {
    this.#child = spawn(CHROMIUM, [...FLAGS, `--user-data-dir=${this.#folder}`], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    this.#child.once("error", (error) => this.#end(error.message));
    this.#child.once("exit", () => this.#end("Chromium has ended"));
    let said = "";
    (this.#child.stdio[4] as Readable).setEncoding("utf8").on("data", (text: string) => {
      const messages = (said + text).split("\0");
      said = messages.pop() as string;
      for (const one of messages) this.#hear(JSON.parse(one) as Message);
    });
  }

  async visit(url: string, { width, height, dress }: Screen): Promise<void> {
    await this.#say("Emulation.setDeviceMetricsOverride", {
      width,
      height,
      deviceScaleFactor: 1,
      mobile: width < 600,
    });
    await this.#say("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: dress }],
    });
    const isLoaded = new Promise<void>((resolve) => this.#events.set("Page.loadEventFired", resolve));
    await this.#say("Page.navigate", { url });
    await isLoaded;
  }

  /** What an expression is worth on the page. */
  async value<T>(expression: string): Promise<T> {
    const wanted = { expression, returnByValue: true, awaitPromise: true };
    const { result } = await this.#say<{ result: { value: T } }>("Runtime.evaluate", wanted);
    return result.value;
  }

  /** The whole page as a PNG. */
  async picture(): Promise<Buffer> {
    const wanted = { format: "png", captureBeyondViewport: false };
    const { data } = await this.#say<{ data: string }>("Page.captureScreenshot", wanted);
    return Buffer.from(data, "base64");
  }

  async close(): Promise<void> {
    const ended = this.#child.exitCode === null && this.#child.pid ? once(this.#child, "exit") : null;
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), CLOSE_MS_MAX);
    await ended;
    clearTimeout(timer);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }

  async #say<T extends object>(method: string, params: object = {}): Promise<T> {
    const id = ++this.#count;
    const answered = new Promise<Message>((resolve) => this.#answers.set(id, resolve));
    const session = this.#session === undefined ? {} : { sessionId: this.#session };
    (this.#child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, ...session })}\0`);
    const { result, error } = await answered;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result as T;
  }

  #hear(message: Message): void {
    if (message.id !== undefined) {
      this.#answers.get(message.id)?.(message);
      this.#answers.delete(message.id);
      return;
    }
    const { method = "", params = {} } = message;
    if (method === "Network.requestWillBeSent")
      this.asked.push((params as { request: { url: string } }).request.url);
    if (method === "Runtime.exceptionThrown" || method === "Log.entryAdded")
      this.complaints.push(JSON.stringify(params));
    if (method === "Runtime.consoleAPICalled" && (params as { type: string }).type === "error")
      this.complaints.push(JSON.stringify(params));
    this.#events.get(method)?.();
  }

  #end(reason: string): void {
    for (const settle of this.#answers.values()) settle({ error: { message: reason } });
    this.#answers.clear();
  }
}
