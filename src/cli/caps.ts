/** `postrider caps`: the sending caps of workspaces, and the policy that moves them. */
import { Command } from "commander";
import { simulateCommand } from "./simulate.ts";

export function capsCommand(): Command {
  const command = new Command("caps").description("sending caps, and the policy that moves them");
  for (const make of [simulateCommand]) command.addCommand(make());
  return command;
}
