import { expect, test } from "vitest";
import { turn } from "../../src/turn.ts";

const PIECE_MS = 4;

function work(): void {
  const until = performance.now() + PIECE_MS;
  while (performance.now() < until);
}

test("many that take turns hold the event loop no longer than a few pieces of their work", async () => {
  let pieces = 0;
  let most = 0;
  let left = 20;
  const one = async (): Promise<void> => {
    for (let n = 0; n < 3; n++) {
      await turn();
      work();
      pieces++;
    }
    left--;
  };
  const all = Promise.all(Array.from({ length: left }, one));
  while (left > 0) {
    const before = pieces;
    // timers have their turn once in each round of the event loop
    await new Promise((resolve) => setTimeout(resolve, 0));
    most = Math.max(most, pieces - before);
  }
  await all;
  expect(pieces).toBe(60);
  // 10 ms of one round and, as a timer is due a millisecond later, of the next
  expect(most).toBeLessThanOrEqual(8);
});

test("those who wait longest go first", async () => {
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: 10 }, async (_, n) => {
      await turn();
      work();
      order.push(n);
    }),
  );
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
