/** Room for downloads is given back, whatever became of their readers. */
import { expect, test } from "vitest";
import { Downloads } from "../../src/api/downloads.ts";
import type { Exchange } from "../../src/api/exchange.ts";

const WORKSPACE = "a workspace";
const MORE_THAN_FIT = 1_000;

function reader(isGone = false) {
  return { isGone, onSent: null, cutOff() {} } as Partial<Exchange> as Exchange;
}

function begunBy(downloads: Downloads, readers: readonly Exchange[]): Exchange[] {
  return readers.filter((one) => downloads.begin(one, WORKSPACE));
}

test("a reader who is gone before there was an answer takes none", () => {
  const downloads = new Downloads();
  const gone = Array.from({ length: MORE_THAN_FIT }, () => reader(true));
  expect(begunBy(downloads, gone)).toEqual([]);
  expect(downloads.begin(reader(), WORKSPACE)).toBe(true);
});

test("what has left makes room for as many again", () => {
  const downloads = new Downloads();
  const readers = Array.from({ length: MORE_THAN_FIT }, () => reader());
  const begun = begunBy(downloads, readers);
  expect(begun.length).toBeGreaterThan(0);
  expect(begun.length).toBeLessThan(MORE_THAN_FIT);
  for (const one of begun) {
    expect(downloads.grow(one, 1_000)).toBe(true);
    one.onSent?.();
  }
  expect(begunBy(downloads, readers)).toHaveLength(begun.length);
});
