/** `postrider suppression`, as it is typed. */
import { Command, Option } from "commander";
import { SUPPRESSION_REASONS } from "../../rules/suppression.ts";
import { runsWithStores } from "./runs.ts";
import { ofWorkspace } from "./workspace.ts";

const actions = () => import("../suppression.ts");

export function suppressionCommand(): Command {
  const command = new Command("suppression").description(
    "addresses that a workspace does not write to, and why",
  );
  ofWorkspace(command, "list")
    .description("list the newest 100 suppressed addresses with their evidence")
    .addOption(reasonOption())
    .action(runsWithStores(actions, "list"));
  ofWorkspace(command, "add")
    .argument("<address>", "the address to suppress")
    .addOption(reasonOption())
    .option("--scope <domain>", "suppress only e-mails from this domain and its subdomains")
    .option("--evidence <words>", "why, such as the reply of the receiver")
    .description("suppress an address; a complaint also unsubscribes its contacts")
    .action(runsWithStores(actions, "add"));
  ofWorkspace(command, "remove")
    .argument("<address-or-id>", "the suppressed address or the id of its entry")
    .description("undo a suppression, and the bounce or complaint that was counted for it")
    .action(runsWithStores(actions, "remove"));
  ofWorkspace(command, "import")
    .argument(
      "<file>",
      "a CSV file with the columns address, reason, evidence, scope; only the first is required",
    )
    .description("suppress the addresses of a CSV file; invalid rows are skipped and counted")
    .action(runsWithStores(actions, "importFile", { isLong: true }));
  ofWorkspace(command, "export")
    .description("print all entries as CSV for import, without those of erased contacts")
    .action(runsWithStores(actions, "exportAll", { isLong: true }));
  return command;
}

function reasonOption(): Option {
  return new Option("--reason <reason>", "why").choices(SUPPRESSION_REASONS);
}
