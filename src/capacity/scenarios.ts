/** The scenarios that come with the engine. */
import { existsSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

/** Of a scenario, and of a simulation. */
export const DAYS_MAX = 3_650;

const FOLDER = fileURLToPath(new URL("../../caps/scenarios/", import.meta.url));

/** None where the files were left out: everything else must work all the same. */
export function scenarioNames(): string[] {
  if (!existsSync(FOLDER)) return [];
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".json"))
    .map((file) => basename(file, ".json"))
    .sort();
}

/** null: there is none of this name. */
export function scenarioFile(name: string): string | null {
  const file = `${FOLDER}${name}.json`;
  return /^[a-z0-9-]+$/.test(name) && existsSync(file) ? file : null;
}
