/** The time of the server: the clock of this device may be hours wrong. */

/** Answers tell whole seconds, and take some time. */
const NOTICED_MS = 5_000;
let aheadMs = 0;

/** `date`: of an answer that was just made. */
export function heardTime(date: string | null): void {
  const differs = Date.now() - Date.parse(date ?? "");
  if (!Number.isNaN(differs)) aheadMs = Math.abs(differs) < NOTICED_MS ? 0 : differs;
}

export function serverNow(): number {
  return Date.now() - aheadMs;
}

/** Today has just begun and would look like a collapse in a chart; it shows where there is little else. */
export function fullDays<T extends { day: string }>(
  days: readonly T[],
  isUsed: (day: T) => boolean,
): readonly T[] {
  const today = new Date(serverNow()).toISOString().slice(0, 10);
  const before = days.filter(({ day }) => day !== today);
  return before.filter(isUsed).length > 1 ? before : days;
}
