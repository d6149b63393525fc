/**
 * Ids under which the engine's own mail can be written. They are derived from what caused the mail and dated
 * by when that was, so that whoever does it again writes nothing. But an e-mail can be written only while its
 * day has partitions, and retention may have dropped them: a run's step may be tried again weeks after it was
 * begun. Such mail is dated by the first later day that can be written.
 *
 * Promises: a cause has one e-mail as long as its row is kept, whoever asks and whenever. Two who choose
 * different days write no two: the later one chose its day because the other's has gone for good, and it has
 * seen what was written there.
 */
import { DAY_MS } from "../../clock.ts";
import { floorId, redatedId, timeOfId } from "../../ids.ts";
import type { Sql } from "../db/connect.ts";
import { dayNumber, listPartitions, type Partition } from "../db/partitions.ts";
import { existingEmails, type NewEmail } from "./emails.ts";

type DerivedKey = Pick<NewEmail, "workspaceId" | "id">;

/** Ids that are looked up by one statement. */
const LOOKED_UP_MAX = 5_000;

/** In the order of the e-mails; that of an e-mail which is written already is the one it has. */
export async function writableIds(sql: Sql, emails: readonly DerivedKey[], now: number): Promise<string[]> {
  const today = Math.floor(now / DAY_MS);
  // no retention is shorter than a day
  const oldBefore = floorId((today - 1) * DAY_MS);
  const old = emails.filter(({ id }) => id < oldBefore);
  if (old.length === 0) return emails.map(({ id }) => id);
  // one that is detached may be attached again: only where there is no table nothing will ever be written
  const partitions = await listPartitions(sql);
  const [mails, bodies] = [daysOf(partitions, "email"), daysOf(partitions, "body")];
  const later = [...mails].filter((day) => day <= today).sort((a, b) => a - b);
  const possibleIds = ({ id }: DerivedKey): string[] => [
    id,
    ...later.filter((day) => day > dayOf(id)).map((day) => redatedId(id, day * DAY_MS)),
  ];
  const written = await writtenOf(
    sql,
    old.flatMap((one) => possibleIds(one).map((id) => ({ workspaceId: one.workspaceId, id }))),
  );
  const isWritable = (id: string): boolean => mails.has(dayOf(id)) && bodies.has(dayOf(id));
  return emails.map((one) => {
    if (one.id >= oldBefore) return one.id;
    const ids = possibleIds(one);
    return ids.find((id) => written.has(id)) ?? ids.find(isWritable) ?? one.id;
  });
}

async function writtenOf(sql: Sql, keys: readonly DerivedKey[]): Promise<Set<string>> {
  const written = new Set<string>();
  for (let n = 0; n < keys.length; n += LOOKED_UP_MAX)
    for (const id of await existingEmails(sql, keys.slice(n, n + LOOKED_UP_MAX))) written.add(id);
  return written;
}

function daysOf(partitions: readonly Partition[], table: Partition["table"]): Set<number> {
  return new Set(partitions.flatMap((one) => (one.table === table ? dayNumber(one.day) : [])));
}

function dayOf(id: string): number {
  return Math.floor(timeOfId(id) / DAY_MS);
}
