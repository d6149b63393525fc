/** `postrider queue`, as it is typed. */
import { Command, InvalidArgumentError } from "commander";
import { SHARDS_MAX } from "../../rules/shards.ts";
import { readReason } from "./authored.ts";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../queue.ts");

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const REASON_DEFAULT = "suspended by an operator";
const BOUNCE_DEFAULT = "bounced by an operator";

export function queueCommand(): Command {
  const command = new Command("queue").description(
    "show mail by destination; suspend, resume, retry, bounce or cancel it",
  );
  command.option("--json", "print JSON").action(runsWithStores(actions, "show"));
  about(command, "suspend")
    .description("send nothing to a destination: its mail waits, and no attempt is counted")
    .option("--for <span>", "how long, such as 30m, 12h or 7d; default: until it is resumed", readSpan)
    .option("--reason <text>", "why; callers read it as the reason of the e-mail", readReason, REASON_DEFAULT)
    .action(runsWithStores(actions, "suspend"));
  about(command, "resume")
    .description("end a suspension, and what automatic rules did to the destination: its mail is due")
    .action(runsWithStores(actions, "resume"));
  about(command, "bounce")
    .description("end all deferred e-mails to a destination, as bounced by an operator")
    .option("--reason <text>", "why; callers read it as the reason of the e-mail", readReason, BOUNCE_DEFAULT)
    .option("--yes", "confirm: this cannot be undone")
    .action(runsWithStores(actions, "bounce"));
  command
    .command("retry")
    .argument("[destination]", "a domain or a provider; default: all")
    .description("try deferred e-mails again now")
    .option("--workspace <id>", "only e-mails of this workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "retry"));
  command
    .command("shards")
    .argument("[number]", `how many from now on, 1 to ${SHARDS_MAX}`, readShards)
    .description("show the shards of the queue, or change their number while everything runs")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "shards"));
  command
    .command("cancel")
    .description("cancel deferred e-mails")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "cancel"));
  return command;
}

function about(command: Command, name: string): Command {
  return command
    .command(name)
    .argument("<destination>", "a recipient domain, a provider of the shaping file, or `smarthost`")
    .option("--json", "print JSON");
}

function readShards(text: string): number {
  const number = Number(text);
  if (!/^\d{1,3}$/.test(text) || number < 1 || number > SHARDS_MAX)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${SHARDS_MAX}.`);
  return number;
}

function readSpan(text: string): number {
  const span = /^([1-9]\d{0,4})([mhd])$/.exec(text);
  if (!span) throw new InvalidArgumentError("It must be a span such as 30m, 12h or 7d.");
  return Number(span[1]) * (UNIT_MS[span[2] as string] as number);
}
