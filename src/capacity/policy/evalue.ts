/**
 * How sure it is that a rate is over a limit, however often one looks. The evidence is an e-value: the
 * likelihood of what was seen under rates above the limit, against its likelihood at the limit. Under a rate
 * that keeps to the limit its mean never exceeds 1, so that (Ville) it reaches 1/error with a probability of
 * at most `error`, at any time ever. docs/caps-statistics.md has the mathematics and what it costs.
 */

/** Events among so many. */
export type Sample = { events: number; of: number };

/**
 * Rates that mail over the limit may have, as multiples of the lowest limit: twice is what must be found
 * soon.
 */
const MULTIPLES = [1.1, 1.25, 1.5, 2, 2.75, 4, 6.5, 10];
const WEIGHTS = [0.06, 0.08, 0.12, 0.3, 0.16, 0.12, 0.1, 0.06];
const RATE_MAX = 0.95;
const BISECTIONS = 40;

/**
 * The same for every limit of a measure: what is proven over a high limit is then proven over a lower one
 * too.
 */
export type Alternatives = readonly { rate: number; weight: number }[];

const known = new Map<number, Alternatives>();

export function alternativesTo(lowestLimit: number): Alternatives {
  let found = known.get(lowestLimit);
  if (!found) {
    found = MULTIPLES.map((multiple, n) => ({
      rate: Math.min(RATE_MAX, lowestLimit * multiple),
      weight: WEIGHTS[n] as number,
    }));
    known.set(lowestLimit, found);
  }
  return found;
}

/** The logarithm of the e-value against "the rate is at most `limit`". */
export function logEvidence({ events, of }: Sample, limit: number, alternatives: Alternatives): number {
  if (limit >= 1) return Number.NEGATIVE_INFINITY;
  const least = Math.max(limit, 1e-12);
  const fine = of - events;
  let most = Number.NEGATIVE_INFINITY;
  let sum = 0;
  for (const { rate, weight } of alternatives) {
    if (rate <= limit) continue;
    const ratio = events * Math.log(rate / least) + fine * Math.log((1 - rate) / (1 - least));
    if (ratio > most) {
      sum = sum * Math.exp(most - ratio) + weight;
      most = ratio;
    } else sum += weight * Math.exp(ratio - most);
  }
  return most + Math.log(sum);
}

/** The rate is over this, but for one sender in 1/error, at whatever time one looks. */
export function lowerBound(sample: Sample, error: number, alternatives: Alternatives): number {
  if (sample.events === 0) return 0;
  const needed = -Math.log(error);
  let low = 0;
  let high = sample.events / sample.of;
  for (let n = 0; n < BISECTIONS; n++) {
    const middle = (low + high) / 2;
    if (logEvidence(sample, middle, alternatives) >= needed) low = middle;
    else high = middle;
  }
  return low;
}
