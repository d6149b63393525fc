/** `postrider queue`: what is on its way and what is stuck, and what to do about deferred mail. */
import { Command } from "commander";
import { cancelDeferred, type QueueView, retryDeferred, viewQueue } from "../record/mail/queueview.ts";
import { type OutputOptions, say, table, withContext } from "./context.ts";
import { readId } from "./workspace.ts";

export function queueCommand(): Command {
  const command = new Command("queue").description(
    "show queued and deferred e-mails; retry or cancel deferred ones",
  );
  command.option("--json", "print JSON").action((options: OutputOptions) =>
    withContext(async ({ sql }) => {
      const view = await viewQueue(sql);
      say(options, view, text(view));
    }),
  );
  command
    .command("retry")
    .description("try deferred e-mails again now")
    .option("--workspace <id>", "only e-mails of this workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action((_, sub: Command) => {
      const options = sub.optsWithGlobals<OutputOptions & { workspace?: string; domain?: string }>();
      return withContext(async ({ sql, clock }) => {
        const chosen = { workspaceId: options.workspace ?? null, domain: options.domain ?? null };
        const count = await retryDeferred(sql, chosen, new Date(clock.now()));
        say(options, { retried: count }, `${count} e-mails are due now.`);
      });
    });
  command
    .command("cancel")
    .description("cancel deferred e-mails")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action((_, sub: Command) => {
      const options = sub.optsWithGlobals<OutputOptions & { workspace: string; domain?: string }>();
      return withContext(async ({ sql, clock }) => {
        const count = await cancelDeferred(
          sql,
          options.workspace,
          options.domain ?? null,
          new Date(clock.now()),
        );
        say(options, { canceled: count }, `${count} e-mails are canceled.`);
      });
    });
  return command;
}

function text({ bags, emails, replies, destinations }: QueueView): string {
  const counts = [
    ["bags queued", bags.in_line],
    ["bags held", bags.held_back],
    ["bags in flight", bags.leased],
    ["oldest bag", bags.oldest?.toISOString() ?? null],
    ["e-mails in bags", emails.in_bags],
    ["e-mails in flight", emails.in_flight],
    ["scheduled", emails.scheduled],
    ["waiting for a cap", emails.waiting],
    ["deferred", emails.deferred],
  ];
  const stuck = destinations.map((one) => [
    one.domain,
    one.count,
    one.next_attempt_at.toISOString(),
    one.last_reply,
  ]);
  const answered = replies.map((one) => [one.count, one.reply]);
  return [
    table(counts, ["", ""]).trimStart(),
    table(answered, ["e-mails", "deferred with the reply"]),
    table(stuck, ["deferred to", "e-mails", "next attempt", "last reply"]),
  ].join("\n\n");
}
