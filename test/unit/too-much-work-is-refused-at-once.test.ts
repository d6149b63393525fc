/** How much work callers may have in hand, on a simulated server that does so much and no more. */
import { beforeEach, expect, test } from "vitest";
import { LARGE, SMALL, WorkInHand } from "../../src/api/inhand.ts";

const WORK = 60_000;
const STEP_MS = 5;

type Waiting = { since: number; end(): void };

let now = 0;
let work: WorkInHand;
let line: Waiting[];
/** Of those that were done. */
let waits: number[];
let refused: number;
let credit: number;

beforeEach(() => {
  now = 0;
  work = new WorkInHand(SMALL, () => now);
  [line, waits, refused, credit] = [[], [], 0, 0];
});

/** So many requests of `caller` a second come, and so many a second are done in order, in groups. */
function live(ms: number, coming: number, doing: number, { caller = "a", groupMs = STEP_MS } = {}): void {
  for (const until = now + ms; now < until; ) {
    now += STEP_MS;
    for (let n = 0; n < arrivals(coming); n++) ask(caller);
    credit = line.length === 0 ? 0 : credit + (doing * STEP_MS) / 1_000;
    if (now % groupMs !== 0) continue;
    for (; credit >= 1 && line.length > 0; credit--) {
      const first = line.shift() as Waiting;
      waits.push(now - first.since);
      first.end();
    }
  }
}

function arrivals(perSecond: number): number {
  const before = Math.floor(((now - STEP_MS) * perSecond) / 1_000);
  return Math.floor((now * perSecond) / 1_000) - before;
}

function ask(caller: string, bytes = WORK): boolean {
  const end = work.take(caller, bytes);
  if (end) line.push({ since: now, end });
  else refused++;
  return end !== null;
}

test("nobody is refused while what comes is done", () => {
  live(20_000, 180, 200, { groupMs: 150 });
  expect(refused).toBe(0);
});

for (const doing of [60, 200, 1_000])
  test(`of three times what is possible a third is done, within a second (${doing}/s)`, () => {
    live(3_000, 3 * doing, doing, { groupMs: 150 });
    // what a slow server can do was not known before
    expect(Math.max(...waits)).toBeLessThan(2_000);
    waits = [];
    live(20_000, 3 * doing, doing, { groupMs: 150 });
    expect(waits.length / 20).toBeGreaterThan(0.95 * doing);
    waits.sort((a, b) => a - b);
    expect(waits[Math.floor(waits.length * 0.99)]).toBeLessThan(1_000);
  });

test("work that is done in large groups, with long pauses between, is done as fast", () => {
  live(3_000, 600, 200, { groupMs: 450 });
  waits = [];
  live(20_000, 600, 200, { groupMs: 450 });
  expect(waits.length / 20).toBeGreaterThan(0.95 * 200);
});

test("after a pause of a store everything goes on as before", () => {
  live(5_000, 150, 200);
  live(3_000, 150, 0);
  expect(line.length).toBeGreaterThanOrEqual(SMALL.always);
  // who came first in the pause waited, later ones were told at once
  expect(refused).toBeGreaterThan(100);
  live(2_000, 150, 200);
  refused = 0;
  live(10_000, 150, 200);
  expect(refused).toBe(0);
});

test("a neighbour finds room beside a caller that has too much in hand", () => {
  live(5_000, 600, 200);
  expect(ask("a") && ask("a") && ask("a") && ask("a") && ask("a")).toBe(false);
  expect(ask("b")).toBe(true);
});

test("what is twice ended is ended once", () => {
  const end = work.take("a", WORK) as () => void;
  end();
  end();
  for (let n = 0; n < SMALL.always; n++) expect(ask("a")).toBe(true);
});

test("a caller whose large bodies fill every place leaves room for a neighbour", () => {
  for (let n = 0; n < 100; n++) work.take("a", 5_000_000);
  expect(work.take("b", 200_000)).not.toBeNull();
});

test("many quick requests are no reason to refuse a burst", () => {
  // twenty at a time, each done after 50 ms
  for (let n = 0; n < 20; n++) ask("a", 2_000);
  for (const until = now + 10_000; now < until; ) {
    now += 2.5;
    (line.shift() as Waiting).end();
    ask("a", 2_000);
  }
  for (let n = 0; n < 30; n++) ask("a");
  expect(refused).toBe(0);
});

test("a burst of mail with attachments is taken, right after the start", () => {
  work = new WorkInHand(LARGE, () => now);
  for (let n = 0; n < 50; n++) ask("a", 1_000_000);
  expect(refused).toBe(0);
});
