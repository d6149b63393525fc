/** Numbers, times and states as people read them. */
const number = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
/** With the zone, since what the server says and receivers write is mostly in another one. */
const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const dayNames = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
/** How many seconds it has, and how many of it are the next unit. */
const UNITS: [Intl.RelativeTimeFormatUnit, number, number][] = [
  ["second", 1, 60],
  ["minute", 60, 60],
  ["hour", 3_600, 24],
  ["day", 86_400, Infinity],
];

export function count(value: number): string {
  return number.format(value);
}

/** "27 Nov", of a day in UTC. */
export function dayName(at: Date): string {
  return dayNames.format(at);
}

/** "1 e-mail waits", "3 e-mails wait". */
export function counted(value: number, one: string, several: string): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

export function short(value: number): string {
  return compact.format(value);
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return "0%";
  const share = (100 * part) / whole;
  return `${share > 0 && share < 10 ? share.toFixed(share < 1 ? 2 : 1) : Math.round(share)}%`;
}

/** What is no time is shown as it is: it may be somebody else's word. */
export function fullTime(at: string | number): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? String(at) : absolute.format(time);
}

/** A sentence of the server, with its times as people here read them: `…T06:30:00Z`, `… 06:30:00 UTC`. */
export function withFullTimes(sentence: string): string {
  return sentence.replaceAll(/(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:Z| UTC)/g, (_, day, time) =>
    fullTime(`${day}T${time}Z`),
  );
}

/** What begins now and takes five days ends "in 5d", and not in 4. */
export function ago(at: string | number, now: number): string {
  const seconds = Math.round((new Date(at).getTime() - now) / 1000);
  if (Math.abs(seconds) < 5) return "now";
  const whole = seconds < 0 ? Math.trunc : Math.round;
  for (const [unit, length, most] of UNITS) {
    const span = whole(seconds / length);
    if (Math.abs(span) < most) return relative.format(span, unit);
  }
  return String(at); // no time
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KB`;
  return `${(value / 1024 / 1024).toFixed(1)} MB`;
}

/** `cap_hour` as "cap hour", `email.delivery_delayed` as "delivery delayed". */
export function plain(name: string): string {
  return (name.includes(".") ? name.slice(name.indexOf(".") + 1) : name).replaceAll("_", " ");
}

/** `api_key_id` as "API key id". */
export function fieldName(name: string): string {
  return capital(plain(name)).replace(/\b(?:api|ip)\b/gi, (word) => word.toUpperCase());
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export type Tone = "good" | "warn" | "bad" | "calm" | "quiet";
const TONES: Record<string, Tone> = {
  ...{
    delivered: "good",
    verified: "good",
    enabled: "good",
    subscribed: "good",
    success: "good",
    active: "good",
  },
  ...{
    completed: "good",
    healthy: "good",
    accepted: "calm",
    sent: "calm",
    scheduled: "calm",
    running: "calm",
  },
  ...{ waiting: "warn", deferred: "warn", pending: "warn", delivery_delayed: "warn", attempting: "warn" },
  ...{ partially_verified: "warn", temporary_failure: "warn", not_started: "quiet", suspended: "warn" },
  ...{ bounced: "bad", failed: "bad", complained: "bad", bounce: "bad", complaint: "bad", revoked: "quiet" },
};

export function toneOf(state: string): Tone {
  return TONES[state.slice(state.indexOf(".") + 1)] ?? "quiet";
}
