/** Paths stand in URLs, where `#`, `?` and `%` mean something. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { freshHome, start } from "../rig/start.ts";

test("POSTRIDER_HOME has `%20`, `#`, `?` and a space in its name", async () => {
  const root = start(join(freshHome(), "50%20 #1?"));
  const { base_url } = await root.ready();
  expect((await fetch(`${base_url}/readyz`)).status).toBe(200);
  root.signal("SIGTERM");
  expect(await root.ended).toBe(0);
});
