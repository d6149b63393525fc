/** `postrider caps replay` and `caps compare`, as they are typed. */

import { Command } from "commander";
import { readTime } from "../time.ts";
import { REPLAYED_WORKSPACES_MAX } from "./limits.ts";
import { reads, runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../capsreplay.ts");

export function replayCommand(): Command {
  return new Command("replay")
    .requiredOption("--policy <file>", "the policy file", reads(actions, "readFile"))
    .option(
      "--workspace <id>",
      `the workspace; default: the ${REPLAYED_WORKSPACES_MAX} that sent most`,
      readId,
    )
    .option("--from <time>", "an RFC 3339 time or a day; default: a week ago", readTime)
    .option("--to <time>", "default: now", readTime)
    .option("--json", "print JSON")
    .description("apply another policy to recorded mail, from the caps that each workspace had then")
    .action(runsWithStores(actions, "showReplay", { isLong: true }));
}

export function compareCommand(): Command {
  return new Command("compare")
    .option(
      "--workspace <id>",
      `the workspace; default: the ${REPLAYED_WORKSPACES_MAX} that sent most`,
      readId,
    )
    .option("--json", "print JSON")
    .description(
      "compare the shadow policy with the one in force: bad mail, waits and freezes since it began",
    )
    .action(runsWithStores(actions, "compare", { isLong: true }));
}
