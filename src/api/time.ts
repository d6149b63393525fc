/**
 * Times as callers write them: RFC 3339 with an offset, or `in 5 minutes`. Out, always UTC with milliseconds.
 */

/** Date takes an hour of 24, RFC 3339 does not. */
const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt ](?!24)\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;
const RELATIVE = /^in (\d{1,9}|an?) ?(second|sec|minute|min|hour|day)s?$/i;
const UNIT_MS: Record<string, number> = {
  second: 1_000,
  sec: 1_000,
  minute: 60_000,
  min: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
};

/** An offset can lead out of the years that four digits write, and the record keeps no others. */
const FIRST_MS = Date.parse("0001-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** Milliseconds, or null when the text is no time. */
export function parseTime(text: string, now: number): number | null {
  const trimmed = text.trim();
  const relative = RELATIVE.exec(trimmed);
  if (relative) {
    const count = /^an?$/i.test(relative[1] as string) ? 1 : Number(relative[1]);
    return now + count * (UNIT_MS[(relative[2] as string).toLowerCase()] as number);
  }
  return parseInstant(trimmed);
}

/** RFC 3339 only. */
export function parseInstant(text: string): number | null {
  const trimmed = text.trim();
  if (!RFC3339.test(trimmed)) return null;
  const time = Date.parse(trimmed.replace(" ", "T").toUpperCase());
  // NaN is in no range
  if (!(time >= FIRST_MS && time <= LAST_MS)) return null;
  // Date accepts 30 February and moves it to March
  const day = Number(trimmed.slice(8, 10));
  const local = new Date(`${trimmed.slice(0, 10)}T00:00:00Z`);
  return local.getUTCDate() === day ? time : null;
}

export function iso(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}
