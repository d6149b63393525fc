/**
 * Spans and moments as people write them in a document: `2h`, `7d`; an instant with an offset, a local time
 * with its time zone, or a time of day that comes round again.
 *
 * Promises: a local time that the clocks skip is the moment after the gap, one that they repeat is the first
 * of the two; no moment is outside of the years that the record keeps.
 */
import { DAY_MS } from "../clock.ts";

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const SPAN = /^(\d{1,9})(s|m|h|d|w)$/;
const TIME_OF_DAY = /^([01]\d|2[0-3]):([0-5]\d)$/;
const LOCAL = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?$/;
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** An offset can lead out of the years that four digits write. */
const FIRST_MS = Date.parse("0001-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");
/**
 * Where the offset is a zone's own, whole years are left out: Date.UTC takes those below 100 for the
 * twentieth century.
 */
const LOCAL_FIRST_MS = Date.parse("0101-01-01T00:00:00Z");
const LOCAL_LAST_MS = Date.parse("9998-12-31T23:59:59Z");

/** Milliseconds, or null when the text is no span. */
export function parseSpan(text: string): number | null {
  const match = SPAN.exec(text);
  return match ? Number(match[1]) * (UNIT_MS[match[2] as string] as number) : null;
}

export type MomentKind = "instant" | "local time" | "time of day";

/** What kind of moment the text names; null when it names none. */
export function momentKind(text: string): MomentKind | null {
  if (TIME_OF_DAY.test(text)) return "time of day";
  const day = (LOCAL.exec(text) ?? INSTANT.exec(text))?.[1];
  if (day === undefined || !isDay(day)) return null;
  if (LOCAL.test(text)) return isWithin(localMs(text), LOCAL_FIRST_MS, LOCAL_LAST_MS) ? "local time" : null;
  return isWithin(instantMs(text), FIRST_MS, LAST_MS) ? "instant" : null;
}

export function isTimeZone(name: string): boolean {
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

/** The next such moment: for a time of day today's or tomorrow's, otherwise the one it names, past or not. */
export function momentAfter(text: string, timeZone: string, now: number): number {
  switch (momentKind(text)) {
    case "time of day":
      return nextTimeOfDay(text, timeZone, now);
    case "local time":
      return utcOf(localMs(text), timeZone);
    case "instant":
      return instantMs(text);
    case null:
      throw new Error(`${text} is no moment`);
  }
}

function nextTimeOfDay(text: string, timeZone: string, now: number): number {
  const [hours, minutes] = text.split(":").map(Number) as [number, number];
  const ofDay = (hours * 60 + minutes) * 60_000;
  const localDay = Math.floor((now + offsetAt(now, timeZone)) / DAY_MS);
  const today = utcOf(localDay * DAY_MS + ofDay, timeZone);
  return today >= now ? today : utcOf((localDay + 1) * DAY_MS + ofDay, timeZone);
}

/** The instant at which the clocks of a zone show a local time, which is given as if it were UTC. */
function utcOf(local: number, timeZone: string): number {
  const before = offsetAt(local - DAY_MS, timeZone);
  const after = offsetAt(local + DAY_MS, timeZone);
  const shown = [local - before, local - after].filter((at) => at + offsetAt(at, timeZone) === local);
  return shown.length > 0 ? Math.min(...shown) : local - before;
}

/** What the clocks of a zone are ahead of UTC at an instant. */
function offsetAt(at: number, timeZone: string): number {
  const second = Math.floor(at / 1_000) * 1_000;
  const parts = Object.fromEntries(
    formatOf(timeZone)
      .formatToParts(second)
      .map(({ type, value }) => [type, Number(value)]),
  ) as Record<"year" | "month" | "day" | "hour" | "minute" | "second", number>;
  const { year, month, day, hour, minute } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, parts.second) - second;
}

/** All zones that have a name, some 600; Node 22 also takes offsets, of which there are thousands. */
const FORMATS_MAX = 1_000;
/** Of 32 KB each, so not one for each way to spell a zone. The one used last comes last. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(name: string): Intl.DateTimeFormat {
  const timeZone = name.toLowerCase();
  let format = formats.get(timeZone);
  if (format) formats.delete(timeZone);
  else {
    const number = "2-digit";
    const fields = {
      year: "numeric",
      month: number,
      day: number,
      hour: number,
      minute: number,
      second: number,
    };
    format = new Intl.DateTimeFormat("en-US", { ...(fields as object), timeZone, hourCycle: "h23" });
  }
  formats.set(timeZone, format);
  if (formats.size > FORMATS_MAX) formats.delete(formats.keys().next().value as string);
  return format;
}

function localMs(text: string): number {
  const match = LOCAL.exec(text);
  return match ? Date.parse(`${match[1]}T${match[2]}${match[3] ?? ":00"}Z`) : Number.NaN;
}

function instantMs(text: string): number {
  return Date.parse(text.replace(" ", "T").toUpperCase());
}

/** NaN is within nothing. */
function isWithin(ms: number, first: number, last: number): boolean {
  return ms >= first && ms <= last;
}

/** Date accepts 30 February and moves it to March. */
function isDay(day: string): boolean {
  const at = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(day);
}
