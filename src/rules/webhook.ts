/**
 * What endpoints of webhooks may ask for, when a refused event is sent again, and when an endpoint is left in
 * peace.
 */

export const EVENT_TYPES = [
  "email.accepted",
  "email.scheduled",
  "email.sent",
  "email.delivered",
  "email.delivery_delayed",
  "email.bounced",
  "email.complained",
  "email.failed",
  "email.suppressed",
  "email.canceled",
  "contact.created",
  "contact.updated",
  "contact.deleted",
  "domain.created",
  "domain.updated",
  "domain.deleted",
  "cap.changed",
] as const;
/** Sent to one endpoint because its owner asks for it. */
export const TEST_TYPE = "webhook.test";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The waiting times after the first nine tries: over three days, as Standard Webhooks advises. */
const WAITS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];
export const TRIES_MAX = WAITS_MS.length + 1;
/** Added to each wait, at random: endpoints that failed together do not come back together. */
const JITTER = 0.1;
/** What a receiver may ask for in Retry-After. */
const ASKED_MS_MAX = DAY_MS;

/** After so many failures in a row nothing new is sent to an endpoint but a try now and then. */
export const FAILURES_MAX = 10;
const PAUSE_MS_MIN = 5 * SECOND_MS;
const PAUSE_MS_MAX = 5 * MINUTE_MS;
/** As long as a receiver may hold back what is new to it by Retry-After. */
const HELD_BACK_MS_MAX = HOUR_MS;

/** Its owner is told of an endpoint that takes nothing for so long, and later it is disabled. */
export const TELL_AFTER_MS = DAY_MS;
export const DISABLE_AFTER_MS = 5 * DAY_MS;
/** From the delivery of the e-mail that tells of it. */
export const NOTICE_MS = DAY_MS;

/** How long until an event is tried again that was tried so often; null: it has failed for good. */
export function waitAfter(tries: number, askedMs: number | null, random: number): number | null {
  const wait = WAITS_MS[tries - 1];
  if (wait === undefined) return null;
  return Math.round(Math.max(wait * (1 + JITTER * random), Math.min(askedMs ?? 0, ASKED_MS_MAX)));
}

/** How long an endpoint is left in peace after so many failures in a row; null: it is not. */
export function pauseAfter(failures: number, askedMs: number | null, random: number): number | null {
  const asked = askedMs === null ? null : Math.min(askedMs, HELD_BACK_MS_MAX);
  if (failures < FAILURES_MAX) return asked;
  const grown = PAUSE_MS_MIN * 2 ** Math.min(failures - FAILURES_MAX, 10);
  return Math.round(Math.max(Math.min(grown, PAUSE_MS_MAX) * (1 + JITTER * random), asked ?? 0));
}

/** Retry-After in ms: seconds or a date (RFC 9110, 10.2.3); null: neither. */
export function retryAfterMs(text: string | undefined, now: number): number | null {
  if (text === undefined) return null;
  const trimmed = text.trim();
  if (/^\d{1,9}$/.test(trimmed)) return Number(trimmed) * SECOND_MS;
  const at = /^[A-Za-z]{3}, /.test(trimmed) ? Date.parse(trimmed) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
