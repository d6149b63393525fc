/**
 * `npm run fault:mutants -- [name ...]`: the auditor is judged. Each patch in this folder plants one mistake
 * that the engine must not have. It is applied to a copy of the tree, the campaign runs on that, and has to
 * say what is wrong.
 *
 * A patch begins with what it plants, in words, and with these fields:
 *
 *   Faults:    what is inflicted (as `--faults`)
 *   Seed:      of the campaign
 *   Minutes:   of faults; without it, 1.5
 *   Found by:  the rules that show this mistake; that another rule is violated does not count
 *
 * A mistake that needs no faults to show is given to a test instead of the campaign. In place of Faults and
 * Seed it says
 *
 *   Test:      the file, and behind a `#` words in the name of the test
 *   Found by:  words of the message with which it fails
 *
 * Prints one line per mutant, and at the end how many were found. The exit status is 1 unless all were.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Verdict } from "../campaign/audit.ts";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(HERE, "../../..");
const MINUTES = "1.5";
const QUIET_SECONDS = "75";
const MUTANT_MS_MAX = 300_000;

type Mutant = {
  name: string;
  file: string;
  foundBy: string[];
} & (CampaignOptions | TestOptions);
type CampaignOptions = { faults: string; seed: string; minutes: string };
type TestOptions = { test: string; words: string };

const asked = process.argv.slice(2);
const mutants = readdirSync(HERE)
  .filter((file) => file.endsWith(".patch"))
  .map(readMutant)
  .filter(({ name }) => asked.length === 0 || asked.some((part) => name.includes(part)));

let found = 0;
const interrupted = new AbortController();
process.on("SIGINT", () => interrupted.abort());
for (const mutant of mutants) {
  if (interrupted.signal.aborted) break;
  const began = performance.now();
  const report = await judge(mutant);
  if (report.isFound) found++;
  const seconds = Math.round((performance.now() - began) / 1_000);
  console.log(`${report.isFound ? "found" : "MISSED"}  ${mutant.name}  (${seconds} s)  ${report.words}`);
}
console.log(`found ${found} of ${mutants.length} planted`);
process.exitCode = found === mutants.length ? 0 : 1;

function readMutant(file: string): Mutant {
  const text = readFileSync(join(HERE, file), "utf8");
  const field = (name: string) => new RegExp(`^${name}: *(.+)$`, "m").exec(text)?.[1]?.trim();
  const foundBy = (field("Found by") ?? "").split(";").map((rule) => rule.trim());
  const mutant = { name: file.replace(/\.patch$/, ""), file: join(HERE, file), foundBy };
  const [faults, seed, given] = [field("Faults"), field("Seed"), field("Test")];
  if (given && field("Found by")) {
    const [test = "", words = ""] = given.split("#").map((part) => part.trim());
    return { ...mutant, test, words };
  }
  if (!faults || !seed || !field("Found by"))
    throw new Error(`${file} must say Faults, Seed and Found by, or Test and Found by`);
  return { ...mutant, faults, seed, minutes: field("Minutes") ?? MINUTES };
}

async function judge(mutant: Mutant): Promise<{ isFound: boolean; words: string }> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-mutant-"));
  try {
    copyTree(folder);
    execFileSync("git", ["apply", mutant.file], { cwd: folder, stdio: "pipe" });
    execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], {
      cwd: folder,
      stdio: "pipe",
    });
    if ("test" in mutant) return await runTest(folder, mutant);
    const verdict = await runCampaign(folder, mutant);
    return verdict ? wordsOf(verdict, mutant) : { isFound: false, words: "the campaign did not end in time" };
  } catch (error) {
    const { stdout, stderr, message } = error as Error & { stdout?: Buffer; stderr?: Buffer };
    return {
      isFound: false,
      words: `${message.split("\n")[0]} ${stdout ?? ""}${stderr ?? ""}`.slice(0, 500),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function copyTree(folder: string): void {
  const files = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" });
  for (const file of files
    .split("\0")
    .filter((one) => one !== "" && !one.startsWith("test/fault/mutants/"))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

async function runTest(
  folder: string,
  { test, words, foundBy }: TestOptions & Mutant,
): Promise<{ isFound: boolean; words: string }> {
  const child = spawn(
    join(ROOT, "node_modules/.bin/vitest"),
    ["run", test, "--no-color", ...(words === "" ? [] : ["-t", words])],
    { cwd: folder, stdio: ["ignore", "pipe", "pipe"] },
  );
  const log: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => log.push(chunk));
  const end = () => void child.kill("SIGTERM");
  interrupted.signal.addEventListener("abort", end);
  const timer = setTimeout(end, MUTANT_MS_MAX);
  const [status] = await once(child, "exit");
  clearTimeout(timer);
  interrupted.signal.removeEventListener("abort", end);
  const lines = Buffer.concat(log).toString().split("\n");
  if (status === 0) return { isFound: false, words: "the test passed" };
  const fitting = lines.find((line) => line.includes("Error: ") && foundBy.some((one) => line.includes(one)));
  const other = lines.find((line) => line.includes("Error: ")) ?? "the test did not end in time";
  return { isFound: fitting !== undefined, words: (fitting ?? other).trim().slice(0, 300) };
}

async function runCampaign(
  folder: string,
  { faults, seed, minutes, foundBy }: CampaignOptions & Mutant,
): Promise<Verdict | null> {
  const json = join(folder, "result.json");
  const args = ["--minutes", minutes, "--seed", seed, "--faults", faults, "--json", json];
  const child = spawn(
    process.execPath,
    [
      ...["--import", "tsx", "test/fault/campaign/campaign.ts", ...args],
      ...["--quiet-seconds", QUIET_SECONDS, "--stop-at-first", foundBy.join(";")],
    ],
    { cwd: folder, stdio: ["ignore", "pipe", "inherit"] },
  );
  const log: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => log.push(chunk));
  const end = () => void child.kill("SIGTERM");
  interrupted.signal.addEventListener("abort", end);
  const timer = setTimeout(end, MUTANT_MS_MAX);
  await once(child, "exit");
  clearTimeout(timer);
  interrupted.signal.removeEventListener("abort", end);
  const kept = process.env.MUTANT_LOGS;
  if (kept) writeFileSync(join(kept, `${foundBy[0]}-${seed}.log`), Buffer.concat(log));
  try {
    return (JSON.parse(readFileSync(json, "utf8")) as { verdict: Verdict }).verdict;
  } catch {
    return null;
  }
}

function wordsOf({ violations }: Verdict, { foundBy }: Mutant): { isFound: boolean; words: string } {
  const fitting = violations.filter(({ rule }) => foundBy.includes(rule));
  const [first] = fitting;
  if (first)
    return { isFound: true, words: `${fitting.length} times ${first.rule}: ${first.subject}: ${first.what}` };
  const others = [...new Set(violations.map(({ rule }) => rule))].join(", ");
  return { isFound: false, words: others === "" ? "nothing was violated" : `only ${others}` };
}
