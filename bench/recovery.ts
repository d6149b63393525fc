/** How mail to the sink flows: its rate over some seconds, and how it comes back after a blow. */
import type { Bench } from "./machine.ts";
import { after } from "./until.ts";

const SAMPLE_EVERY_MS = 20;
const SILENCE_MS_MIN = 150;
/** Back means: at this part of the rate before, for this long. */
const BACK_PART = 0.75;
const BACK_MS = 2_000;
const WATCHED_MS_MAX = 60_000;

/** E-mails per second from the first one on, after `warmupMs`. */
export async function flow(bench: Bench, seconds: number, warmupMs = 1_500): Promise<number> {
  const start = bench.sink.count();
  const deadline = performance.now() + WATCHED_MS_MAX;
  while (bench.sink.count() === start && performance.now() < deadline) await after(SAMPLE_EVERY_MS);
  await after(warmupMs);
  const [from, began] = [bench.sink.count(), performance.now()];
  await after(seconds * 1000);
  return (bench.sink.count() - from) / ((performance.now() - began) / 1000);
}

export type Recovery = {
  /** Seconds from the blow to the first mail after the longest silence; 0: it never was silent. */
  firstMail: number;
  /** Seconds from the blow until the rate was back; null: it was not in a minute, or the mail ran out. */
  rateBack: number | null;
};

export async function recovery(
  bench: Bench,
  rateBefore: number,
  blow: () => Promise<unknown>,
): Promise<Recovery> {
  const began = performance.now();
  const blown = blow();
  let longest = { ms: SILENCE_MS_MIN, endedAt: began };
  let lastMailAt = began;
  let lastCount = bench.sink.count();
  const samples: { at: number; count: number }[] = [{ at: began, count: lastCount }];
  let rateBack: number | null = null;
  while (performance.now() - began < WATCHED_MS_MAX && rateBack === null) {
    await after(SAMPLE_EVERY_MS);
    const at = performance.now();
    const count = bench.sink.count();
    if (count > lastCount) {
      if (at - lastMailAt > longest.ms) longest = { ms: at - lastMailAt, endedAt: at };
      lastMailAt = at;
      lastCount = count;
    }
    samples.push({ at, count });
    while (samples[1] && samples[1].at <= at - BACK_MS) samples.shift();
    const first = samples[0] as { at: number; count: number };
    const isWhole = at - began >= BACK_MS;
    if (isWhole && (count - first.count) / ((at - first.at) / 1000) >= BACK_PART * rateBefore)
      rateBack = (first.at - began) / 1000;
  }
  await blown;
  return { firstMail: (longest.endedAt - began) / 1000, rateBack };
}
