/**
 * A statement that is not yet bound to a connection: it is sent when it is awaited or executed, over the
 * connection that is chosen then. Written inside another statement it is a fragment, and is never sent by
 * itself.
 */
import postgres from "postgres";

export type Row = postgres.Row;
export type Rows<T extends readonly (object | undefined)[] = Row[]> = postgres.RowList<T>;

/** Asked for and not yet sent. */
export interface Statement<T extends readonly (object | undefined)[] = Row[]> extends Promise<Rows<T>> {
  /** Sends it now: statements of one connection go out in the order of these calls. */
  execute(): this;
}

type Fragment = { execute(): unknown };
export type StatementValue = postgres.SerializableParameter | postgres.Helper<string> | Fragment;

/** How statements are written: on any connection of a pool, on a reserved one, or in a transaction. */
export interface Tx {
  /** The name of a table, a column or a database. */
  (name: string): postgres.Helper<string>;
  <T extends readonly (object | undefined)[] = Row[]>(
    template: TemplateStringsArray,
    ...values: readonly (StatementValue | readonly StatementValue[])[]
  ): Statement<T>;
  /** Text as it is, without parameters; it may hold several statements. */
  unsafe<T extends readonly (object | undefined)[] = Row[]>(text: string): Statement<T>;
  json(value: postgres.JSONValue): postgres.Parameter;
}

/** A connection that nobody else uses until it is released. */
export interface Reserved extends Tx {
  /**
   * The same object each time the same connection is reserved; behind a pooler nobody knows whether it is the
   * same.
   */
  readonly backend: object;
  /** Begins a transaction, with the settings that the connection does not have. */
  begin(): Statement;
  release(): void;
  /** Instead, when nobody knows what state it is in: cuts it. */
  drop(): void;
}

/** A pool of connections. */
export interface Sql extends Tx {
  /**
   * Commits what `work` did when it succeeds, and hands back its result; else rolls back. `work` is done
   * again when the transaction lost a deadlock: it must not change anything but the record.
   */
  begin<T>(work: (tx: Tx) => T | Promise<T>): Promise<Unwrapped<T>>;
  reserve(): Promise<Reserved>;
  /** Waits for statements under way, but at most `timeout` seconds. */
  end(options?: { timeout?: number }): Promise<void>;
}

export type Unwrapped<T> = T extends readonly unknown[] ? { [K in keyof T]: Awaited<T[K]> } : T;

/** Of one connection. */
export type Client = postgres.Sql;
export type SendStatement = (statement: Unsent) => Promise<Rows>;

/** Never connects: makes what is the same for every connection. */
const helpers = postgres({ max: 1, fetch_types: false });

/** Writes statements that `send` sends. */
export function writing(send: SendStatement): Tx {
  const write = (first: TemplateStringsArray | string, ...values: unknown[]) =>
    typeof first === "string"
      ? helpers(first)
      : new Unsent((client) => client(first, ...values.map((value) => onto(client, value))), send);
  return Object.assign(write, {
    unsafe: (text: string) => new Unsent((client) => client.unsafe(text), send),
    json: (value: postgres.JSONValue) => helpers.json(value),
  }) as unknown as Tx;
}

/** A fragment is written anew by the client that sends the whole. */
function onto(client: Client, value: unknown): never {
  // the driver notices it too late: it would reject the statement before this one, and mix up the answers
  // that follow
  if (value === undefined) throw new TypeError("a parameter of the statement is undefined");
  if (value instanceof Unsent) return value.writtenBy(client) as never;
  if (Array.isArray(value) && value[0] instanceof Unsent)
    return value.map((one) => onto(client, one)) as never;
  return value as never;
}

export class Unsent implements Statement {
  readonly [Symbol.toStringTag] = "Statement";
  readonly writtenBy: (client: Client) => postgres.PendingQuery<Row[]>;
  /** Throws when its rows are not what they are declared to be: see rowshape.ts. */
  check: ((rows: Rows) => void) | null = null;
  readonly #send: SendStatement;
  #answer: Promise<Rows> | null = null;

  constructor(writtenBy: Unsent["writtenBy"], send: SendStatement) {
    this.writtenBy = writtenBy;
    this.#send = send;
  }

  execute(): this {
    this.#answered();
    return this;
  }

  // biome-ignore lint/suspicious/noThenProperty: a statement is a promise that starts when it is awaited
  then<A = Rows, B = never>(
    onFulfilled?: ((rows: Rows) => A | PromiseLike<A>) | null,
    onRejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#answered().then(onFulfilled, onRejected);
  }

  catch<B = never>(onRejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Rows | B> {
    return this.#answered().catch(onRejected);
  }

  finally(then?: (() => void) | null): Promise<Rows> {
    return this.#answered().finally(then);
  }

  #answered(): Promise<Rows> {
    this.#answer ??= this.check ? this.#checked(this.check) : this.#send(this);
    return this.#answer;
  }

  async #checked(check: (rows: Rows) => void): Promise<Rows> {
    const rows = await this.#send(this);
    check(rows);
    return rows;
  }
}
