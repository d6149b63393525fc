/** What the bench cannot do it says at once and in words, before it starts or sends anything. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const NOBODY = `http://127.0.0.1:${await freePort()}`;

test.concurrent.each([
  ["stattus", /There is no scenario stattus: accept, admit, status, /],
  ["status --compare package.json", /package\.json is no report of this bench/],
  ["status --key k", /--key belongs to --target/],
  [`status --target ${NOBODY} --key k`, /Nobody answers at http/],
])("bench %s", async (flags, words) => {
  const { status, said } = await bench(flags.split(" "));
  expect(said).toMatch(words);
  expect(said).not.toMatch(/^ +at /m);
  expect(status).toBe(1);
});

async function bench(flags: string[]): Promise<{ status: number; said: string }> {
  const child = spawn(process.execPath, ["--import", "tsx", "bench/bench.ts", ...flags], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  const [status] = (await once(child, "close")) as [number];
  return { status, said };
}
