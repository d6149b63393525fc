/** A pool of which every transaction is written down: the texts of its statements, in their order. */
import type { Sql } from "../../src/record/db/connect.ts";

type Statement = { text: string; isFragment: boolean };

export class Watched {
  /** As the pool itself; what is executed outside of a transaction is a transaction of its own. */
  readonly sql: Sql;
  readonly #transactions: Statement[][] = [];
  /** What was written, so that it is recognized as a part of what is written around it. */
  readonly #written = new WeakMap<object, Statement>();

  constructor(sql: Sql) {
    this.sql = this.#watch(sql, null);
  }

  /** Since the last time they were taken. */
  take(): string[][] {
    const whole = this.#transactions.splice(0).map((some) => some.filter(({ isFragment }) => !isFragment));
    return whole.map((some) => some.map(({ text }) => text)).filter((some) => some.length > 0);
  }

  /** `transaction` is null where every statement is one. */
  #watch<T extends object>(target: T, transaction: Statement[] | null): T {
    return new Proxy(target, {
      apply: (write, self, values: unknown[]) => {
        const statement = Reflect.apply(write as () => object, self, values);
        const [strings] = values;
        if (Array.isArray(strings) && "raw" in strings) this.#write(statement, values, transaction);
        return statement;
      },
      get: (pool, name) => {
        const member: unknown = Reflect.get(pool, name, pool);
        if (typeof member !== "function") return member;
        if (name === "begin")
          return (run: (tx: object) => unknown) =>
            member.call(pool, (tx: object) => run(this.#watch(tx, this.#open())));
        if (name === "reserve") return async () => this.#watch(await member.call(pool), this.#open());
        return member.bind(pool);
      },
    });
  }

  #open(): Statement[] {
    const transaction: Statement[] = [];
    this.#transactions.push(transaction);
    return transaction;
  }

  #write(statement: object, [strings, ...values]: unknown[], transaction: Statement[] | null): void {
    const texts = values.map((value) => {
      const part = typeof value === "object" && value !== null ? this.#written.get(value) : undefined;
      if (part) part.isFragment = true;
      return part?.text ?? "$";
    });
    const text = String.raw({ raw: strings as string[] }, ...texts);
    const written = { text, isFragment: false };
    this.#written.set(statement, written);
    (transaction ?? this.#open()).push(written);
  }
}
