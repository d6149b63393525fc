/**
 * The examples of README and docs/ that are marked with `run` behind their language, as a reader would paste
 * them: one after the other for each page, against an engine whose demo workspace they are written for.
 */
import { spawn } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, settingsOf, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PRINTED = "http://127.0.0.1:3000";
const EXAMPLE = /^```(sh|js|ts) run\n([\s\S]*?)^```$/gm;
const PAGES = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)]
  .filter((page) => page.endsWith(".md"))
  .map((page) => ({ page, examples: examplesIn(readFileSync(join(ROOT, page), "utf8")) }))
  .filter(({ examples }) => examples.length > 0);

type Example = { language: "sh" | "js" | "ts"; code: string };

let engine: Engine;
let stage: Stage;
let folder: string;

beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  folder = mkdtempSync(join(tmpdir(), "postrider-examples-"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, "bin"));
  symlinkSync(join(ROOT, "caps"), join(folder, "caps"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  // `--fail-with-body`: a refusal ends the example
  put("curl", `PATH="$OUTER_PATH" exec curl --fail-with-body --silent --show-error "$@"`);
  put("postrider", `exec "${process.execPath}" "${ROOT}dist/cli/postrider.js" "$@"`);
});
afterAll(async () => {
  await engine.stop();
  rmSync(folder, { recursive: true, force: true });
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

test("there are examples", () => {
  expect(PAGES.map(({ page }) => page)).toContain("README.md");
});

test.each(PAGES)("those of $page work", { timeout: 120_000 }, async ({ examples }) => {
  const { id, client } = await engine.workspace("pro");
  const audience = await client.post<{ id: string }>("/audiences", { name: "Examples" });
  const env = {
    ...settingsOf(stage),
    KEY: client.key,
    WORKSPACE: id,
    AUDIENCE: audience.body.id,
    OUTER_PATH: process.env.PATH,
    PATH: `${join(folder, "bin")}:${process.env.PATH}`,
    HOME: folder,
  };
  for (const example of examples) {
    const { status, said } = await run(example, env);
    expect(status, `${example.code}\n${said}`).toBe(0);
  }
});

function examplesIn(markdown: string): Example[] {
  return [...markdown.matchAll(EXAMPLE)].map(([, language, code]) => ({
    language: language as Example["language"],
    code: code as string,
  }));
}

function run(
  { language, code }: Example,
  env: NodeJS.ProcessEnv,
): Promise<{ status: number | null; said: string }> {
  const here = code.replaceAll(PRINTED, engine.url);
  const file = join(folder, language === "sh" ? "example.sh" : "example.mjs"); // no example has types
  writeFileSync(file, here);
  const [program, ...args] = language === "sh" ? ["bash", "-euo", "pipefail"] : [process.execPath];
  const child = spawn(program as string, [...args, file], { cwd: folder, env });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  return new Promise((resolve) => child.once("close", (status) => resolve({ status, said })));
}

/** A command of the examples. */
function put(name: string, script: string): void {
  const file = join(folder, "bin", name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
}
