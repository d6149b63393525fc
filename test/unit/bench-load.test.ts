/** What a load says of requests that come to nothing. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Endings } from "../../bench/endings.ts";
import { load } from "../../bench/load.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-load-"));
let server: ReturnType<typeof createServer>;
afterEach(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

test("connections that are cut are counted, also where any status is well", async () => {
  let came = 0;
  const url = await serve((response) => (++came % 2 === 0 ? response.destroy() : response.end("{}")));
  const request = { url, key: "a key", body: null, connections: 2, seconds: 3 };
  const { requests, failures, unanswered } = await load({ folder, endings: new Endings() }, request, false);
  expect(requests).toBeGreaterThan(0);
  expect(failures).toBe(0);
  expect(unanswered).toBeGreaterThan(0);
});

async function serve(answer: (response: ServerResponse) => void): Promise<string> {
  server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
