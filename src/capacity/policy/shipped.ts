/** The policy that we ship: in force while nobody has applied another. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CAP_DAY_START, CAP_HOUR_START } from "../../rules/plans.ts";
import type { Policy } from "./file.ts";

const VERSION_CHARS = 8;

export const DEFAULT_POLICY: Policy = {
  start: { day: CAP_DAY_START, hour: CAP_HOUR_START },
  hour_share: 0.2,
  growth: 1.4,
  growth_unknown: 1.2,
  growth_after_shrink: 1.2,
  growth_after_shrink_days: 30,
  utilisation: 0.6,
  delivered_min: 100,
  window_days: 7,
  healthy: { bounce: 0.02, complaint: 0.001, blocked: 0.1, soft: 0.1, throttled: 0.2, delivered: 0.6 },
  prior: { bounce: { rate: 0.01, weight: 100 }, complaint: { rate: 0.0005, weight: 2000 } },
  evidence: {
    errors_per_month: 0.005,
    errors_after_step: 0.05,
    confidence: 0.99,
    attempted_min: 50,
    bounces_min: 5,
    complaints_min: 4,
    heard_share: 0.02,
    source_events: 3,
  },
  freeze: { bounce: 0.05, complaint: 0.001 },
  pause: { bounce: 0.06, complaint: 0.003, shrinks: 2, within_days: 7 },
  shrink: { bounce: 0.08, complaint: 0.005, factor: 0.5 },
  recovery: { clean_days: 3, clean_days_max: 24, below: 0.8, probe: 50, probe_growth: 3 },
  idle: { after_days: 30, every_days: 7, factor: 0.5 },
  feedback_domains: [
    ...[
      "yahoo.com",
      "ymail.com",
      "rocketmail.com",
      "aol.com",
      "yahoo.co.uk",
      "yahoo.fr",
      "yahoo.de",
      "yahoo.co.jp",
    ],
    ...["hotmail.com", "outlook.com", "live.com", "msn.com", "hotmail.co.uk", "hotmail.fr", "outlook.de"],
    ...["comcast.net", "cox.net", "fastmail.com", "mail.ru", "inbox.ru", "bk.ru", "list.ru", "yandex.ru"],
    ...["libero.it", "virgilio.it", "laposte.net", "sfr.fr", "seznam.cz", "zoho.com", "rackspace.com"],
  ],
  ceiling: { free: 300, essentials: 5_000, standard: 50_000, pro: 500_000 },
};

/**
 * The shipped policy was beside package.json before it was in caps/: a setting that names it there still
 * finds it.
 */
export function pathOfPolicy(path: string): string {
  const moved = join(dirname(path), "caps", basename(path));
  return !existsSync(path) && basename(path) === "policy.json" && existsSync(moved) ? moved : path;
}

/**
 * Names what a policy decides: two files that decide alike have the same version, whatever they say about
 * themselves.
 */
export function policyVersion(policy: Policy): string {
  const { $schema: _schema, description: _description, ...decides } = policy;
  return createHash("sha256").update(sorted(decides)).digest("hex").slice(0, VERSION_CHARS);
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
