/** Overview and usage: what happened, what quota and caps leave, and what needs somebody. */
import { DAY_MS } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { troubledEndpoints, unverifiedDomains } from "../record/workspaces/attention.ts";
import { findCapacity } from "../record/workspaces/caps.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { type HeldMail, mailNotGone } from "../record/workspaces/suspension.ts";
import { countsSince, type HappenedCounts } from "../record/workspaces/usage.ts";
import { advance, sum } from "../rules/ledger.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const DAYS_DEFAULT = 30;
const DAYS_MAX = 400;
const MONTHS_SHOWN = 13;
/** So many e-mails that have not gone are counted, and no more. */
const COUNTED_MAX = 100_000;
const NAMED_MAX = 5;
const NEARLY = 0.9;

export type FigureParts = { sql: Sql; lists(): Sql };

type Attention = {
  kind: string;
  severity: "danger" | "warning";
  text: string;
  remedy: string;
  link: string;
};

export function figureCalls(parts: FigureParts): ConsoleCall[] {
  const shared = { method: "GET", roles: EVERYONE } as const;
  return [
    workspaceCall({ ...shared, path: "overview", handle: (visit) => overview(parts, visit) }),
    workspaceCall({ ...shared, path: "usage", handle: (visit) => usage(parts, visit) }),
  ];
}

async function overview({ sql, lists }: FigureParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, query, now } = visit;
  const days = Number(query.get("days") ?? DAYS_DEFAULT);
  if (!Number.isInteger(days) || days < 1 || days > DAYS_MAX)
    throw deny("invalid_parameter", `\`days\` must be a whole number from 1 to ${DAYS_MAX}.`);
  const today = Math.floor(now / DAY_MS);
  const [use, counts, held] = await Promise.all([
    useOf(sql, workspace.id, now),
    countsSince(lists(), workspace.id, today - days + 1, "day"),
    mailNotGone(lists(), workspace.id, COUNTED_MAX),
  ]);
  const { scheduled, waiting, deferred, inLine, onItsWay } = held;
  return {
    status: 200,
    body: {
      object: "overview",
      days: everyDay(counts, today, days),
      caps: use.caps,
      quota: use.quota,
      queue: { scheduled, waiting, deferred, queued: inLine, in_flight: onItsWay },
      attention: await attentionOf(sql, visit, use, held),
    },
  };
}

async function usage({ sql, lists }: FigureParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, now } = visit;
  const date = new Date(now);
  const first = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - MONTHS_SHOWN + 1) / DAY_MS;
  const [use, counts] = await Promise.all([
    useOf(sql, workspace.id, now),
    countsSince(lists(), workspace.id, first, "month"),
  ]);
  const months = counts.map(({ span, attempted, delivered, hard_bounced, complained }) => ({
    ...{ month: span, attempted, delivered, hard_bounced, complained },
  }));
  return { status: 200, body: { object: "usage", plan: workspace.plan, ...use, months } };
}

type Use = Awaited<ReturnType<typeof useOf>>;

async function useOf(sql: Sql, workspaceId: string, now: number) {
  const account = await readAccount(sql, workspaceId);
  if (!account) throw deny("not_found", "The workspace is gone.");
  const { ledger, allowance } = account;
  advance(ledger, now);
  const date = new Date(now);
  const monthEnds = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1));
  const dayEnds = new Date((Math.floor(now / DAY_MS) + 1) * DAY_MS);
  return {
    quota: {
      day: { used: ledger.dayUsed, limit: allowance.dayLimit, resets_at: dayEnds.toISOString() },
      month: { used: ledger.monthUsed, limit: allowance.monthLimit, resets_at: monthEnds.toISOString() },
    },
    caps: {
      hour: { used: sum(ledger.hourUsed), limit: allowance.capHour },
      day: { used: ledger.capDayUsed, limit: allowance.capDay },
      waiting: ledger.waiting + ledger.waitingBulk,
    },
  };
}

/** Days on which nothing happened, too: a chart has no gaps. */
function everyDay(counts: readonly HappenedCounts[], today: number, days: number) {
  const known = new Map(counts.map(({ span, ...rest }) => [span, rest]));
  return Array.from({ length: days }, (_, n) => {
    const day = new Date((today - days + 1 + n) * DAY_MS).toISOString().slice(0, 10);
    return { day, ...(known.get(day) ?? NOTHING) };
  });
}

const NOTHING: Omit<HappenedCounts, "span"> = {
  ...{ accepted: 0, attempted: 0, delivered: 0, deferred: 0, hard_bounced: 0 },
  ...{ soft_bounced: 0, blocked: 0, complained: 0, failed: 0 },
};

async function attentionOf(
  sql: Sql,
  { workspace }: VisitOf<KnownWorkspace>,
  { quota, caps }: Use,
  held: HeldMail,
): Promise<Attention[]> {
  const [domains, webhooks, capacity] = await Promise.all([
    unverifiedDomains(sql, workspace.id, NAMED_MAX),
    troubledEndpoints(sql, workspace.id, NAMED_MAX),
    findCapacity(sql, workspace.id),
  ]);
  const level = (capacity?.state as { level?: string } | null)?.level ?? "normal";
  return [
    ...(workspace.isSuspended ? [SUSPENDED] : []),
    ...(level === "normal" || level === "probing" ? [] : [heldBack(level)]),
    ...(caps.waiting > 0 ? [waiting(caps.waiting)] : []),
    ...(quota.month.used >= quota.month.limit * NEARLY ? [nearlyUsed(quota.month)] : []),
    ...(held.deferred > 0 ? [deferred(held.deferred)] : []),
    ...domains.map(unverified),
    ...webhooks.map(troubled),
  ];
}

const SUSPENDED = danger(
  "suspended",
  "This workspace is suspended: nothing is sent.",
  "Ask the operator to resume it.",
  "/console/usage",
);

function heldBack(level: string): Attention {
  return danger(
    "caps",
    `The sending caps are ${level}: bounces or complaints are too high.`,
    "See which evidence decided, and clean the list.",
    "/console/caps",
  );
}

function waiting(emails: number): Attention {
  return warning(
    "waiting",
    emails === 1 ? "1 e-mail waits for the sending caps." : `${emails} e-mails wait for the sending caps.`,
    "No need to act: see when they go.",
    "/console/caps",
  );
}

function nearlyUsed({ used, limit }: Use["quota"]["month"]): Attention {
  return warning(
    "quota",
    `${used} of ${limit} e-mails of this month are used.`,
    "A higher plan allows more.",
    "/console/usage",
  );
}

function deferred(emails: number): Attention {
  return warning(
    "deferred",
    emails === 1
      ? "1 e-mail is deferred by its receiver."
      : `${emails} e-mails are deferred by their receivers.`,
    "See by whom, and what they said.",
    "/console/queue",
  );
}

function unverified(domain: string): Attention {
  return warning(
    "domain",
    `The domain ${domain} is not verified.`,
    "Publish its records in DNS.",
    "/console/domains",
  );
}

function troubled({ endpoint, isDisabled }: { endpoint: string; isDisabled: boolean }): Attention {
  return warning(
    "webhook",
    isDisabled ? `The webhook ${endpoint} is disabled.` : `The webhook ${endpoint} accepts no events.`,
    "See what it answered, and replay what it missed.",
    "/console/webhooks",
  );
}

function danger(kind: string, text: string, remedy: string, link: string): Attention {
  return { kind, severity: "danger", text, remedy, link };
}

function warning(kind: string, text: string, remedy: string, link: string): Attention {
  return { kind, severity: "warning", text, remedy, link };
}
