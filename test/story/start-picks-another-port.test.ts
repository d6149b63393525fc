/**
 * Of the ports that `npm start` picks, one may be taken by somebody else before it is used: another one is
 * picked.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { freshHome, readReady, start } from "../rig/start.ts";

const THIEF = fileURLToPath(new URL("../rig/thief.mjs", import.meta.url));

test.each(["PORT", "INBOUND_PORT"])(
  "%s",
  async (setting) => {
    const home = freshHome();
    const mark = join(home, "taken");
    const root = start(home, { NODE_OPTIONS: `--import=${THIEF}`, THIEF_TAKES: setting, THIEF_MARK: mark });
    const ready = await root.ready();
    const taken = readFileSync(mark, "utf8");
    expect(ready.settings[setting]).not.toBe(taken);
    expect((await fetch(`${ready.base_url}/healthz`)).status).toBe(200);
    expect(readReady(home).inbound_url).toContain(ready.settings.INBOUND_PORT);
    root.signal("SIGTERM");
    expect(await root.ended).toBe(0);
  },
  120_000,
);
