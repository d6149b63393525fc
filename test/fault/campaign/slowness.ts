/**
 * How long Postgres takes for a commit when nobody interferes: measured over a connection of its own, since a
 * busy machine can keep a note from being written for longer than a fault does. While a commit takes more
 * than a second, no process can be blamed for what it has not written.
 */
import { connectRecord } from "../../../src/record/db/connect.ts";
import { pause } from "../../rig/pause.ts";
import type { Spell } from "./history.ts";

const EVERY_MS = 250;
const SLOW_MS = 1_000;
const TIMEOUT_MS = 60_000;

export async function noteSlowCommits(url: string, spells: Spell[], signal: AbortSignal): Promise<void> {
  const sql = connectRecord(url, "setup", TIMEOUT_MS);
  const commit = async (): Promise<void> => {
    await sql`create table if not exists campaign_probe (at timestamptz)`;
    await sql`insert into campaign_probe values (now())`;
  };
  while (!signal.aborted) {
    const spell: Spell = { kind: "slow", member: null, from: Date.now(), to: null };
    const slow = setTimeout(() => spells.push(spell), SLOW_MS);
    // while Postgres is away it is a fault that says so
    await Promise.race([commit().catch(() => {}), pause(TIMEOUT_MS, signal)]);
    clearTimeout(slow);
    spell.to = Date.now();
    await pause(EVERY_MS, signal);
  }
  await sql.end({ timeout: 1 });
}
