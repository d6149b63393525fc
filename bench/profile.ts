/** Where the CPU went: the functions of each role's newest profile with the most time of their own. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { aligned } from "./results.ts";

const SHOWN = 15;
const PLACE_PARTS = 3;

type Profile = {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
};

export function hottest(folder: string): string {
  const newest = new Map<string, string>();
  const files = existsSync(folder) ? readdirSync(folder) : []; // not every scenario starts roles
  for (const file of files.sort()) newest.set(file.replace(/-\d+\.cpuprofile$/, ""), file);
  return [...newest]
    .map(([role, file]) => {
      const profile = JSON.parse(readFileSync(join(folder, file), "utf8")) as Profile;
      return `${role}, ${join(folder, file)}\n${aligned(rowsOf(profile))}`;
    })
    .join("\n\n");
}

function rowsOf({ nodes, samples, timeDeltas }: Profile): string[][] {
  const places = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => {
      const file = url.split("/").slice(-PLACE_PARTS).join("/");
      return [id, `${functionName || "(anonymous)"}  ${file ? `${file}:${lineNumber + 1}` : ""}`];
    }),
  );
  const own = new Map<string, number>();
  for (const [n, id] of samples.entries()) {
    const place = places.get(id) ?? "";
    own.set(place, (own.get(place) ?? 0) + (timeDeltas[n] ?? 0));
  }
  const busy = [...own].filter(([place]) => !place.startsWith("(idle)"));
  const total = busy.reduce((sum, [, us]) => sum + us, 0);
  return busy
    .sort((a, b) => b[1] - a[1])
    .slice(0, SHOWN)
    .map(([place, us]) => [`${((us / total) * 100).toFixed(1)}%`.padStart(6), place]);
}
