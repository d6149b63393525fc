/**
 * A rolling restart: of two api processes on one port each is replaced while callers keep their connections
 * busy. No connection breaks, nothing is refused, and who is stopping says so to whoever asks.
 */
import { Agent, request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { startEngine } from "../rig/engine.ts";
import { watchHoldUps } from "../rig/heldup.ts";
import { type Launched, launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const CALLERS = 12;
const BODY = JSON.stringify(mail());
const POLL = { timeout: 30_000 };

let stage: Stage;
let port: number;
let key: string;
beforeAll(async () => {
  stage = await openStage();
  port = await freePort();
  const engine = await startEngine(["api"], stage);
  key = (await engine.workspace("pro")).client.key;
  await engine.stop();
});
afterAll(() => {
  holdUps.end();
  return stage.close();
});

const holdUps = watchHoldUps();

/** Sends over one kept connection, one request after the other, until it is told to stop. */
class Caller {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly statuses = new Map<number, number>();
  readonly failures: string[] = [];
  closes = 0;
  #isOver = false;
  readonly done: Promise<void>;

  constructor() {
    this.done = this.#run();
  }

  stop(): Promise<void> {
    this.#isOver = true;
    return this.done;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      try {
        const { status, closes } = await this.#send();
        this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
        if (closes) this.closes++;
      } catch (error) {
        this.failures.push(String(error));
      }
    }
    this.#agent.destroy();
  }

  #send(): Promise<{ status: number; closes: boolean }> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const asked = request(
        { host: "127.0.0.1", port, path: "/api/v1/emails", method: "POST", agent: this.#agent, headers },
        (response) => {
          const closes = response.headers.connection === "close";
          response.resume().on("end", () => resolve({ status: response.statusCode ?? 0, closes }));
        },
      );
      asked.on("error", (error) => {
        if (asked.reusedSocket && holdUps.wereLately()) this.#send().then(resolve, reject);
        else reject(error);
      });
      asked.end(BODY);
    });
  }
}

function startApi(): Launched {
  return launch(["api"], { ...stage, settings: { PORT: String(port), SHARED_PORT: "true" } });
}

test("nobody notices", async () => {
  const old = [startApi(), startApi()];
  await Promise.all(old.map((one) => one.says("serving")));
  const callers = Array.from({ length: CALLERS }, () => new Caller());
  const sent = () => callers.reduce((sum, { statuses }) => sum + (statuses.get(200) ?? 0), 0);
  await expect.poll(sent, POLL).toBeGreaterThan(50);
  const fresh: Launched[] = [];
  for (const one of old) {
    const next = startApi();
    fresh.push(next);
    await next.says("serving");
    const before = sent();
    one.signal("SIGTERM");
    expect(await one.ended).toBe(0);
    expect(one.lines.at(-1)?.msg).toMatch(/^stopped/);
    await expect.poll(sent, POLL).toBeGreaterThan(before + 50);
  }
  await Promise.all(callers.map((one) => one.stop()));
  for (const { failures, statuses } of callers) {
    expect(failures).toEqual([]);
    expect([...statuses.keys()]).toEqual([200]);
  }
  expect(callers.reduce((sum, { closes }) => sum + closes, 0)).toBeGreaterThan(0);
  const faults = [...old, ...fresh].flatMap(({ lines }) => lines.filter(({ level }) => level >= 50));
  expect(faults).toEqual([]);
});
