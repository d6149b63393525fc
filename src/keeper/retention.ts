/**
 * Drops expired partitions, one after the other, and never one with open mail: retention counts from the
 * final status, so an e-mail scheduled a month ahead keeps its partition until its own retention is over.
 *
 * Promises: no send waits for it. Nothing is locked while a partition is checked; the parent is never locked
 * exclusively. A partition that fails or must wait does not stop the others, and is tried again.
 */

import { DAY_MS } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { dayName, isThere, listPartitions, type Partition } from "../record/db/partitions.ts";
import { PartitionCheck, type PartitionState } from "../record/mail/partitioncheck.ts";
import {
  attachAgain,
  detachPartition,
  dropDetached,
  finishDetaching,
  holdersOf,
} from "../record/mail/retention.ts";
import { isTooMuch } from "../rules/stepsize.ts";
import type { Lease } from "./lease.ts";

/** Of a step that checks a partition: short, since it competes with sends for the disk. */
const CHECK_SLOW_MS = 250;
const ATTEMPTS_MAX = 5;
const ATTEMPT_EVERY_MS = 1_000;
const LOOK_EVERY_MS = 250;
const LOOKS_MAX = 12;
const REQUEST_DAYS = 7;

export type RetentionDays = { emails: number; bodies: number; events: number };

export type RetentionParts = {
  /** A connection of its own, with its own timeouts. */
  sql: Sql;
  days: RetentionDays;
  onFault(error: unknown): void;
};

class InUse extends Error {
  readonly table: string;
  constructor(table: string) {
    super(`old partitions of ${table} are not dropped yet: a long transaction uses it`);
    this.table = table;
  }
}

export class Retention {
  readonly #parts: RetentionParts;
  /** How far the check of each has got, so that the next tick goes on from there. */
  readonly #checks = new Map<string, PartitionCheck>();

  constructor(parts: RetentionParts) {
    this.#parts = parts;
  }

  /** Drops what may go at this time, as long as the lease is held; hands back the names. */
  async drop(now: number, lease: Lease): Promise<string[]> {
    const { sql, onFault } = this.#parts;
    const dropped: string[] = [];
    /** Parents from which nothing can be detached now. */
    const closed = new Set<string>();
    for (const partition of this.#inOrder(await listPartitions(sql), now)) {
      if (!lease.isHeld()) break;
      if (partition.state !== "detached" && closed.has(partition.table)) continue;
      try {
        if (await this.#dropOne(partition, now, lease)) dropped.push(partition.name);
      } catch (error) {
        if (error instanceof InUse) closed.add(error.table);
        if (partition.state === "pending") closed.add(partition.table);
        onFault(error);
      }
    }
    return dropped;
  }

  /** Partitions that may be expired. A half detached one comes first: each parent can have only one. */
  #inOrder(partitions: readonly Partition[], now: number): Partition[] {
    const today = Math.floor(now / DAY_MS);
    const begun = partitions.filter(({ state }) => state !== "attached");
    const old = partitions.filter(
      ({ state, table, day }) => state === "attached" && day < dayName(today - this.#keptDays(table)),
    );
    return [...begun, ...old];
  }

  #keptDays(table: Partition["table"]): number {
    const { emails, bodies, events } = this.#parts.days;
    return {
      email: emails,
      email_ending: emails,
      body: bodies,
      outbox: events,
      webhook_attempt: events,
      request: REQUEST_DAYS,
    }[table];
  }

  async #dropOne(partition: Partition, now: number, lease: Lease): Promise<boolean> {
    const { sql } = this.#parts;
    const before = new Date(now - this.#keptDays(partition.table) * DAY_MS);
    if (partition.state === "attached" && (await this.#find(partition, before, lease)) !== "over")
      return false;
    await this.#insist(lease, () => this.#detach(partition));
    // nothing can be written there any more, so what is found now is still true when the table goes
    this.#checks.get(partition.name)?.again();
    const finding = await this.#find(partition, before, lease);
    if (finding === "over") await this.#insist(lease, () => dropDetached(sql, partition));
    else if (finding === "open") await this.#insist(lease, () => attachAgain(sql, partition));
    if (finding !== "unfinished") this.#checks.delete(partition.name);
    return finding === "over";
  }

  /** Looks through the e-mails of a partition's day, at half speed. */
  async #find({ name, table, day }: Partition, before: Date, lease: Lease): Promise<PartitionState> {
    const { sql } = this.#parts;
    const emails = `email_${day}`;
    if (table === "email_ending") return (await isThere(sql, emails)) ? "open" : "over";
    if (table !== "email" && table !== "body") return "over";
    if (!(await isThere(sql, emails))) return "over";
    const check = this.#checks.get(name) ?? new PartitionCheck(sql, emails, CHECK_SLOW_MS);
    this.#checks.set(name, check);
    for (;;) {
      const since = performance.now();
      const finding = await check.step(before);
      if (finding !== "unfinished" || !lease.isHeld()) return finding;
      await pause(performance.now() - since);
    }
  }

  /** From whatever state it is in. */
  async #detach(partition: Partition): Promise<void> {
    const { sql } = this.#parts;
    const state = (await listPartitions(sql)).find(({ name }) => name === partition.name)?.state;
    if (state === "pending") await finishDetaching(sql, partition);
    if (state !== "attached") return;
    // a detaching that has to wait keeps all others of the same parent, so it is not begun in vain
    await this.#untilFree(partition.table);
    await this.#untilFree(partition.name);
    await detachPartition(sql, partition);
  }

  /** Nobody who uses the table now has used it for long. */
  async #untilFree(table: string): Promise<void> {
    const { sql } = this.#parts;
    let holders = await holdersOf(sql, table);
    for (let looks = 0; holders.length > 0; looks++) {
      if (looks >= LOOKS_MAX) throw new InUse(table);
      await pause(LOOK_EVERY_MS);
      const now = new Set(await holdersOf(sql, table));
      holders = holders.filter((holder) => now.has(holder));
    }
  }

  /** Repeats while others hold locks; the next tick tries again what did not succeed. */
  async #insist(lease: Lease, step: () => Promise<void>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await step();
      } catch (error) {
        if (!isTooMuch(error) || attempt >= ATTEMPTS_MAX || !lease.isHeld()) throw error;
        await pause(ATTEMPT_EVERY_MS);
      }
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
