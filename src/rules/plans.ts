/**
 * What each plan includes, in one table. Every number may be overridden for one workspace
 * (`postrider workspace set --limit name=value`), and `limitsOf` is the only place where the two meet.
 */
import { isOneOf } from "../names.ts";
export const PLANS = ["free", "essentials", "standard", "pro"] as const;
export type Plan = (typeof PLANS)[number];

export type Limits = {
  requests_per_second: number;
  requests_per_minute: number;
  /** null: no limit by the day. */
  emails_per_day: number | null;
  emails_per_month: number;
  /** null: the cap is not fixed but grows. */
  cap_hour: number | null;
  cap_day: number | null;
};
export type LimitName = keyof Limits;
export type Overrides = Partial<Record<LimitName, number>>;

const KEYS_PAID = 50;
const GROWS = { cap_hour: null, cap_day: null };

type Terms = {
  limits: Limits;
  keys: number;
  /** Free counts requests by the minute for the whole workspace, the others for each key. */
  minuteScope: "workspace" | "key";
  restrictedKeys: boolean;
  templates: boolean;
  events: boolean;
};

export const TERMS: Record<Plan, Terms> = {
  free: {
    limits: {
      requests_per_second: 10,
      requests_per_minute: 10,
      emails_per_day: 100,
      emails_per_month: 1_000,
      ...GROWS,
    },
    keys: 1,
    minuteScope: "workspace",
    restrictedKeys: false,
    templates: false,
    events: false,
  },
  essentials: {
    limits: {
      requests_per_second: 10,
      requests_per_minute: 600,
      emails_per_day: null,
      emails_per_month: 10_000,
      ...GROWS,
    },
    keys: KEYS_PAID,
    minuteScope: "key",
    restrictedKeys: true,
    templates: true,
    events: false,
  },
  standard: {
    limits: {
      requests_per_second: 10,
      requests_per_minute: 600,
      emails_per_day: null,
      emails_per_month: 50_000,
      ...GROWS,
    },
    keys: KEYS_PAID,
    minuteScope: "key",
    restrictedKeys: true,
    templates: true,
    events: true,
  },
  pro: {
    limits: {
      requests_per_second: 10,
      requests_per_minute: 600,
      emails_per_day: null,
      emails_per_month: 250_000,
      ...GROWS,
    },
    keys: KEYS_PAID,
    minuteScope: "key",
    restrictedKeys: true,
    templates: true,
    events: true,
  },
};

/** One e-mail may have 50 recipients: under a smaller cap it could wait for ever. */
export const CAP_MIN = 50;
export const OVERRIDE_MAX = 2_000_000_000;

/** A new workspace's caps, until they grow. */
export const CAP_DAY_START = 300;
export const CAP_HOUR_START = 100;
/** The part of each cap that only transactional mail may use. */
export const RESERVED_SHARE = 0.3;

export function limitsOf(plan: Plan, overrides: Overrides): Limits {
  return { ...TERMS[plan].limits, ...overrides };
}

export function isPlan(text: string): text is Plan {
  return isOneOf(PLANS, text);
}

/** The smallest plan whose own quota holds `count`, else the largest. */
export function planThatFits(period: "day" | "month", count: number): Plan {
  for (const plan of PLANS) {
    const limit = period === "day" ? TERMS[plan].limits.emails_per_day : TERMS[plan].limits.emails_per_month;
    if (limit === null || count <= limit) return plan;
  }
  return "pro";
}

/** The smallest plan that includes a feature: what a 402 tells the caller. */
export function planWith(feature: "templates" | "events" | "restrictedKeys"): Plan {
  return PLANS.find((plan) => TERMS[plan][feature]) ?? "pro";
}
