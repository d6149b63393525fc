/** The files with which others run the engine, as they are in the repository. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { SETTINGS } from "../../src/config.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** What a worker may take to write what was delivered, after SIGTERM. */
export const ENDS_WITHIN_S = 30;
export const SETTING_NAMES: readonly string[] = Object.values(SETTINGS).map(({ env }) => env);

/** Of Node, of OpenTelemetry, and of the images and scripts beside the engine. */
const NOT_OURS =
  /^(?:NODE_\w+|OTEL_\w+|PG\w+|POSTGRES_(?!DATA_FOLDER)\w+|OWNER_PASSWORD|SERVING_PASSWORD|REDIS_(?!URL)\w+)$/;

export function read(path: string): string {
  return readFileSync(`${ROOT}/${path}`, "utf8");
}

/** Its documents, with `<<` merged as Compose does; throws what the parser objects to. */
export function parsed<Document>(path: string): Document[] {
  return parseAllDocuments(read(path), { merge: true }).map((document) => {
    const [fault] = [...document.errors, ...document.warnings];
    if (fault) throw new Error(`${path}: ${fault.message}`);
    return document.toJS() as Document;
  });
}

/** Of these names of variables. */
export function unknownSettings(names: readonly string[]): string[] {
  return names.filter((name) => !SETTING_NAMES.includes(name) && !NOT_OURS.test(name));
}

export function commandNames(): string[] {
  const folder = "src/cli/commands";
  const known = ["migrate", "serve", "doctor", "queue", "workspace", "key", "domain"];
  return known.filter((name) => read(`${folder}/${name}.ts`).includes(`new Command("${name}")`));
}
