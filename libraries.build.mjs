/**
 * Bundles libraries that consist of many files, in `dist/node_modules`, where the compiled engine finds them
 * first: reading 700 files was a quarter of the CPU of a start. Without the bundles all works the same, from
 * `node_modules`.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { rolldown } from "rolldown";

/** Each with the paths that the engine imports of it. */
const LIBRARIES = {
  "@opentelemetry/api": ["."],
  bullmq: ["."],
  ioredis: ["."],
  "prom-client": ["."],
  typebox: [".", "./compile"],
};
const ROOT = import.meta.dirname;
const FOLDER = join(ROOT, "dist", "node_modules");
const NOTE = "built-from.txt";
const ENTRY = "\0entry ";

const fileOf = (path) => (path === "." ? "./index.js" : `${path}.js`);

/** Other versions, or other contents of this file, are built anew. */
async function sourcesHash() {
  const hash = createHash("sha256");
  for (const file of [import.meta.filename, join(ROOT, "package-lock.json")])
    hash.update(await readFile(file));
  return hash.digest("hex");
}

async function build(sources) {
  const texts = { [NOTE]: sources };
  for (const { fileName, code } of await bundles()) texts[fileName] = code;
  for (const [name, paths] of Object.entries(LIBRARIES)) {
    const exports = Object.fromEntries(paths.map((path) => [path, fileOf(path)]));
    texts[join(name, "package.json")] = JSON.stringify({ name, type: "module", exports });
  }
  // whole before anybody finds it
  const fresh = `${FOLDER}.${process.pid}`;
  for (const [name, text] of Object.entries(texts)) {
    await mkdir(dirname(join(fresh, name)), { recursive: true });
    await writeFile(join(fresh, name), text);
  }
  await rm(FOLDER, { recursive: true, force: true });
  await rename(fresh, FOLDER).catch(async (error) => {
    await rm(fresh, { recursive: true });
    // somebody else builds the same
    if (!["ENOTEMPTY", "EEXIST"].includes(error.code)) throw error;
  });
}

/** What several of them use is in a file of its own, so that each class is there once. */
async function bundles() {
  const input = {};
  for (const [name, paths] of Object.entries(LIBRARIES))
    for (const path of paths) input[posix.join(name, fileOf(path))] = `${ENTRY}${posix.join(name, path)}`;
  const plugin = {
    name: "entries",
    resolveId: (id) => (id.startsWith(ENTRY) ? id : null),
    load: textOfEntry,
  };
  const bundle = await rolldown({ input, platform: "node", plugins: [plugin], logLevel: "warn" });
  const { output } = await bundle.generate({
    format: "esm",
    entryFileNames: "[name]",
    chunkFileNames: "[name].js",
  });
  return output;
}

/** CommonJS has no list of what it exports until it has run. */
async function textOfEntry(id) {
  if (!id.startsWith(ENTRY)) return null;
  const name = id.slice(ENTRY.length);
  const exported = Object.keys(await import(name));
  const names = exported.filter((one) => one !== "module.exports" && one !== "__esModule");
  return `export { ${names.join(", ")} } from ${JSON.stringify(name)};`;
}

const sources = await sourcesHash();
const known = await readFile(join(FOLDER, NOTE), "utf8").catch(() => null);
if (known !== sources) await build(sources);
