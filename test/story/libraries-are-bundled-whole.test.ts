/**
 * The build bundles some libraries into `dist/node_modules`, where the engine finds them first. They export
 * what the originals do, and all that the engine imports of them is there.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const DIST = join(import.meta.dirname, "../../dist");
const BUNDLES = join(DIST, "node_modules");

type Manifest = { name: string; exports: Record<string, string> };

const manifests = readdirSync(BUNDLES, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith("package.json"))
  .map((file) => JSON.parse(readFileSync(join(BUNDLES, file), "utf8")) as Manifest);

const bundled = manifests.flatMap(({ name, exports }) =>
  Object.entries(exports).map(([path, file]) => ({ id: join(name, path), file: join(BUNDLES, name, file) })),
);

test("there are some", () => {
  expect(bundled.length).toBeGreaterThan(0);
});

test.each(bundled)("$id exports what the original does", async ({ id, file }) => {
  const [ours, theirs] = await Promise.all([import(pathToFileURL(file).href), import(id)]);
  const names = Object.keys(theirs).filter((name) => !["module.exports", "__esModule"].includes(name));
  expect(Object.keys(ours).sort()).toEqual(names.sort());
});

test("each import of the engine is found", () => {
  const imported = readdirSync(DIST, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".js") && !file.startsWith("node_modules"))
    .flatMap((file) => {
      const text = readFileSync(join(DIST, file), "utf8");
      return [...text.matchAll(/(?:from|import\()\s*"([a-z@][^":]*)"/g)].map(([, id = ""]) => id);
    });
  const { resolve } = createRequire(join(DIST, "any.js"));
  const ofBundles = [...new Set(imported)].filter((id) =>
    manifests.some(({ name }) => `${id}/`.startsWith(`${name}/`)),
  );
  expect(ofBundles.map((id) => resolve(id)).sort()).toEqual(bundled.map(({ file }) => file).sort());
});
