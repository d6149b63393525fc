/**
 * What a process looks for in Postgres a few times a second, in one statement: whether there is work, and
 * what others have changed. Each part asks a question of its own and works only when the answer says so; an
 * idle process costs a statement for each look, not one for each part.
 *
 * Promises: each question is asked anew within its period and the time of one answer, whatever became of
 * Redis. A question is cheap where nothing is to be done: an index finds nothing. Periods begin together, so
 * that a statement for one serves all that are due.
 */
import type { Sql, Statement } from "./connect.ts";
import { isRefusal } from "./lost.ts";
import { float, json, onlyRow, typed } from "./rowshape.ts";
import { nowIn } from "./time.ts";

/** An expression, with the time that counts for it. */
export type LookQuestion = (sql: Sql, now: Statement) => Statement;

/** `ms`: the clock of Postgres. It was asked and answered at these monotonic times. */
export type LookTimes = { ms: number; askedAt: number; answeredAt: number };

type RegularQuestion = {
  everyMs: number;
  dueAt: number;
  write: LookQuestion;
  take(answer: unknown, at: LookTimes): void;
};

type LooksParts = {
  sql: Sql;
  /** As the clock is told to Postgres. */
  given(): number;
  /** Is told with each answer what time it is. */
  onTime?(at: LookTimes): void;
  /** Is told of the first of several looks that fail. */
  onFault(error: unknown): void;
};

/** A timer may be as early. */
const EARLY_MS = 2;

export class Looks {
  readonly #parts: LooksParts;
  readonly #questions = new Set<RegularQuestion>();
  #timer: NodeJS.Timeout | null = null;
  #lookAt = Number.POSITIVE_INFINITY;
  #isLooking = false;
  #isFailing = false;
  #isStopped = false;

  constructor(parts: LooksParts) {
    this.#parts = parts;
  }

  /** Asks now and from then on, until what is returned is called. */
  ask<T>(everyMs: number, write: LookQuestion, take: (answer: T, at: LookTimes) => void): () => void {
    const asked: RegularQuestion = {
      everyMs,
      dueAt: Number.NEGATIVE_INFINITY,
      write,
      take: take as RegularQuestion["take"],
    };
    this.#questions.add(asked);
    this.#plan();
    return () => void this.#questions.delete(asked);
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  #plan(): void {
    if (this.#isLooking || this.#isStopped || this.#questions.size === 0) return;
    const next = Math.min(...[...this.#questions].map(({ dueAt }) => dueAt));
    if (this.#timer && this.#lookAt <= next) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#lookAt = next;
    this.#timer = setTimeout(() => void this.#look(), Math.max(0, next - performance.now()));
  }

  async #look(): Promise<void> {
    this.#timer = null;
    this.#isLooking = true;
    const askedAt = performance.now();
    const asked = [...this.#questions].filter(({ dueAt }) => dueAt - EARLY_MS <= askedAt);
    for (const one of asked) one.dueAt = (Math.floor((askedAt + EARLY_MS) / one.everyMs) + 1) * one.everyMs;
    const failure = await this.#answer(asked);
    if (failure && !this.#isFailing && !this.#isStopped) this.#parts.onFault(failure.error);
    this.#isFailing = failure !== null;
    this.#isLooking = false;
    this.#plan();
  }

  /**
   * Of what Postgres refuses or takes too long for, one question may be the cause: each is asked alone then.
   */
  async #answer(asked: readonly RegularQuestion[]): Promise<{ error: unknown } | null> {
    try {
      const askedAt = performance.now();
      const { answers, ms } = await this.#ask(asked);
      const at = { ms, askedAt, answeredAt: performance.now() };
      this.#parts.onTime?.(at);
      for (const [n, one] of asked.entries()) if (this.#isAsked(one)) one.take(answers[n], at);
      return null;
    } catch (error) {
      if (asked.length > 1 && isRefusal(error)) for (const one of asked) await this.#answer([one]);
      return { error };
    }
  }

  #isAsked(one: RegularQuestion): boolean {
    return !this.#isStopped && this.#questions.has(one);
  }

  async #ask(asked: readonly RegularQuestion[]): Promise<{ answers: unknown[]; ms: number }> {
    const { sql, given } = this.#parts;
    const now = nowIn(sql, given());
    const expressions = asked.map(({ write }) => sql`, ${write(sql, now)}`);
    const asking = typed(sql, { answers: json<unknown[]>(), ms: float })`
      select jsonb_build_array(null ${expressions}) as answers,
             extract(epoch from clock_timestamp())::float8 * 1000 as ms`;
    const { answers, ms } = onlyRow(await asking);
    return { answers: answers.slice(1), ms };
  }
}
