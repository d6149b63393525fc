/** When keys were last used: kept here and written in groups, so that a request costs no write. */
import type { Caller } from "../admission/admit.ts";
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { noteLastUsed } from "../record/workspaces/keys.ts";

const FLUSH_EVERY_MS = 2_000;

export class LastUsed {
  readonly #sql: Sql;
  readonly #clock: Clock;
  readonly #onFault: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #used = new Map<string, { workspaceId: string; keyId: string; at: number }>();

  constructor(sql: Sql, clock: Clock, onFault: (error: unknown) => void) {
    this.#sql = sql;
    this.#clock = clock;
    this.#onFault = onFault;
    this.#timer = setInterval(() => this.#flush().catch(onFault), FLUSH_EVERY_MS);
  }

  note({ workspaceId, keyId }: Caller): void {
    const at = this.#clock.now();
    const known = this.#used.get(keyId);
    if (known) known.at = at;
    else this.#used.set(keyId, { workspaceId, keyId, at });
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flush().catch(this.#onFault);
  }

  async #flush(): Promise<void> {
    if (this.#used.size === 0) return;
    const used = this.#used;
    this.#used = new Map();
    // in one order, so that two processes that write the same keys do not deadlock
    const inOrder = [...used.values()].sort((a, b) => (a.keyId < b.keyId ? -1 : 1));
    try {
      await noteLastUsed(this.#sql, inOrder);
    } catch (error) {
      this.#used = new Map([...used, ...this.#used]);
      throw error;
    }
  }
}
