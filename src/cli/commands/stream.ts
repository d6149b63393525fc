/** `postrider stream`, as it is typed. */
import { Command, InvalidArgumentError, Option } from "commander";
import { BULK, isStreamName, RESERVED_SHARES_MAX, TRANSACTIONAL } from "../../rules/stream.ts";
import { runsWithStores } from "./runs.ts";
import { ofWorkspace } from "./workspace.ts";

const actions = () => import("../stream.ts");

export function streamCommand(): Command {
  const command = new Command("stream").description("what a workspace sends, by what kind of mail it is");
  ofWorkspace(command, "create")
    .argument("<name>", "1 to 32 characters of a-z, 0-9 and -", readName)
    .addOption(
      new Option("--kind <kind>", "bulk leaves a share of the caps to transactional mail and is paused first")
        .choices([TRANSACTIONAL, BULK])
        .default(BULK),
    )
    .option("--reserved-share <share>", "the share of the caps that other streams may not use", readShare)
    .option("--pool <name>", "of source addresses, in the shaping file")
    .description("create a stream; e-mails name it in `stream`, or their key does")
    .action(runsWithStores(actions, "create"));
  ofWorkspace(command, "list")
    .description("list the streams of a workspace, with what waits in each")
    .action(runsWithStores(actions, "list"));
  ofWorkspace(command, "change")
    .argument("<name>", "the stream", readName)
    .option("--reserved-share <share>", "the share of the caps that other streams may not use", readShare)
    .option("--pool <name>", "of source addresses, in the shaping file")
    .option("--no-pool", "use the shaping file's source addresses")
    .description("change the reserved share or the pool of a stream")
    .action(runsWithStores(actions, "change"));
  ofWorkspace(command, "delete")
    .argument("<name>", "the stream", readName)
    .description("delete a stream that no key sends in; what waits in it still goes out")
    .action(runsWithStores(actions, "remove"));
  return command;
}

function readName(text: string): string {
  if (isStreamName(text)) return text;
  throw new InvalidArgumentError("A name has 1 to 32 characters of a-z, 0-9 and -.");
}

function readShare(text: string): number {
  const share = Number(text);
  if (text.trim() !== "" && share >= 0 && share <= RESERVED_SHARES_MAX) return share;
  throw new InvalidArgumentError(`A share is a number from 0 to ${RESERVED_SHARES_MAX}, such as 0.2.`);
}
