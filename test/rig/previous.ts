/**
 * The version before this one: the last release tag, or, while there is none, the commit that previous.json
 * names. It is taken from the history of the checkout and built once, into the folder `.previous`, which git
 * ignores.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FOLDER = join(ROOT, ".previous");
const LARGE = 256 * 1024 * 1024;

/** A statement of a later migration that may break the version before, and why it does not. */
type Exception = { migration: string; statement: string; reason: string };
const recorded = JSON.parse(readFileSync(new URL("previous.json", import.meta.url), "utf8")) as {
  commit: string;
  /** Its last migration. */
  schema: string;
  exceptions: Exception[];
};
export const { exceptions } = recorded;

const git = (...args: string[]): Buffer =>
  execFileSync("git", args, { cwd: ROOT, stdio: ["ignore", "pipe", "ignore"], maxBuffer: LARGE });

/** A tag at this very commit is this version. */
function lastTag(): string | null {
  try {
    return git("describe", "--tags", "--abbrev=0", "HEAD^").toString().trim();
  } catch {
    return null;
  }
}

const commit = lastTag() ?? recorded.commit;

/** Why it cannot be built; null: it can. */
export const missingPrevious = (() => {
  try {
    git("cat-file", "-e", `${commit}^{commit}`);
    return null;
  } catch {
    const why = `the commit ${commit} is not in this checkout (a shallow clone?), so no upgrade from it is tested`;
    console.warn(`SKIPPED: ${why}`);
    return why;
  }
})();

/** Of the version before. */
export function lastSchema(): string {
  if (commit === recorded.commit) return recorded.schema;
  const files = git("ls-tree", "--name-only", `${commit}:src/record/migrations`)
    .toString()
    .trim()
    .split("\n");
  return files.at(-1) as string;
}

/** Its command line, which also serves roles. */
export function buildPrevious(): string {
  const folder = join(FOLDER, git("rev-parse", `${commit}^{commit}`).toString().slice(0, 12));
  const program = join(folder, "dist", "cli", "postrider.js");
  if (existsSync(program)) return program;
  mkdirSync(FOLDER, { recursive: true });
  const making = mkdtempSync(`${folder}-`);
  try {
    execFileSync("tar", ["-x", "-C", making], { input: git("archive", commit), maxBuffer: LARGE });
    installInto(making);
    execFileSync(join(ROOT, "node_modules", ".bin", "tsc"), ["-p", "tsconfig.build.json"], { cwd: making });
    renameSync(making, folder);
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
  return program;
}

/** What it needs is here already, unless a version has changed since. */
function installInto(folder: string): void {
  const own = dependenciesOf(ROOT);
  const isHere = Object.entries(dependenciesOf(folder)).every(([name, version]) => own[name] === version);
  if (isHere) symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  else execFileSync("npm", ["ci", "--omit=dev", "--ignore-scripts"], { cwd: folder, stdio: "pipe" });
}

function dependenciesOf(folder: string): Record<string, string> {
  const text = readFileSync(join(folder, "package.json"), "utf8");
  return (JSON.parse(text) as { dependencies: Record<string, string> }).dependencies;
}
