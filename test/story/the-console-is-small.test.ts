/** Everything that a browser fetches to show the console is less than 120 KB, compressed. */
import { get } from "node:http";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";

const PAGE_BYTES_MAX = 120_000;
let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

/** As it comes over the wire. */
function bytesOf(path: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const headers = { "accept-encoding": "gzip" };
    get(engine.consoleUrl + path, { headers }, (answer) => buffer(answer).then(resolve, reject)).on(
      "error",
      reject,
    );
  });
}

test("the page, its scripts, its style and its icon", async () => {
  const html = await (await fetch(`${engine.consoleUrl}/console`)).text();
  const assets = [...html.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(
    ([, path = ""]) => path,
  );
  expect(assets.length).toBeGreaterThan(2);
  const script = await (await fetch(engine.consoleUrl + assets.find((path) => path.endsWith(".js")))).text();
  const later = [...script.matchAll(/import\(`\.\/([^`]+)`\)/g)].map(([, name]) => `/console/assets/${name}`);
  expect(later).toEqual([expect.stringContaining("/plot-")]);
  const workers = [...script.matchAll(/`(\/console\/assets\/[^`]+\.js)`/g)].map(([, path = ""]) => path);
  expect(workers).toEqual([expect.stringContaining("/streamworker-")]);
  const parts = await Promise.all(["/console", ...assets, ...later, ...workers].map(bytesOf));
  expect(parts.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(PAGE_BYTES_MAX);
});
