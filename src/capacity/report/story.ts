/** What happened to one simulated workspace, in sentences: each step with the counts that it was taken on. */
import { percent } from "../policy/evidence.ts";
import { BIN_MINUTES, type Run, type SimulatedCapChange } from "../simulate.ts";
import { BINS_PER_DAY } from "../workload.ts";
import { sayCount, withCommas } from "./words.ts";

const STEPS_TOLD_MAX = 60;
const BURSTS_TOLD_MAX = 20;
const DAMAGED_BELOW = 0.7;

export function tellRun(run: Run): string[] {
  const steps = run.changes.slice(0, STEPS_TOLD_MAX).map(tellStep);
  const more = run.changes.length - steps.length;
  return [
    `The workspace of seed ${run.seed}:`,
    ...steps,
    ...(more > 0 ? [`  and ${more} more changes`] : []),
    ...tellReceivers(run),
    ...run.bursts
      .slice(0, BURSTS_TOLD_MAX)
      .map(
        ({ day, source, measure, events, counted }) =>
          `  suspicious: ${events} ${measure}s of one source (${source}) on ${day}, of which ${counted} count`,
      ),
  ];
}

function tellStep({ bin, level, capDay, capHour, reason }: SimulatedCapChange): string {
  return `  ${sayBin(bin)}: ${level}, ${sayCount(capDay)} a day and ${sayCount(capHour)} an hour. ${withCommas(reason)}`;
}

/** When receivers began to hold its mail back, and how bad it became. */
function tellReceivers({ days, listedDays }: Run): string[] {
  const throttled = days.findIndex((day) => day.throttled > 0);
  const damaged = days.findIndex(({ reputation }) => reputation < DAMAGED_BELOW);
  const least = Math.min(...days.map(({ reputation }) => reputation));
  return [
    ...(throttled >= 0
      ? [
          `  receivers throttle from day ${throttled} on, ${sayCount(days.reduce((sum, day) => sum + day.throttled, 0))} recipients in all`,
        ]
      : []),
    ...(damaged >= 0
      ? [
          `  from day ${damaged} on mail goes to spam folders; the reputation falls to ${percent(least)} of the full one`,
        ]
      : []),
    ...(listedDays > 0 ? [`  the address is on a blocklist for ${listedDays} days`] : []),
  ];
}

export function sayBin(bin: number): string {
  const minutes = (bin % BINS_PER_DAY) * BIN_MINUTES;
  const clock = `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
  return `day ${Math.floor(bin / BINS_PER_DAY)}, ${clock}`;
}
