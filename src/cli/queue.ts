/** `postrider queue`: what is on its way and what is stuck, and what to do about it, by destination. */
import { Command, InvalidArgumentError } from "commander";
import { parseMailbox } from "../address.ts";
import { type DomainFigures, readFigures, type SendingDomain, sendingNow } from "../delivery/figures.ts";
import {
  listHolds,
  loadShaping,
  resumeDestination,
  suspendDestination,
} from "../record/mail/destinations.ts";
import { setShards, viewShards } from "../record/mail/queueshards.ts";
import {
  bounceDeferred,
  cancelDeferred,
  type QueueView,
  retryDeferred,
  viewQueue,
} from "../record/mail/queueview.ts";
import { SHARDS_MAX } from "../rules/shards.ts";
import { readShaping } from "../shaping/file.ts";
import { SMARTHOST } from "../shaping/shaping.ts";
import { CommandError, type Context, type OutputOptions, say, table, withContext } from "./context.ts";
import { readId } from "./workspace.ts";

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const REASON_CHARS_MAX = 300;
const REASON_DEFAULT = "suspended by an operator";
const BOUNCE_DEFAULT = "bounced by an operator";

type ShownQueue = QueueView & { sending: readonly SendingDomain[] };
type RetryOptions = OutputOptions & { workspace?: string; domain?: string };
type SuspendOptions = OutputOptions & { for?: number; reason: string };
type BounceOptions = OutputOptions & { reason: string; yes?: boolean };

export function queueCommand(): Command {
  const command = new Command("queue").description(
    "show mail by destination; suspend, resume, retry, bounce or cancel it",
  );
  command.option("--json", "print JSON").action((options: OutputOptions) =>
    withContext(async ({ sql, redis, clock }) => {
      const [view, figures] = await Promise.all([
        viewQueue(sql),
        // what is stuck shows without Redis, too
        readFigures(redis, clock.now()).catch(() => new Map<string, DomainFigures>()),
      ]);
      const shown = { ...view, sending: sendingNow(figures) };
      say(options, shown, text(shown));
    }),
  );
  about(command, "suspend")
    .description("send nothing to a destination: its mail waits, and no attempt is counted")
    .option("--for <span>", "how long, such as 30m, 12h or 7d; default: until it is resumed", readSpan)
    .option("--reason <text>", "why; callers read it as the reason of the e-mail", readReason, REASON_DEFAULT)
    .action((destination: string, _, sub: Command) =>
      withContext((context) => suspend(context, destination, sub.optsWithGlobals<SuspendOptions>())),
    );
  about(command, "resume")
    .description("end a suspension, and what automatic rules did to the destination: its mail is due")
    .action((destination: string, _, sub: Command) =>
      withContext((context) => resume(context, destination, sub.optsWithGlobals<OutputOptions>())),
    );
  about(command, "bounce")
    .description("end all deferred e-mails to a destination, as bounced by an operator")
    .option("--reason <text>", "why; callers read it as the reason of the e-mail", readReason, BOUNCE_DEFAULT)
    .option("--yes", "confirm: this cannot be undone")
    .action((destination: string, _, sub: Command) =>
      withContext((context) => bounce(context, destination, sub.optsWithGlobals<BounceOptions>())),
    );
  command
    .command("retry")
    .argument("[destination]", "a domain or a provider; default: all")
    .description("try deferred e-mails again now")
    .option("--workspace <id>", "only e-mails of this workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action((destination: string | undefined, _, sub: Command) =>
      withContext((context) => retry(context, destination, sub.optsWithGlobals<RetryOptions>())),
    );
  command
    .command("shards")
    .argument("[number]", `how many from now on, 1 to ${SHARDS_MAX}`, readShards)
    .description("show the shards of the queue, or change their number while everything runs")
    .option("--json", "print JSON")
    .action((number: number | undefined, _, sub: Command) =>
      withContext((context) => shards(context, number, sub.optsWithGlobals<OutputOptions>())),
    );
  command
    .command("cancel")
    .description("cancel deferred e-mails")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--domain <domain>", "only e-mails to this domain")
    .option("--json", "print JSON")
    .action((_, sub: Command) => {
      const options = sub.optsWithGlobals<OutputOptions & { workspace: string; domain?: string }>();
      return withContext(async ({ sql, clock }) => {
        const now = new Date(clock.now());
        const count = await cancelDeferred(sql, options.workspace, options.domain ?? null, now);
        say(options, { canceled: count }, `${count} e-mails are canceled.`);
      });
    });
  return command;
}

function about(command: Command, name: string): Command {
  return command
    .command(name)
    .argument("<destination>", "a recipient domain, a provider of the shaping file, or `smarthost`")
    .option("--json", "print JSON");
}

async function suspend(context: Context, text: string, options: SuspendOptions): Promise<void> {
  const { sql, clock } = context;
  const destination = await readDestination(context, text);
  const now = clock.now();
  const until = options.for === undefined ? null : new Date(now + options.for);
  await suspendDestination(sql, { destination, until, reason: options.reason }, new Date(now));
  const end = until === null ? "until you resume it" : `until ${until.toISOString()}`;
  say(options, { destination, until, reason: options.reason }, `Mail to ${destination} is suspended ${end}.`);
}

async function resume(context: Context, text: string, options: OutputOptions): Promise<void> {
  const destination = await readDestination(context, text);
  const ended = await resumeDestination(context.sql, destination);
  if (ended === 0)
    throw new CommandError(`${destination} is not suspended. \`postrider queue\` shows what is.`);
  say(options, { destination, resumed: true }, `Mail to ${destination} continues within seconds.`);
}

async function retry(context: Context, text: string | undefined, options: RetryOptions): Promise<void> {
  const { sql, clock } = context;
  const destination = text === undefined ? (options.domain ?? null) : await readDestination(context, text);
  const chosen = { workspaceId: options.workspace ?? null, destination };
  const count = await retryDeferred(sql, chosen, new Date(clock.now()));
  say(options, { retried: count }, `${count} e-mails are due now.`);
}

async function bounce(context: Context, text: string, options: BounceOptions): Promise<void> {
  const { sql, clock } = context;
  const destination = await readDestination(context, text);
  if (!options.yes)
    throw new CommandError(
      `This ends all deferred e-mails to ${destination}, of all workspaces, and cannot be undone. Add --yes to do it.`,
    );
  const count = await bounceDeferred(sql, destination, options.reason, new Date(clock.now()));
  say(options, { bounced: count }, `${count} e-mails are bounced.`);
}

async function shards({ sql }: Context, number: number | undefined, options: OutputOptions): Promise<void> {
  if (number !== undefined) await setShards(sql, number);
  const each = await viewShards(sql);
  const open = each.filter(({ state }) => state === "open").length;
  const rows = each.map((one) => [
    one.shard,
    one.state,
    one.queued,
    one.held_back,
    one.leased,
    one.oldest?.toISOString() ?? null,
  ]);
  const head = ["shard", "is", "bags queued", "held", "in flight", "oldest"];
  say(options, { shards: open, each }, table(rows, head));
}

function readShards(text: string): number {
  const number = Number(text);
  if (!/^\d{1,3}$/.test(text) || number < 1 || number > SHARDS_MAX)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${SHARDS_MAX}.`);
  return number;
}

/** A name without a dot is a provider's. */
async function readDestination({ sql }: Context, text: string): Promise<string> {
  const name = text.trim().toLowerCase();
  if (name === SMARTHOST) return name;
  if (name.includes(".")) {
    const domain = parseMailbox(`x@${name}`)?.domain;
    if (domain === undefined)
      throw new CommandError(`${text} is not a domain. Write one such as example.com.`);
    return domain;
  }
  const kept = await loadShaping(sql);
  const known = kept ? Object.keys(readShaping(kept.text).providers ?? {}) : [];
  // one that the file does not name any more can be suspended all the same
  if (known.includes(name) || (await listHolds(sql)).some(({ destination }) => destination === name))
    return name;
  const names = known.length > 0 ? `Its providers are ${known.join(", ")}.` : "No shaping file names any.";
  throw new CommandError(`${text} is neither a domain nor a provider of the shaping file. ${names}`);
}

function readSpan(text: string): number {
  const span = /^([1-9]\d{0,4})([mhd])$/.exec(text);
  if (!span) throw new InvalidArgumentError("It must be a span such as 30m, 12h or 7d.");
  return Number(span[1]) * (UNIT_MS[span[2] as string] as number);
}

function readReason(text: string): string {
  const reason = text.trim();
  if (reason === "" || reason.length > REASON_CHARS_MAX)
    throw new InvalidArgumentError(`It must have 1 to ${REASON_CHARS_MAX} characters.`);
  return reason;
}

function text({ bags, emails, replies, destinations, holds, sending }: ShownQueue): string {
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
    one.next_attempt_at?.toISOString() ?? "when resumed",
    one.last_reply,
  ]);
  const active = sending.map((one) => [
    one.domain,
    one.in_flight,
    one.delivered_per_minute,
    one.last_refusals.at(-1)?.text ?? null,
  ]);
  const answered = replies.map((one) => [one.count, one.reply]);
  const held = holds.map((one) => [
    one.destination,
    one.kind === "suspended" ? "suspended" : `slowed to ${Math.round(one.factor * 100)}%`,
    one.until?.toISOString() ?? "resumed",
    one.waiting,
    one.source || "all",
    one.setBy,
    one.reason,
  ]);
  const tables: [readonly (readonly unknown[])[], readonly string[]][] = [
    [answered, ["e-mails", "deferred with the reply"]],
    [active, ["sending to", "in flight", "delivered/min", "last refusal"]],
    [stuck, ["deferred to", "e-mails", "next attempt", "last reply"]],
    [held, ["destination", "is", "until", "waiting", "source", "set by", "reason"]],
  ];
  const shown = tables.filter(([rows]) => rows.length > 0).map(([rows, head]) => table(rows, head));
  const rest = shown.length > 0 ? shown : ["No mail is being sent, deferred or suspended."];
  return [table(counts, ["", ""]).trimStart(), ...rest].join("\n\n");
}
