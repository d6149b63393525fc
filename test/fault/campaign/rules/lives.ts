/**
 * Processes: none ends unless it is told to, each ends in time when it is, and each serves soon or says why
 * it cannot.
 */
import type { History, Life, Violation } from "../history.ts";
import { clockOf } from "./repeats.ts";

/** Rather more than the engine gives itself: a worker may still have to write what was delivered. */
const STOP_MS_MAX = 9_000;
const WORKER_STOP_MS_MAX = 29_000;
/** While all that it needs is there: a start waits for a store that is away. */
const CALM_START_MS_MAX = 30_000;
/** How long it takes at most until a store that is back is reached. */
const RECONNECT_MS = 3_000;

const HINDERING: ReadonlySet<History["spells"][number]["kind"]> = new Set(["frozen", "cut", "outage"]);

export function judgeLives({ lives, spells }: History): Violation[] {
  return lives.flatMap((life): Violation[] => {
    const { name, told, ended, readyAt, lastWords } = life;
    if (!ended) return [];
    const what = `${name} ended with ${ended.signal ?? `status ${ended.status}`} at ${clockOf(ended.at)}`;
    if (told === null && readyAt !== null)
      return [
        { rule: "died", subject: name, what: `${what}, and nobody had told it to`, evidence: lastWords },
      ];
    if (
      told === null &&
      !spells.some((spell) => spell.from <= ended.at && (spell.to ?? ended.at) >= life.startedAt)
    )
      return [
        {
          rule: "died",
          subject: name,
          what: `${what} while it started, with all it needs there`,
          evidence: lastWords,
        },
      ];
    if (readyAt === null && calmMs(life, ended.at, spells) > CALM_START_MS_MAX)
      return [
        { rule: "stuck", subject: name, what: `${what}, and had not served until then`, evidence: lastWords },
      ];
    if (told?.signal === "SIGTERM" && !wasFrozen(life, spells) && ended.at - told.at > stopMsMax(name))
      return [
        {
          rule: "slow end",
          subject: name,
          what: `${what}, ${ended.at - told.at} ms after it was told to`,
          evidence: lastWords,
        },
      ];
    return [];
  });
}

function stopMsMax(name: string): number {
  return name.startsWith("deliver-") ? WORKER_STOP_MS_MAX : STOP_MS_MAX;
}

/** How long of its start it had Postgres and could run. */
function calmMs({ member, startedAt }: Life, endedAt: number, spells: History["spells"]): number {
  let calm = 0;
  let at = startedAt;
  const hindering = spells
    .filter((spell) => (spell.member === null || spell.member === member) && HINDERING.has(spell.kind))
    .sort((a, b) => a.from - b.from);
  for (const { from, to } of hindering) {
    calm += Math.max(0, Math.min(from, endedAt) - at);
    at = Math.max(at, (to ?? endedAt) + RECONNECT_MS);
  }
  return calm + Math.max(0, endedAt - at);
}

function wasFrozen({ member, startedAt, readyAt, told, ended }: Life, spells: History["spells"]): boolean {
  return spells.some(
    (spell) =>
      spell.kind === "frozen" &&
      spell.member === member &&
      spell.from <= (ended?.at ?? 0) &&
      (spell.to ?? Number.POSITIVE_INFINITY) >= (readyAt === null ? startedAt : (told?.at ?? 0)),
  );
}
