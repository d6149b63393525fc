/**
 * Other versions of Node, by the packages that `node` of npm brings them with, and what `npm ci` installs
 * under them. Both are kept in `.nodes`, which git ignores.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FOLDER = join(ROOT, ".nodes");
const INSTALL_MS_MAX = 180_000;
/** As `files` of package.json has them. */
const SHIPPED = ["dist", "lua", "caps", "docs", "src/record/migrations", "package.json"];
const NEEDED = ["package.json", "package-lock.json", ".npmrc"];

/** Why a version cannot be had; null: it is there. */
export const missingNodes = (() => {
  try {
    for (const major of [22, 24]) installNode(major);
    return null;
  } catch (error) {
    const why = `other versions of Node cannot be installed from npm, so nothing is tested under them: ${error}`;
    console.warn(`SKIPPED: ${why}`);
    return why;
  }
})();

/** The program. */
export function nodeOf(major: number): string {
  return join(FOLDER, `${major}`, "node_modules", packageOf(), "bin", "node");
}

function installNode(major: number): void {
  if (existsSync(nodeOf(major))) return;
  const folder = join(FOLDER, `${major}`);
  mkdirSync(folder, { recursive: true });
  const args = ["install", "--prefix", folder, "--no-save", "--ignore-scripts", `${packageOf()}@${major}`];
  execFileSync("npm", args, { cwd: folder, stdio: "pipe", timeout: INSTALL_MS_MAX });
}

function packageOf(): string {
  return `node-${process.platform}-${process.arch}`;
}

/** What `npm` says under another Node. */
export function npmUnder(major: number, cwd: string, ...args: string[]): { status: number; said: string } {
  const env = { ...process.env, PATH: `${dirname(nodeOf(major))}:${process.env.PATH}` };
  try {
    const said = execFileSync("npm", args, { cwd, env, stdio: "pipe", timeout: INSTALL_MS_MAX });
    return { status: 0, said: said.toString() };
  } catch (error) {
    const { status, stdout, stderr } = error as { status: number; stdout: Buffer; stderr: Buffer };
    return { status, said: `${stdout}${stderr}` };
  }
}

/** A folder as an operator has it who installs with this Node; made once for each lock file. */
function packagesUnder(major: number): string {
  const lock = createHash("sha256")
    .update(readFileSync(join(ROOT, "package-lock.json")))
    .digest("hex");
  const folder = join(FOLDER, `${major}`, `packages-${lock.slice(0, 12)}`);
  const done = join(folder, "node_modules", ".package-lock.json");
  if (existsSync(done)) return folder;
  mkdirSync(folder, { recursive: true });
  for (const name of NEEDED) copyFileSync(join(ROOT, name), join(folder, name));
  const { status, said } = npmUnder(major, folder, "ci", "--omit=dev", "--ignore-scripts");
  if (status !== 0) throw new Error(`npm ci under Node ${major} ended with ${status}: ${said}`);
  return folder;
}

/** The built engine with the packages of another Node, in a folder of its own; its command line. */
export function engineUnder(major: number, folder: string): string {
  for (const name of SHIPPED) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(packagesUnder(major), "node_modules"), join(folder, "node_modules"));
  return join(folder, "dist", "cli", "postrider.js");
}
