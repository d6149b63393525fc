/**
 * fair: a workspace with a backlog, four with some mail, one that sends a single mail now and then and one
 * that sends ten a second, all at once. How long the mail of the last two takes, and how evenly the others
 * are served meanwhile.
 */

import { figure } from "../figure.ts";
import { quantile, quantilesOf } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { inLine, prefill } from "../prefill.ts";
import type { Scenario } from "../scenario.ts";
import { waitsOfSingles } from "../singles.ts";
import { after, until } from "../until.ts";

const MEDIUM = 4;
/** More than its share of what the engine sends, so that none runs dry while it is looked at. */
const MEDIUM_PER_SECOND = 4_000;
const RAMP_SECONDS = 4;
const QUIET_PER_SECOND = 2;
const MODEST_PER_SECOND = 10;
const BAG_EMAILS = 100;

async function deliveredOf({ sql }: Bench, ids: readonly string[]): Promise<number[]> {
  const rows = await sql<{ id: string; count: number }[]>`
    select workspace_id as id, sum(delivered)::int as count from tally where workspace_id = any(${ids}::uuid[]) group by 1`;
  return ids.map((id) => rows.find((row) => row.id === id)?.count ?? 0);
}

const fair: Scenario = {
  name: "fair",
  does: "a quiet workspace and four busy ones beside one with a backlog",
  async run(bench, run) {
    const { seconds, sizes, tell } = run;
    const [heavy, quiet, modest, ...medium] = await Promise.all(
      Array.from({ length: MEDIUM + 3 }, () => bench.workspace()),
    );
    if (!heavy || !quiet || !modest) throw new Error("There are no workspaces.");
    const some = MEDIUM_PER_SECOND * (seconds + RAMP_SECONDS);
    const mediumIds = medium.map(({ id }) => id);
    await prefill(bench, run, [heavy.id], sizes.backlog);
    await prefill(bench, run, mediumIds, some * MEDIUM);
    const [api] = [await bench.role("api"), await bench.role("keeper")];
    const wanted = (some * MEDIUM) / BAG_EMAILS;
    await until("the bags were in line", async () => (await inLine(bench)) >= wanted);
    await bench.role("deliver");
    await after(1_500);

    const busy = [heavy.id, ...mediumIds];
    const before = await deliveredOf(bench, busy);
    tell("quiet mail beside the others");
    const began = performance.now();
    const singles = (workspace: Workspace, rate: number) =>
      waitsOfSingles(bench, api.url, workspace, { rate, count: rate * seconds });
    const [waits, modestWaits] = await Promise.all([
      singles(quiet, QUIET_PER_SECOND),
      singles(modest, MODEST_PER_SECOND),
    ]);
    const passed = (performance.now() - began) / 1000;
    const served = (await deliveredOf(bench, busy)).map(
      (count, n) => (count - (before[n] as number)) / passed,
    );
    return {
      figures: [
        figure("quiet mail p50", quantile(waits, 0.5), "ms"),
        figure("quiet mail p99", quantile(waits, 0.99), "ms"),
        figure("quiet mail, slowest", waits.at(-1) as number, "ms", "at most 1,000"),
        figure("ten a second p50", quantile(modestWaits, 0.5), "ms"),
        figure("ten a second, slowest", modestWaits.at(-1) as number, "ms"),
        figure("e-mails of the one with a backlog", served[0] as number, "/s"),
        figure("e-mails of the others, least", Math.min(...served.slice(1)), "/s"),
        figure("e-mails of the others, most", Math.max(...served.slice(1)), "/s"),
        figure("least against most of all five", Math.min(...served) / Math.max(...served), "x", "about 1"),
      ],
      distributions: [
        { name: "a quiet mail until it is delivered", unit: "ms", points: quantilesOf(waits) },
        { name: "one of ten a second", unit: "ms", points: quantilesOf(modestWaits) },
      ],
    };
  },
};

export const scenarios = [fair];
