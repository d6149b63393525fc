/**
 * `npm run bench:plan -- [COSTS.json] [--per-day N ...]`: how many processes and machines so many e-mails a
 * day take, from what `npm run bench -- costs --json COSTS.json` has measured.
 */

import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { ASSUMED, costsOf, planText } from "./capacity.ts";
import { whole } from "./options.ts";
import { readResults } from "./results.ts";

const VOLUMES = [10_000_000, 100_000_000, 1_000_000_000];
const MEASURED = fileURLToPath(new URL("costs.json", import.meta.url));

type Options = { perDay: number[]; peak: number; cores: number; diskTb: number; walMb: number; days: number };

new Command("bench:plan")
  .argument("[costs]", "what `npm run bench -- costs --json` wrote", MEASURED)
  .option(
    "--per-day <n>",
    "e-mails a day; may be given several times",
    (text, given: number[]) => [...(given === VOLUMES ? [] : given), whole(1, 1e12)(text)],
    VOLUMES,
  )
  .option("--peak <n>", "the busiest hour against the mean one", whole(1, 24), ASSUMED.peak)
  .option("--cores <n>", "of a machine", whole(1, 1_000), ASSUMED.cores)
  .option("--disk-tb <n>", "of a Postgres", whole(1, 1_000), ASSUMED.diskBytes / 1e12)
  .option(
    "--wal-mb <n>",
    "that a Postgres writes in a second",
    whole(1, 10_000),
    ASSUMED.walBytesPerSecond / 1e6,
  )
  .option("--days <n>", "RETENTION_DAYS", whole(1, 3_650), ASSUMED.retentionDays)
  .action((file: string, { perDay, peak, cores, diskTb, walMb, days }: Options) => {
    const disk = { diskBytes: diskTb * 1e12, walBytesPerSecond: walMb * 1e6 };
    const assumed = { ...ASSUMED, ...disk, peak, cores, retentionDays: days };
    process.stdout.write(planText(costsOf(readResults(file)), assumed, perDay));
  })
  .parse();
