/**
 * Deliveries that happened more than once, and why each was allowed, or was not.
 *
 * A mail may be delivered again only when its final dot had reached the sink and the answer never reached the
 * worker, or had not been noted when the worker lost its life or its bag:
 *
 *   answer lost   the sink never answered the dot, or the connection broke with the answer on its way
 *   killed        the worker was killed before it can have noted the answer
 *   stopped       the worker was told to end while it could not reach Postgres, and ended with the note in
 *                 its hands
 *   frozen, cut   the worker stood still, or it alone could not reach Postgres, for so long that others took
 *                 its bags
 *   in hand       the second worker stood still with this mail half sent, and finished it when it woke up; of
 *                 each connection the mail that was leaving, and one chained to it
 *
 * A worker that is told to end, a Postgres that nobody can reach and a second bag explain nothing. A worker
 * that sends again what it has had an answer for is never explained.
 */
import type { Copy, Life, Spell, Violation } from "../history.ts";

/** How long a healthy worker may take from an answer to its note. */
const NOTE_MS_MAX = 3_000;
/**
 * How long after a spell notes may still be on their way: connections are made anew, and the groups written
 * again.
 */
const RECOVERY_MS = 8_000;
/** How long it takes at most until a Postgres that is back is reached. */
const RECONNECT_MS = 3_000;
/** Leases are renewed every 3 s and last 20 s: whoever stands still for less keeps its bags. */
const LEASE_LOST_MS = 14_000;
/** A connection that breaks so soon after the answer may have taken the answer with it. */
const ANSWER_IN_FLIGHT_MS = 250;
/** What was begun before a freeze comes out at once when it ends: so many mails of each connection. */
const WAKING_MS = 1_000;
const HALF_SENT_MAX = 2;

export type Repeat = {
  emailId: string;
  recipient: string;
  first: Copy;
  again: Copy;
  /** null: nothing permits it. */
  cause: string | null;
};

export function findRepeats(
  copies: readonly Copy[],
  lives: readonly Life[],
  spells: readonly Spell[],
): Repeat[] {
  const known = new Map(lives.map((life) => [life.name, life]));
  const halfSent = new HalfSent();
  return [...pairsOf(copies)].map(({ emailId, recipient, first, again }) => {
    const cause = causeOf(first, again, known, spells) ?? halfSent.causeOf(first, again, known, spells);
    return { emailId, recipient, first, again, cause };
  });
}

/** What workers had in hand when they stood still. */
class HalfSent {
  readonly #mailsOf = new Map<string, Set<string>>();

  causeOf(
    first: Copy,
    again: Copy,
    lives: ReadonlyMap<string, Life>,
    spells: readonly Spell[],
  ): string | null {
    const life = lives.get(again.process);
    if (!life || again.process === first.process) return null;
    const spell = spellsOf(life, spells).find((one) => isHalfSent(one, again));
    if (!spell) return null;
    const place = `${again.connection} ${spell.from}`;
    const mails = this.#mailsOf.get(place) ?? new Set();
    this.#mailsOf.set(place, mails.add(again.emailId));
    return mails.size <= HALF_SENT_MAX ? `in hand: ${again.process} stood still with it half sent` : null;
  }
}

export function unexplained(repeats: readonly Repeat[]): Violation[] {
  return repeats
    .filter(({ cause }) => cause === null)
    .map(({ emailId, recipient, first, again }) => ({
      rule: "repeated",
      subject: emailId,
      what: `${recipient} got it twice, and no fault permits that`,
      evidence: [told("first", first), told("again", again)],
    }));
}

/**
 * Each copy after the first, with the one before it. A mail may go to some of its recipients now and to
 * others later.
 */
function* pairsOf(copies: readonly Copy[]) {
  const last = new Map<string, Copy>();
  for (const copy of [...copies].sort((a, b) => a.completeAt - b.completeAt))
    for (const recipient of copy.recipients) {
      const place = `${copy.emailId} ${recipient}`;
      const first = last.get(place);
      if (first) yield { emailId: copy.emailId, recipient, first, again: copy };
      last.set(place, copy);
    }
}

function causeOf(
  first: Copy,
  again: Copy,
  lives: ReadonlyMap<string, Life>,
  spells: readonly Spell[],
): string | null {
  if (first.answeredAt === null) return "answer lost: the receiver broke off at the final dot";
  const life = lives.get(first.process);
  const own = life ? spellsOf(life, spells) : [];
  const notedBy = latestNote(first.answeredAt, own);
  const ended = life?.ended?.at ?? null;
  if (life && ended !== null && ended <= notedBy) {
    if (life.told?.signal === "SIGKILL")
      return `killed: ${life.name}, ${ended - first.answeredAt} ms after it`;
    if (life.told === null) return `killed: ${life.name} died by itself`;
    const blocking = own.find((spell) => keepsFromWriting(spell, ended));
    if (blocking)
      return `stopped: ${life.name} was told to end while its Postgres was away (${blocking.kind})`;
  }
  if (again.process !== first.process) {
    const lost = own.find((spell) => losesBags(spell, again) && touches(spell, first.completeAt, notedBy));
    if (lost) return `${lost.kind}: ${first.process} for ${lengthOf(lost, again)} ms`;
  }
  if (
    first.closedAt !== null &&
    !first.closedPolitely &&
    first.closedAt - first.answeredAt <= ANSWER_IN_FLIGHT_MS
  )
    return "answer lost: the connection broke with the answer on its way";
  return null;
}

/** Those that this life lived through. */
function spellsOf(life: Life, spells: readonly Spell[]): Spell[] {
  const end = life.ended?.at ?? Number.POSITIVE_INFINITY;
  return spells.filter(
    ({ member, from, to }) =>
      (member === null || member === life.member) &&
      from <= end &&
      (to ?? Number.POSITIVE_INFINITY) >= life.startedAt,
  );
}

/** Until when the note of what was answered at a moment may not have been written. */
function latestNote(answeredAt: number, spells: readonly Spell[]): number {
  let by = answeredAt + NOTE_MS_MAX;
  for (const { from, to } of [...spells].sort((a, b) => a.from - b.from)) {
    const over = (to ?? Number.POSITIVE_INFINITY) + RECOVERY_MS;
    if (from <= by && over > answeredAt) by = Math.max(by, over);
  }
  return by;
}

/** Only what one worker alone suffers from lets others take its bags. */
function losesBags(spell: Spell, again: Copy): boolean {
  return (spell.kind === "frozen" || spell.kind === "cut") && lengthOf(spell, again) >= LEASE_LOST_MS;
}

/** Slow is not away: a polite end has the time to write its notes. */
function keepsFromWriting({ kind, from, to }: Spell, at: number): boolean {
  return kind !== "shaky" && kind !== "slow" && from <= at && (to ?? at) + RECONNECT_MS >= at;
}

function lengthOf({ from, to }: Spell, again: Copy): number {
  return (to ?? again.completeAt) - from;
}

function touches({ from, to }: Spell, start: number, end: number): boolean {
  return from <= end && (to ?? Number.POSITIVE_INFINITY) + RECOVERY_MS >= start;
}

function isHalfSent(spell: Spell, again: Copy): boolean {
  return (
    spell.kind === "frozen" &&
    losesBags(spell, again) &&
    again.begunAt <= (spell.to ?? Number.POSITIVE_INFINITY) + WAKING_MS &&
    again.completeAt >= spell.from
  );
}

function told(
  which: string,
  { process, begunAt, completeAt, answeredAt, closedAt, connection }: Copy,
): string {
  const answer = answeredAt === null ? "never answered" : `answered at ${clockOf(answeredAt)}`;
  const closing = closedAt === null ? "" : `, connection ${connection} closed at ${clockOf(closedAt)}`;
  return `${which}: ${process}, begun at ${clockOf(begunAt)}, complete at ${clockOf(completeAt)}, ${answer}${closing}`;
}

export function clockOf(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}
