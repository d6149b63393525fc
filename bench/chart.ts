/** `npm run bench:chart -- RESULTS.json FILE.svg`: draws the chart of the README from what `--json` wrote. */
import { writeFileSync } from "node:fs";
import { throughputChart } from "./report/throughput.ts";
import { readResults } from "./results.ts";

const [from, to] = process.argv.slice(2);
if (from === undefined || to === undefined) {
  process.stderr.write("Usage: npm run bench:chart -- RESULTS.json FILE.svg\n");
  process.exit(2);
}
try {
  writeFileSync(to, throughputChart(readResults(from)));
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exit(1);
}
