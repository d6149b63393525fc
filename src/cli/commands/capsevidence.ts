/** `postrider caps evidence import`, as it is typed. */
import { Command } from "commander";
import { runsWithStores } from "./runs.ts";

const actions = () => import("../capsevidence.ts");

export function evidenceCommand(): Command {
  const command = new Command("evidence").description(
    "import what providers show senders, as evidence for the caps",
  );
  command
    .command("import")
    .argument(
      "<file>",
      "CSV with a header, or a JSON array: domain, day, complaint_rate, reputation, delivered, provider",
    )
    .option("--json", "print JSON")
    .description(
      "import complaint rates and reputations, as providers show them to senders, by domain, day and provider",
    )
    .action(runsWithStores(actions, "importEvidence", { isLong: true }));
  return command;
}
