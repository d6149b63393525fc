/** `postrider help | head -1`: who reads no further wants no stack trace. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { POSTRIDER } from "../rig/process.ts";

test("nothing is said of it, and the status is that of the command", async () => {
  const command = spawn(process.execPath, [POSTRIDER, "help"], { stdio: ["ignore", "pipe", "pipe"] });
  command.stdout.destroy();
  let said = "";
  command.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const [status] = await once(command, "close");
  expect({ status, said }).toEqual({ status: 0, said: "" });
});

test("nor does one who reads no errors change the status", async () => {
  const command = spawn(process.execPath, [POSTRIDER, "nonsense"], { stdio: ["ignore", "ignore", "pipe"] });
  command.stderr.destroy();
  expect(await once(command, "close")).toEqual([2, null]);
});
