import { expect, test } from "vitest";
import { turn, turnIfLate } from "../../src/turn.ts";

const PIECE_MS = 4;

function work(): void {
  const until = performance.now() + PIECE_MS;
  while (performance.now() < until);
}

test("many that take turns hold the event loop no longer than a few pieces of their work", async () => {
  let [pieces, before, most] = [0, 0, 0];
  // once in each round of the event loop, as a piece takes longer than the millisecond of a timer
  const rounds = setInterval(() => {
    most = Math.max(most, pieces - before);
    before = pieces;
  }, 0);
  const one = async (): Promise<void> => {
    for (let n = 0; n < 3; n++) {
      await turn();
      work();
      pieces++;
    }
  };
  await Promise.all(Array.from({ length: 20 }, one));
  clearInterval(rounds);
  expect(pieces).toBe(60);
  expect(most).toBeLessThanOrEqual(4);
});

test("work that comes together begins while there is time for it, and then waits for its turn", async () => {
  let [pieces, before, most] = [0, 0, 0];
  const rounds = setInterval(() => {
    most = Math.max(most, pieces - before);
    before = pieces;
  }, 0);
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const late = turnIfLate();
      if (late) await late;
      work();
      pieces++;
    }),
  );
  clearInterval(rounds);
  expect(pieces).toBe(20);
  expect(most).toBeLessThanOrEqual(4);
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

test("who asks again and again goes behind who waits", async () => {
  const order: string[] = [];
  const job = async (name: string, pieces: number, ask: () => Promise<void> | null): Promise<void> => {
    for (let n = 0; n < pieces; n++) {
      const late = ask();
      if (late) await late;
      work();
      order.push(name);
    }
  };
  await Promise.all([
    job("long", 30, turnIfLate),
    job("short", 3, turnIfLate),
    job("again", 3, turn),
    // comes while the others work
    (async () => {
      for (let n = 0; n < 2; n++) await turn();
      await job("late", 1, turnIfLate);
    })(),
  ]);
  const ended = (name: string) => order.lastIndexOf(name);
  for (const name of ["short", "again", "late"]) expect(ended(name), name).toBeLessThan(20);
  expect(ended("long")).toBe(36);
});
