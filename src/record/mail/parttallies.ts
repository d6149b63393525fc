/**
 * Counts of mail by stream, provider and source address, beside those of the workspace and in the same
 * transaction. Only mail of another stream than `transactional`, or to a known provider, has any.
 */
import { readAttempt } from "../../rules/connection.ts";
import type { HistoryEntry } from "../../rules/email.ts";
import { type MailStream, nameOfStream, TRANSACTIONAL } from "../../rules/stream.ts";
import { plainArray } from "../db/arrays.ts";
import type { Statement, Tx } from "../db/connect.ts";

/** `source` is an IP address of ours; `''`: not known. */
export type MailPart = { readonly stream: string; readonly provider: string; readonly source: string };

export type PartCounts = {
  attempted: number;
  delivered: number;
  hardBounced: number;
  lateBounced: number;
  blocked: number;
  complained: number;
  fblDelivered: number;
};

export type PartTally = PartCounts & MailPart & { workspaceId: string; day: number };

export function isCounted({ stream, provider }: MailPart): boolean {
  return stream !== TRANSACTIONAL || provider !== "";
}

/** The attempt at this recipient that ended so; null: it did not. */
export function attemptThat(
  type: "delivered" | "bounced",
  history: readonly HistoryEntry[] | null,
  address: string | null,
): string | null {
  const entry = history?.findLast(
    (one) => one.recipient === address && one.type === type && one.attempt !== undefined,
  );
  return entry?.attempt ?? null;
}

/** As which part an e-mail was counted that left in this attempt. */
export function partOfAttempt(email: MailStream, attempt: string | null): MailPart {
  const { provider, from } = readAttempt(attempt ?? "");
  return { stream: nameOfStream(email), provider: provider ?? "", source: from ?? "" };
}

/** Adds up what is counted of the same part on the same day. */
export class PartTallies {
  readonly #tallies = new Map<string, PartTally>();

  add(workspaceId: string, day: number, part: MailPart, counts: Partial<PartCounts>): void {
    const { stream, provider, source } = part;
    const name = `${workspaceId} ${day} ${stream} ${provider} ${source}`;
    let tally = this.#tallies.get(name);
    if (!tally) {
      tally = { workspaceId, day, stream, provider, source, ...NO_COUNTS };
      this.#tallies.set(name, tally);
    }
    for (const count of COUNTED) tally[count] += counts[count] ?? 0;
  }

  /** In the order of their keys. */
  get all(): PartTally[] {
    const keyOf = ({ workspaceId, day, stream, provider, source }: PartTally) => [
      ...[workspaceId, String(day).padStart(8, "0"), stream, provider, source],
    ];
    return [...this.#tallies.values()]
      .map((tally) => ({ tally, key: keyOf(tally).join(" ") }))
      .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
      .map(({ tally }) => tally);
  }
}

const COUNTED = [
  "attempted",
  "delivered",
  "hardBounced",
  "lateBounced",
  "blocked",
  "complained",
  "fblDelivered",
] as const satisfies (keyof PartCounts)[];
const NO_COUNTS: PartCounts = {
  attempted: 0,
  delivered: 0,
  hardBounced: 0,
  lateBounced: 0,
  blocked: 0,
  complained: 0,
  fblDelivered: 0,
};

export function addPartTallies(tx: Tx, worker: string, tallies: readonly PartTally[]): Statement {
  const of = (pick: (tally: PartTally) => string | number): string => plainArray(tallies.map(pick));
  const named = (pick: (tally: PartTally) => string): string => of((tally) => `"${pick(tally)}"`);
  return tx`
    insert into part_tally as t (workspace_id, day, worker, stream, provider, source, attempted, delivered,
      hard_bounced,
                                 late_bounced, blocked, complained, fbl_delivered)
    select workspace_id, day, ${worker}, stream, provider, source, attempted, delivered, hard_bounced,
      late_bounced,
           blocked, complained, fbl_delivered
    from unnest(${of((t) => t.workspaceId)}::uuid[], ${of((t) => t.day)}::int[],
      ${named((t) => t.stream)}::text[],
      ${named((t) => t.provider)}::text[], ${named((t) => t.source)}::text[],
      ${of((t) => t.attempted)}::int[],
      ${of((t) => t.delivered)}::int[], ${of((t) => t.hardBounced)}::int[],
      ${of((t) => t.lateBounced)}::int[],
      ${of((t) => t.blocked)}::int[], ${of((t) => t.complained)}::int[], ${of((t) => t.fblDelivered)}::int[])
      as n(workspace_id, day, stream, provider, source, attempted, delivered, hard_bounced, late_bounced,
        blocked,
           complained, fbl_delivered)
    on conflict (workspace_id, day, worker, stream, provider, source) do update set
      attempted = t.attempted + excluded.attempted, delivered = t.delivered + excluded.delivered,
      hard_bounced = t.hard_bounced + excluded.hard_bounced,
      late_bounced = t.late_bounced + excluded.late_bounced,
      blocked = t.blocked + excluded.blocked, complained = t.complained + excluded.complained,
      fbl_delivered = t.fbl_delivered + excluded.fbl_delivered`;
}
