/**
 * A standby of Postgres that answers reads which may be some seconds old. It is looked at twice a second: how
 * far it has replayed is compared with positions that the primary told before, so that no clock is asked, and
 * a standby that is cut off from its primary is behind also when nothing is written.
 *
 * Promises: what is read here was true at most LAG_MS_MAX ago. While the standby is away, behind, or none of
 * this primary, the primary answers, also what was asked before this was noticed: no request fails because of
 * the standby.
 */
import { DAY_MS, inTime } from "../../clock.ts";
import { Counter, Gauge } from "../../meter.ts";
import { areSettingsOurs, isRefusedByPooler, type Sql } from "./connect.ts";
import { isRefusal } from "./lost.ts";
import { boolean, integer, type RowOf, text, typed } from "./rowshape.ts";
import { type Rows, type Unsent, writing } from "./statement.ts";

const LAG_MS_MAX = 5_000;
/** A standby that was too far behind is used again when it has caught up, not at every other look. */
const LAG_MS_AGAIN = 2_500;
const LOOK_MS = 500;
/** Positions of the primary that the standby has not reached yet. */
const POSITIONS_MAX = 64;
const TOO_SLOW = "57014";

const READS = new Counter(
  "postrider_replica_reads_total",
  "Statements of lists and views, by the server that answered, where READ_DATABASE_URL is set",
  ["server"],
);
const LAG = new Gauge("postrider_replica_lag_seconds", "How old what the read replica answers may be");
const USABLE = new Gauge("postrider_replica_usable", "1 if the read replica is used");

/** Why the primary answers instead. */
export type ReplicaTrouble = { why: string; error?: unknown };

export type ReplicaParts = {
  primary: Sql;
  standby: Sql;
  /** The same standby, when a pooler before it has refused the settings of `standby`, or left them out. */
  behindPooler(): Sql;
  /** Over which the primary is asked how far it is. */
  looks: Sql;
  /** How long either may take to answer a look. */
  answerMsMax: number;
  /** Is told when the standby is no longer used, and with null when it is again. */
  onChange(trouble: ReplicaTrouble | null): void;
};

type Position = { at: number; lsn: number };
const lookedAtRow = {
  system: text,
  database: text,
  isStandby: boolean,
  /** Without it the connection is behind a pooler that left its settings out. */
  hasSettings: boolean,
  lsn: integer,
};
type LookedAt = RowOf<typeof lookedAtRow>;

export class Replica {
  readonly #parts: ReplicaParts;
  #standby: Sql;
  /** The primary, as it was seen last. */
  #own: LookedAt | null = null;
  /** Told by the primary and not known to be replayed, the oldest first. */
  #ahead: Position[] = [];
  /** All that was committed until then has been replayed. */
  #replayedAt = Number.NEGATIVE_INFINITY;
  #isUsable = false;
  /** What was told last; undefined: nothing yet. */
  #told: string | null | undefined;
  /** Reads under way, to be asked of the primary instead. */
  readonly #underWay = new Set<() => void>();
  readonly #unfollow: (() => void)[];
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.#standby = parts.standby;
    this.#unfollow = [
      LAG.follow(() => Math.min(this.#lagMs(), DAY_MS) / 1_000),
      USABLE.follow(() => Number(this.#isUsable)),
    ];
  }

  start(): void {
    void this.#look().then(() => {
      if (!this.#isStopped) this.#timer = setTimeout(() => this.start(), LOOK_MS);
    });
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    for (const stop of this.#unfollow) stop();
  }

  /** For the statements of one answer: none of them reads what is older than what one before it has read. */
  reads(): Sql {
    let isLeft = !this.#mayAnswer;
    const ask = async (statement: Unsent): Promise<Rows> => {
      const rows = isLeft ? null : await this.#askStandby(statement);
      isLeft ||= rows === null;
      return rows ?? this.#askPrimary(statement);
    };
    const { begin, reserve, end } = this.#parts.primary;
    return Object.assign(writing(ask), { begin, reserve, end });
  }

  /** null: the primary has to be asked. */
  async #askStandby(statement: Unsent): Promise<Rows | null> {
    if (!this.#mayAnswer) return null;
    let leave = () => {};
    const isLeft = new Promise<null>((resolve) => {
      leave = () => resolve(null);
    });
    this.#underWay.add(leave);
    const answer = this.#standby`${statement}`.execute();
    answer.catch(() => {}); // nobody may be waiting any more
    try {
      const rows = await Promise.race([answer, isLeft]);
      if (rows !== null) READS.add(1, "replica");
      return rows;
    } catch (error) {
      // what takes too long there would take as long here, and hold up others
      if (isRefusal(error) && error.code === TOO_SLOW) throw error;
      return null;
    } finally {
      this.#underWay.delete(leave);
    }
  }

  #askPrimary(statement: Unsent): Promise<Rows> {
    READS.add(1, "primary");
    return this.#parts.primary`${statement}`.execute();
  }

  async #look(): Promise<void> {
    const trouble = await this.#examine();
    if (this.#isStopped) return;
    this.#isUsable = trouble === null;
    if (trouble) for (const leave of [...this.#underWay]) leave();
    const why = trouble?.why ?? null;
    if (this.#told === why) return;
    this.#told = why;
    this.#parts.onChange(trouble);
  }

  /** null: it can be used. */
  async #examine(): Promise<ReplicaTrouble | null> {
    const { looks, answerMsMax } = this.#parts;
    const at = performance.now();
    const [own, other] = await Promise.all([lookAt(looks, answerMsMax), this.#lookAtStandby()]);
    if (!("why" in own)) this.#notePosition(own, at);
    if ("why" in other) return other;
    const trouble = relationTrouble(this.#own, other);
    if (trouble) return trouble;
    while (this.#ahead[0] && this.#ahead[0].lsn <= other.lsn)
      this.#replayedAt = (this.#ahead.shift() as Position).at;
    const most = this.#isUsable ? LAG_MS_MAX - LOOK_MS - answerMsMax : LAG_MS_AGAIN;
    return this.#lagMs() > most ? { why: "it is too far behind" } : null;
  }

  /** A pooler that takes no settings with a connection is used as one from then on. */
  async #lookAtStandby(): Promise<LookedAt | ReplicaTrouble> {
    const { standby, behindPooler, answerMsMax } = this.#parts;
    const found = await lookAt(this.#standby, answerMsMax);
    const isPooled = "why" in found ? isRefusedByPooler(found.error) : !found.hasSettings;
    if (!isPooled || this.#standby !== standby || this.#isStopped) return found;
    this.#standby = behindPooler();
    return lookAt(this.#standby, answerMsMax);
  }

  #notePosition(own: LookedAt, at: number): void {
    this.#own = own;
    // after a failover the primary may be behind the one before
    this.#ahead = this.#ahead.filter(({ lsn }) => lsn <= own.lsn);
    if (this.#ahead.length < POSITIONS_MAX) this.#ahead.push({ at, lsn: own.lsn });
  }

  /** A process that stood still asks before it has looked again: what it saw last is as old as that. */
  get #mayAnswer(): boolean {
    return this.#isUsable && this.#lagMs() <= LAG_MS_MAX;
  }

  #lagMs(): number {
    return performance.now() - this.#replayedAt;
  }
}

/** Whether one streams from the other. */
export async function replicaTrouble(
  primary: Sql,
  standby: Sql,
  answerMsMax: number,
): Promise<ReplicaTrouble | null> {
  const [own, other] = await Promise.all([lookAt(primary, answerMsMax), lookAt(standby, answerMsMax)]);
  return "why" in other ? other : relationTrouble("why" in own ? null : own, other);
}

function relationTrouble(own: LookedAt | null, other: LookedAt): ReplicaTrouble | null {
  if (own === null) return { why: "the primary does not say how far it is" };
  if (!other.isStandby) return { why: "it is no standby" };
  if (own.system !== other.system || own.database !== other.database)
    return { why: "it belongs to another Postgres, or is another database" };
  return null;
}

async function lookAt(sql: Sql, msMax: number): Promise<LookedAt | ReplicaTrouble> {
  const asked = typed(sql, lookedAtRow)`
    select system_identifier::text as system, current_database() as database,
      pg_is_in_recovery() as "isStandby", ${areSettingsOurs(sql)} as "hasSettings",
      (case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
        else pg_current_wal_lsn() end - '0/0')::float8 as lsn
    from pg_control_system()`;
  try {
    const rows = await inTime(msMax, asked, () => null);
    return rows?.[0] ?? { why: "it does not answer" };
  } catch (error) {
    return { why: "it cannot be asked", error };
  }
}
