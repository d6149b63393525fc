/**
 * Whether two sets of runs differ by more than chance, asked of many figures at once. Every run belongs to
 * one round of the bench, and if nothing had changed, any dealing of the rounds to the two sides would be as
 * likely as the one there was. So the rounds are dealt anew many times, and a figure's chance is the share of
 * the deals in which the figure that looked most different looked as different as this one does. Whoever
 * looks at a hundred figures is so misled in one comparison of twenty at most (Westfall and Young's max-T),
 * and figures that move together are no evidence against each other.
 */
import { type Random, randomOf } from "../src/capacity/random.ts";

export const CHANCE_MAX = 0.05;
/** Of each side. */
const ROUNDS_MIN = 4;
const DEALS = 2_000;
/** As a part of the figure: what scatters less is not measured better. */
const SCATTER_MIN = 0.02;
const SEED = 1;
const ROUNDING = 1e-9;

/** Every figure has a value for each round of its side. */
export type Sides = { before: readonly number[]; after: readonly number[] };

/**
 * Whether so few rounds can show anything: of the deals of three and three, one in ten looks like the one
 * there was.
 */
export function canTell(before: number, after: number): boolean {
  return Math.min(before, after) >= ROUNDS_MIN;
}

export function chances(figures: readonly Sides[]): number[] {
  const [first] = figures;
  if (!first) return [];
  const pools = figures.map(poolOf);
  const order = Array.from({ length: first.before.length + first.after.length }, (_, round) => round);
  const found = pools.map((pool) => contrast(pool, order, first.before.length));
  const reached = found.map(() => 1);
  const random = randomOf(SEED);
  for (let deal = 0; deal < DEALS; deal++) {
    shuffle(order, random);
    let most = 0;
    for (const pool of pools) most = Math.max(most, contrast(pool, order, first.before.length));
    for (const [n, one] of found.entries()) if (most >= one - ROUNDING) (reached[n] as number)++;
  }
  return reached.map((count) => count / (DEALS + 1));
}

/** A figure's values of both sides, and of all of them what no dealing changes. */
type Pool = { values: readonly number[]; sum: number; squares: number };

function poolOf({ before, after }: Sides): Pool {
  const pool: Pool = { values: [...before, ...after], sum: 0, squares: 0 };
  for (const value of pool.values) {
    pool.sum += value;
    pool.squares += value * value;
  }
  return pool;
}

/** How far the means of the two sides are apart, measured by the scatter within them. */
function contrast({ values, sum, squares }: Pool, order: readonly number[], before: number): number {
  let first = 0;
  for (let at = 0; at < before; at++) first += values[order[at] as number] as number;
  const count = values.length;
  const [a, b] = [first / before, (sum - first) / (count - before)];
  const variance = Math.max(0, (squares - a * first - b * (sum - first)) / count);
  const scatterMin = SCATTER_MIN * Math.abs(sum / count);
  return sum === 0 ? 0 : Math.abs(a - b) / (Math.sqrt(variance) + scatterMin);
}

function shuffle(order: number[], random: Random): void {
  for (let n = order.length - 1; n > 0; n--) {
    const other = Math.floor(random() * (n + 1));
    [order[n], order[other]] = [order[other] as number, order[n] as number];
  }
}
