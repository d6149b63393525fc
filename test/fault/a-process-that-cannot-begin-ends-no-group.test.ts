/** A system may refuse to start a process: it is out of them, out of memory, or Node.js is being replaced. */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { eventually } from "../rig/eventually.ts";
import { launch } from "../rig/launched.ts";
import { openStage } from "../rig/stage.ts";
import { freshHome } from "../rig/start.ts";

test("a process that cannot be started is tried again, and the others go on", async () => {
  const stage = await openStage();
  const node = join(freshHome(), "node");
  copyFileSync(process.execPath, node);
  try {
    const group = launch(["api"], stage, ["--processes", "2"], node);
    const serving = () => group.lines.filter(({ msg }) => msg === "serving").length;
    await eventually(() => expect(serving()).toBe(3), { timeout: 20_000 });
    const [first] = group.lines.filter(({ msg }) => msg === "starting").map(({ pid }) => pid as number);
    rmSync(node);
    process.kill(first as number, "SIGKILL");
    const said = await Promise.race([group.says("a process could not be started again"), group.ended]);
    expect(said).toMatchObject({ err: { code: "ENOENT" } });
    copyFileSync(process.execPath, node);
    await eventually(() => expect(serving()).toBe(4), { timeout: 20_000 });
    group.signal("SIGTERM");
    expect(await group.ended).toBe(0);
  } finally {
    await stage.close();
  }
});
