import fc from "fast-check";
import { expect, test } from "vitest";
import { newHandle } from "../../src/admission/bearer.ts";
import { newId } from "../../src/ids.ts";
import { pathsIn, ReturnPathKey } from "../../src/returnpath.ts";

const NOW = Date.UTC(2026, 10, 22);
const DAY_MS = 86_400_000;
const key = new ReturnPathKey("a secret of the tests, long enough");

function someCopy() {
  return { handle: newHandle(), emailId: newId(NOW), place: Math.floor(Math.random() * 50) };
}

test("a return path is read back, also in capitals", () => {
  for (let n = 0; n < 1_000; n++) {
    const copy = someCopy();
    const path = key.write(copy, NOW);
    expect(path).toMatch(/^[0-9a-z]{56}$/);
    expect(key.read(path, NOW)).toEqual({ kind: "copy", copy });
    expect(key.read(path.toUpperCase(), NOW)).toEqual({ kind: "copy", copy });
  }
});

test("it is good for thirty days", () => {
  const path = key.write(someCopy(), NOW);
  expect(key.read(path, NOW + 30 * DAY_MS).kind).toBe("copy");
  expect(key.read(path, NOW + 31 * DAY_MS)).toEqual({ kind: "expired" });
});

test("no other text is one: every character counts, and so does the secret", () => {
  const path = key.write(someCopy(), NOW);
  for (let n = 0; n < path.length; n++) {
    const other = path[n] === "0" ? "1" : "0";
    expect(key.read(path.slice(0, n) + other + path.slice(n + 1), NOW)).toEqual({ kind: "foreign" });
  }
  expect(new ReturnPathKey("another secret, just as long").read(path, NOW)).toEqual({ kind: "foreign" });
  fc.assert(fc.property(fc.string(), (text) => key.read(text, NOW).kind === "foreign"));
});

test("it is found in a text", () => {
  const path = key.write(someCopy(), NOW);
  expect(pathsIn(`Return-Path: <${path.toUpperCase()}@bounces.example.com>`)).toEqual([path.toUpperCase()]);
  expect(pathsIn(`x${path}@example.com and ${path} alone`)).toEqual([]);
});
