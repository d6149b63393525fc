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
/** Far more than rounding makes of a logarithm of evidence. */
const ROUNDING = 1e-6;

/**
 * The same for every limit of a measure: what is proven over a high limit is then proven over a lower one
 * too.
 */
export type Alternatives = { rates: readonly { rate: number; weight: number }[]; odds: Odds[] };

/** Of each rate over a limit, the logarithm of what an e-mail with an event, and one without, says for it. */
type Odds = {
  limit: number;
  over: number;
  weights: Float64Array;
  withEvent: Float64Array;
  without: Float64Array;
};

const known = new Map<number, Alternatives>();
/** The three limits of a policy, and those of some others with the same lowest one. */
const ODDS_KEPT_MAX = 12;

export function alternativesTo(lowestLimit: number): Alternatives {
  let found = known.get(lowestLimit);
  if (!found) {
    const rates = MULTIPLES.map((multiple, n) => ({
      rate: Math.min(RATE_MAX, lowestLimit * multiple),
      weight: WEIGHTS[n] as number,
    }));
    found = { rates, odds: [] };
    known.set(lowestLimit, found);
  }
  return found;
}

/** The logarithm of the e-value against "the rate is at most `limit`". */
export function logEvidence({ events, of }: Sample, limit: number, alternatives: Alternatives): number {
  return logEvalue(events, of - events, oddsKept(limit, alternatives));
}

/**
 * False: the evidence is surely not so much. The weights add up to 1, so that no mean exceeds its largest
 * part: nearly all windows are passed over without a single exponential.
 */
export function mayReach(
  { events, of }: Sample,
  limit: number,
  alternatives: Alternatives,
  needed: number,
): boolean {
  const { over, withEvent, without } = oddsKept(limit, alternatives);
  const least = needed - ROUNDING;
  for (let n = 0; n < over; n++)
    if (events * (withEvent[n] as number) + (of - events) * (without[n] as number) >= least) return true;
  return false;
}

function logEvalue(events: number, fine: number, { over, weights, withEvent, without }: Odds): number {
  let most = Number.NEGATIVE_INFINITY;
  let sum = 0;
  for (let n = 0; n < over; n++) {
    const weight = weights[n] as number;
    const ratio = events * (withEvent[n] as number) + fine * (without[n] as number);
    if (ratio > most) {
      sum = sum * Math.exp(most - ratio) + weight;
      most = ratio;
    } else sum += weight * Math.exp(ratio - most);
  }
  return most + Math.log(sum);
}

/** Taken anew at each look, these logarithms were half of the cost of the tables of power.ts. */
function oddsKept(limit: number, { rates, odds }: Alternatives): Odds {
  for (const one of odds) if (one.limit === limit) return one;
  const made = oddsOf(limit, rates);
  if (odds.length >= ODDS_KEPT_MAX) odds.length = 0;
  odds.push(made);
  return made;
}

function oddsOf(limit: number, rates: Alternatives["rates"]): Odds {
  const [weights, withEvent, without] = [0, 1, 2].map(() => new Float64Array(rates.length));
  const odds = { limit, over: 0, weights, withEvent, without } as Odds;
  setLimit(odds, limit, rates);
  return odds;
}

function setLimit(odds: Odds, limit: number, rates: Alternatives["rates"]): void {
  const least = Math.max(limit, 1e-12);
  odds.over = 0;
  for (const { rate, weight } of limit < 1 ? rates : []) {
    if (rate <= limit) continue;
    odds.weights[odds.over] = weight;
    odds.withEvent[odds.over] = Math.log(rate / least);
    odds.without[odds.over] = Math.log((1 - rate) / (1 - least));
    odds.over++;
  }
}

/** The rate is over this, but for one sender in 1/error, at whatever time one looks. */
export function lowerBound(sample: Sample, error: number, { rates }: Alternatives): number {
  if (sample.events === 0) return 0;
  const needed = -Math.log(error);
  const fine = sample.of - sample.events;
  const odds = oddsOf(0, rates);
  let low = 0;
  let high = sample.events / sample.of;
  for (let n = 0; n < BISECTIONS; n++) {
    const middle = (low + high) / 2;
    setLimit(odds, middle, rates);
    if (logEvalue(sample.events, fine, odds) >= needed) low = middle;
    else high = middle;
  }
  return low;
}
