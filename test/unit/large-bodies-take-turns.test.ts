import { expect, test } from "vitest";
import { LargeBodies } from "../../src/api/largebodies.ts";
import { turn } from "../../src/turn.ts";

const MB = 1024 * 1024;

function reader() {
  const said: string[] = [];
  return { said, pause: () => said.push("pause"), resume: () => said.push("resume") };
}

test("when one has filled a turn, all wait for the next", async () => {
  const bodies = new LargeBodies();
  const [first, second] = [reader(), reader()];
  bodies.read(first, MB);
  bodies.read(second, MB);
  expect([first.said, second.said]).toEqual([[], []]);
  for (let n = 0; n < 8; n++) bodies.read(first, MB);
  expect([first.said, second.said]).toEqual([["pause"], ["pause"]]);
  await turn();
  expect([first.said, second.said]).toEqual([
    ["pause", "resume"],
    ["pause", "resume"],
  ]);
  bodies.read(second, MB);
  expect(second.said).toEqual(["pause", "resume"]);
});

test("one that has ended waits no longer, and one that is gone is not touched", async () => {
  const bodies = new LargeBodies();
  const [ended, gone] = [reader(), reader()];
  bodies.read(ended, MB);
  bodies.read(gone, 8 * MB);
  bodies.over(ended);
  bodies.gone(gone);
  expect([ended.said, gone.said]).toEqual([["pause", "resume"], ["pause"]]);
  await turn();
  bodies.read(reader(), 8 * MB);
  expect([ended.said, gone.said]).toEqual([["pause", "resume"], ["pause"]]);
});
