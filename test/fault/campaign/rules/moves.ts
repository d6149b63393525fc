/**
 * Moves between cells: whoever was to move has moved, however often the command was ended, and all of it; and
 * callers waited for no longer than is promised, unless a store was kept from answering meanwhile.
 */
import type { Aftermath, History, Move, Spell, Violation } from "../history.ts";
import { clockOf } from "./repeats.ts";

const PAUSE_MS_MAX = 1_000;

export function judgeMoves({ moves, spells, tenants }: History, { inTwoCells }: Aftermath): Violation[] {
  const nameOf = new Map(tenants.map(({ id, name }) => [id, name]));
  return [
    ...moves
      .filter(({ endedAt }) => endedAt === null)
      .map(({ workspaceId, to, from, runs, said }) => ({
        rule: "move",
        subject: nameOf.get(workspaceId) ?? workspaceId,
        what: `its move to ${to}, begun at ${clockOf(from)}, has not ended after ${runs} runs of the command`,
        evidence: [said],
      })),
    ...moves
      .filter((move) => (move.pauseMs ?? 0) > PAUSE_MS_MAX && !spells.some((one) => meets(one, move)))
      .map(({ workspaceId, to, from, pauseMs, said }) => ({
        rule: "pause",
        subject: nameOf.get(workspaceId) ?? workspaceId,
        what: `its move to ${to}, begun at ${clockOf(from)}, paused it for ${pauseMs} ms`,
        evidence: [said],
      })),
    ...inTwoCells.map((id) => ({
      rule: "in two cells",
      subject: id,
      what: "it has a row in either cell, and its workspace is in one",
      evidence: [],
    })),
  ];
}

/** What happens to a single member is not felt by the command. */
function meets({ member, from, to }: Spell, move: Move): boolean {
  return member === null && from < (move.endedAt ?? Infinity) && (to ?? Infinity) > move.from;
}
