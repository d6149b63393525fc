/**
 * MTA-STS (RFC 8461): what the TXT record and the policy file of a receiver's domain say, and which MX hosts
 * a policy allows. Pure.
 */
export type StsMode = "enforce" | "testing" | "none";

export type StsPolicy = {
  /** Of the TXT record under which it was found. */
  readonly id: string;
  readonly mode: StsMode;
  /** Host names, or `*.` and a domain. Empty only with the mode `none`. */
  readonly mx: readonly string[];
  readonly maxAgeSeconds: number;
};

/** RFC 8461, 3.2. */
const MAX_AGE_SECONDS_MAX = 31_557_600;
const RECORD_CHARS_MAX = 1_000;
const LINES_MAX = 1_000;
const PATTERNS_MAX = 200;
const KEY = /^[A-Za-z0-9_.-]{1,32}$/;
const PATTERN = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9-]{1,63}$/;

/** The id that the TXT records of `_mta-sts.DOMAIN` name; null: there is no policy. */
export function stsIdIn(records: readonly string[]): string | null {
  const ours = records.filter((text) => /^v=STSv1(?:[;\s]|$)/.test(text));
  if (ours.length !== 1) return null;
  for (const field of (ours[0] as string).slice(0, RECORD_CHARS_MAX).split(";")) {
    const id = /^\s*id\s*=\s*([A-Za-z0-9]{1,32})\s*$/.exec(field)?.[1];
    if (id !== undefined) return id;
  }
  return null;
}

/** A policy file, or why it is none. */
export function readPolicy(text: string, id: string): StsPolicy | string {
  const first = new Map<string, string>();
  const mx: string[] = [];
  const lines = text.split(/\r?\n/);
  if (lines.length > LINES_MAX) return `it has more than ${LINES_MAX} lines`;
  for (const line of lines) {
    if (line.trim() === "") continue;
    // no expression over the whole line: whoever writes it could make the search take seconds
    const colon = line.indexOf(":");
    const key = line.slice(0, Math.max(0, colon)).trimEnd();
    const value = line.slice(colon + 1).trim();
    if (!KEY.test(key)) return `the line ${JSON.stringify(line.slice(0, 80))} is no field`;
    if (key === "mx") mx.push(value.toLowerCase().replace(/\.$/, ""));
    else if (!first.has(key)) first.set(key, value);
  }
  if (first.get("version") !== "STSv1") return "its version is not STSv1";
  const mode = first.get("mode");
  if (mode !== "enforce" && mode !== "testing" && mode !== "none")
    return "its mode is not enforce, testing or none";
  const maxAge = first.get("max_age") ?? "";
  if (!/^\d{1,10}$/.test(maxAge)) return "its max_age is not a number of seconds";
  if (mx.length > PATTERNS_MAX || mx.some((pattern) => pattern.length > 255 || !PATTERN.test(pattern)))
    return "one of its mx fields is no host name";
  if (mx.length === 0 && mode !== "none") return "it names no mx";
  return { id, mode, mx, maxAgeSeconds: Math.min(Number(maxAge), MAX_AGE_SECONDS_MAX) };
}

/** `host` in lower case. A wildcard stands for one label on the left. */
export function allows({ mx }: Pick<StsPolicy, "mx">, host: string): boolean {
  const parent = host.slice(host.indexOf(".") + 1);
  return mx.some((pattern) =>
    pattern.startsWith("*.") ? pattern.slice(2) === parent && parent !== host : pattern === host,
  );
}

/** As it is shown in reports (RFC 8460, 4.4). */
export function linesOf({ mode, mx, maxAgeSeconds }: StsPolicy): string[] {
  return ["version: STSv1", `mode: ${mode}`, ...mx.map((host) => `mx: ${host}`), `max_age: ${maxAgeSeconds}`];
}
