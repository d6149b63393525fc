/** Debian's Chromium, which `.ci/run` installs. Tests that need it are skipped where it is not. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

export const CHROMIUM_PATH: string | null =
  (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "chromium"))
    .find((path) => existsSync(path)) ?? null;
