/**
 * Randomness that a seed repeats, and the few distributions that mail follows. Counts are drawn at once, not
 * one by one.
 */

/** Between 0 and 1, never 1. */
export type Random = () => number;

const NORMAL_FROM = 30;
/** So few are drawn one by one sooner than by their gaps. */
const FEW = 12;

/** mulberry32 */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * Of one of the many things that a seed decides, each with randomness of its own: murmur3's last step for
 * each part.
 */
export function randomFor(seed: number, ...parts: readonly number[]): Random {
  let mixed = seed >>> 0;
  for (const part of parts) {
    mixed = Math.imul(mixed ^ (part + 0x9e3779b9), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    mixed ^= mixed >>> 16;
  }
  return randomOf(mixed);
}

export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** A factor around 1: its logarithm is normal, its mean is 1 whatever the spread. */
export function factorAround1(random: Random, spread: number): number {
  return spread === 0 ? 1 : Math.exp(spread * normal(random) - (spread * spread) / 2);
}

/** How many arrive when so many are expected. */
export function poisson(random: Random, mean: number): number {
  if (mean <= 0) return 0;
  if (mean > NORMAL_FROM) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal(random)));
  const limit = Math.exp(-mean);
  let count = 0;
  for (let product = random(); product > limit; product *= random()) count++;
  return count;
}

/** How many of `of` it happens to, each with the same chance. */
export function binomial(random: Random, of: number, chance: number): number {
  if (of <= 0 || chance <= 0) return 0;
  if (chance >= 1) return of;
  if (chance > 0.5) return of - binomial(random, of, 1 - chance);
  if (of <= FEW) {
    let few = 0;
    for (let n = 0; n < of; n++) if (random() < chance) few++;
    return few;
  }
  const mean = of * chance;
  if (mean > NORMAL_FROM) {
    const drawn = Math.round(mean + Math.sqrt(mean * (1 - chance)) * normal(random));
    return Math.min(of, Math.max(0, drawn));
  }
  // from one that it happens to straight to the next: the gaps are geometric
  const scale = 1 / Math.log(1 - chance);
  let count = -1;
  for (let at = 0; at <= of; count++) at += 1 + Math.floor(Math.log(1 - random()) * scale);
  return count;
}
