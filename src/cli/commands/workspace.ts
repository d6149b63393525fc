/** `postrider workspace`, as it is typed. */

import { Command, InvalidArgumentError } from "commander";
import { type Mailbox, parseMailbox } from "../../address.ts";
import { isUuid } from "../../ids.ts";
import { isOneOf, keysOf } from "../../names.ts";
import { CAP_MIN, isPlan, limitsOf, OVERRIDE_MAX, PLANS, type Plan } from "../../rules/plans.ts";
import { readDisplayName, readReason } from "./authored.ts";
import { runs, runsWithStores } from "./runs.ts";

const actions = () => import("../workspace.ts");

const LIMIT_NAMES = keysOf(limitsOf("pro", {}));

export function workspaceCommand(): Command {
  const command = new Command("workspace").description(
    "create workspaces, set their plans and limits, suspend them",
  );
  command
    .command("create")
    .description("create a workspace, and an owner if an address is given")
    .requiredOption("--name <name>", "a display name", readDisplayName)
    .requiredOption("--plan <plan>", `one of ${PLANS.join(", ")}`, readPlan)
    .option(
      "--owner-email <email>",
      "create an owner with this address; the password is shown once",
      (text) => readMailbox(text).address,
    )
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "create"));
  command
    .command("list")
    .description("list all workspaces")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "list"));
  command
    .command("set")
    .description("change the plan or the limits of a workspace")
    .argument("<id>", "the id of the workspace", readId)
    .option("--plan <plan>", `one of ${PLANS.join(", ")}`, readPlan)
    .option("--event-log <on|off>", "keep a log of its events, to be read by GET /events/log", readSwitch)
    .option(
      "--limit <name=value>",
      `one of ${LIMIT_NAMES.join(", ")}; name=default restores the limit of the plan; may be repeated`,
      readLimit,
      {},
    )
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "set"));
  command
    .command("suspend")
    .description("stop a workspace at once: its keys get 403 and its mail is held")
    .argument("<id>", "the id of the workspace", readId)
    .option("--reason <text>", "stored with the workspace; only operators see it", readReason)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "suspend", { isLong: true }));
  command
    .command("resume")
    .description("let a suspended workspace go on: held mail is sent, within the caps")
    .argument("<id>", "the id of the workspace", readId)
    .option("--reason <text>", "stored with the workspace; only operators see it", readReason)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "resume"));
  command
    .command("move")
    .description(
      "move a workspace to another cell while it works; if the command is interrupted, run it again",
    )
    .argument("<id>", "the id of the workspace", readId)
    .option("--to <cell>", "the cell of CELLS_FILE that it moves to")
    .option("--abort", "undo a move that has not switched yet")
    .option("--json", "print JSON")
    .action(runs(() => import("../move.ts"), "moveWorkspace"));
  return command;
}

function readPlan(text: string): Plan {
  if (!isPlan(text)) throw new InvalidArgumentError(`It must be one of ${PLANS.join(", ")}.`);
  return text;
}

export function readSwitch(text: string): boolean {
  if (text !== "on" && text !== "off") throw new InvalidArgumentError("It must be on or off.");
  return text === "on";
}

/** A command about one workspace. */
export function ofWorkspace(command: Command, name: string): Command {
  return command
    .command(name)
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON");
}

export function readId(text: string): string {
  if (!isUuid(text))
    throw new InvalidArgumentError("It must be a UUID, such as 019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90.");
  return text.toLowerCase();
}

export function readMailbox(text: string): Mailbox {
  const mailbox = parseMailbox(text);
  if (!mailbox) throw new InvalidArgumentError("It must be an address, such as a@example.com.");
  return mailbox;
}

function readLimit(text: string, limits: Record<string, number | null>): Record<string, number | null> {
  const [name = "", value = ""] = text.split("=");
  if (!isOneOf(LIMIT_NAMES, name))
    throw new InvalidArgumentError(`It must be name=value. The names are ${LIMIT_NAMES.join(", ")}.`);
  if (value === "default") return { ...limits, [name]: null };
  const number = Number(value);
  const min = name.startsWith("cap_") ? CAP_MIN : 1;
  if (!/^\d+$/.test(value) || number < min || number > OVERRIDE_MAX)
    throw new InvalidArgumentError(
      `${name} must be a whole number from ${min} to ${OVERRIDE_MAX}, or \`default\`.`,
    );
  return { ...limits, [name]: number };
}
