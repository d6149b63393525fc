/** The native server: what is installed is what was recorded, and what was changed is not loaded. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  checkBinary,
  checkServerBinary,
  packageOfBinary,
  pathOfBinary,
  RECORDED_BINARIES,
  WrongBinary,
} from "../../src/api/binary.ts";

type Lock = { packages: Record<string, { version: string; integrity?: string }> };

test("the binary of this machine is the recorded one, where one is recorded", () => {
  const isRecorded = packageOfBinary() in RECORDED_BINARIES;
  expect(checkServerBinary()).toBe(isRecorded ? "recorded" : "not recorded");
  if (process.platform === "linux" && process.arch === "x64") expect(isRecorded).toBe(true);
});

test("one that differs in a bit is refused, with what to do", () => {
  const folder = mkdtempSync(join(tmpdir(), "postrider-binary-"));
  const changed = join(folder, "uws.node");
  try {
    const bytes = readFileSync(pathOfBinary(packageOfBinary()));
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
    writeFileSync(changed, bytes);
    const check = () => checkBinary(changed, RECORDED_BINARIES[packageOfBinary()] ?? "0");
    expect(check).toThrow(WrongBinary);
    expect(check).toThrow(/is not the recorded one: .*uws\.node has the SHA-256 [0-9a-f]{64}.*npm ci/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the packages of recorded binaries are in the lock file with their hash, all of one version", () => {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
  const core = packages["node_modules/uWebSockets.js"];
  expect(core?.integrity).toMatch(/^sha512-/);
  for (const name of Object.keys(RECORDED_BINARIES)) {
    const locked = packages[`node_modules/${name}`];
    expect(locked?.integrity, name).toMatch(/^sha512-/);
    expect(locked?.version, name).toBe(core?.version);
  }
});
