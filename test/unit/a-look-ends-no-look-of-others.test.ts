/**
 * Previews of templates are kept for a minute. Somebody who makes many loses their own, and nobody else's.
 */
import { expect, test } from "vitest";
import { Frames } from "../../src/console/frames.ts";

test("whoever previews a thousand times ends no preview of others", () => {
  const frames = new Frames();
  const name = frames.keep("<p>mine</p>", "me", 0);
  const theirs = Array.from({ length: 1_000 }, (_, n) => frames.keep(`<p>${n}</p>`, "them", 1));
  expect(frames.find(name, "me", 2)).toBe("<p>mine</p>");
  expect(frames.find(theirs.at(-1) as string, "them", 2)).toBe("<p>999</p>");
  expect(() => frames.find(theirs[0] as string, "them", 2)).toThrow();
  expect(() => frames.find(name, "them", 2)).toThrow();
});
