/** `postrider webhook`, as it is typed. */
import { Command, Option } from "commander";
import { readTime } from "../time.ts";
import { reads, runsWithStores } from "./runs.ts";
import { ofWorkspace, readId } from "./workspace.ts";

const actions = () => import("../webhook.ts");

export function webhookCommand(): Command {
  const command = new Command("webhook").description(
    "endpoints to which events are posted: add, test and repair them",
  );
  ofWorkspace(command, "add")
    .argument("<url>", "where to send events, such as `https://example.com/webhooks`")
    .option(
      "--events <types>",
      "comma-separated, such as `email.delivered,email.bounced`; default: all",
      readTypes,
    )
    .option("--ed25519", "sign with a key pair as well")
    .description("add an endpoint and show its secret, once")
    .action(runsWithStores(actions, "add"));
  ofWorkspace(command, "list")
    .description("list endpoints, newest first")
    .action(runsWithStores(actions, "list"));
  one(command, "show", "show an endpoint and its state", runsWithStores(actions, "show"));
  one(command, "remove", "remove an endpoint: it gets no more events", runsWithStores(actions, "remove"));
  one(
    command,
    "enable",
    "enable an endpoint again: it gets the events that it missed",
    runsWithStores(actions, "enable"),
  );
  one(
    command,
    "disable",
    "send nothing to an endpoint until it is enabled",
    runsWithStores(actions, "disable"),
  );
  one(
    command,
    "rotate",
    "make a new secret and show it; the old one signs for another day",
    runsWithStores(actions, "rotate"),
  );
  one(
    command,
    "test",
    "send a test event and wait for the answer",
    runsWithStores(actions, "test", { isLong: true }),
  );
  ofWorkspace(command, "attempts")
    .argument("<id>", "the id of the webhook", readId)
    .option("--event <id>", "only of this event", reads(actions, "readEvent"))
    .description("list attempts, newest first, with what was answered")
    .action(runsWithStores(actions, "attempts"));
  ofWorkspace(command, "replay")
    .argument("<id>", "the id of the webhook", readId)
    .addOption(new Option("--event <id>", "one event").argParser(reads(actions, "readEvent")))
    .option("--failed", "all events that failed for good")
    .option("--since <time>", "all events from this time on, such as `2026-11-20T20:07:38Z`", readTime)
    .option("--until <time>", "with --since: up to this time; default: now", readTime)
    .description("send events again, with the ids they had")
    .action(runsWithStores(actions, "replay", { isLong: true }));
  return command;
}

function one(command: Command, name: string, does: string, action: ReturnType<typeof runsWithStores>): void {
  ofWorkspace(command, name)
    .argument("<id>", "the id of the webhook", readId)
    .description(does)
    .action(action);
}

function readTypes(text: string): string[] {
  return text.split(",").map((one) => one.trim());
}
