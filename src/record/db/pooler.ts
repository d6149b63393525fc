/** A pooler between us and Postgres that takes no settings with a connection. */
import { throughPooler } from "../../config.ts";
import { areSettingsOurs, connectRecord, isRefusedByPooler, type PoolName, type Sql } from "./connect.ts";
import { boolean, onlyRow, typed } from "./rowshape.ts";

/** The url as connections have to be made: behind such a pooler transactions bring their settings. */
export async function pastPooler(url: string, pool: PoolName, timeoutMs: number): Promise<string> {
  const probe = connectRecord(url, pool, timeoutMs);
  try {
    return (await isBehindPooler(probe)) ? throughPooler(url) : url;
  } finally {
    probe.end({ timeout: 0 }).catch(() => {});
  }
}

/**
 * It refuses the settings or, told to ignore them, leaves them out without a word: then statements have no
 * limits, and those that are prepared are another's.
 */
async function isBehindPooler(probe: Sql): Promise<boolean> {
  try {
    const rows = await typed(probe, { isSet: boolean })`select ${areSettingsOurs(probe)} as "isSet"`;
    return !onlyRow(rows).isSet;
  } catch (error) {
    if (isRefusedByPooler(error)) return true;
    throw error;
  }
}
