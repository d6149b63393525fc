/** `postrider queue`: what is on its way and what is stuck, and what to do about it, by destination. */
import { parseMailbox } from "../address.ts";
import { counted } from "../capacity/report/words.ts";
import { atMost } from "../clock.ts";
import { readFigures, type SendingDomain, sendingNow } from "../delivery/figures.ts";
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
import { SMARTHOST } from "../shaping/shaping.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say, table } from "./print.ts";

const REDIS_MS_MAX = 3_000;

/** `sending` is null while Redis, which has it, cannot be used. */
type ShownQueue = QueueView & { sending: readonly SendingDomain[] | null };
type RetryOptions = OutputOptions & { workspace?: string; domain?: string };
type SuspendOptions = OutputOptions & { for?: number; reason: string };
type CancelOptions = OutputOptions & { workspace: string; domain?: string };
type BounceOptions = OutputOptions & { reason: string; yes?: boolean };

export async function show(context: Context, options: OutputOptions): Promise<void> {
  // what is stuck shows without Redis, too
  const [view, sending] = await Promise.all([viewQueue(context.sql), sendingSoon(context)]);
  if (typeof sending !== "string") {
    const shown = { ...view, sending };
    return say(options, shown, text(shown));
  }
  const shown = { ...view, sending: null };
  say(options, shown, `${text(shown)}\n\nWhat is being sent is not known: ${sending}`);
}

/** Or why it is not known. */
async function sendingSoon({ redis, clock, whyNoRedis }: Context): Promise<SendingDomain[] | string> {
  const read: { sending?: SendingDomain[]; error?: unknown } = {};
  const reading = readFigures(redis, clock.now()).then(
    (figures) => {
      read.sending = sendingNow(figures);
    },
    (error) => {
      read.error = error;
    },
  );
  await atMost(REDIS_MS_MAX, reading);
  return read.sending ?? whyNoRedis(read.error);
}

export async function suspend(context: Context, text: string, options: SuspendOptions): Promise<void> {
  const { sql, clock } = context;
  const destination = await readDestination(context, text);
  const now = clock.now();
  const until = options.for === undefined ? null : new Date(now + options.for);
  await suspendDestination(sql, { destination, until, reason: options.reason }, new Date(now));
  const end = until === null ? "until you resume it" : `until ${until.toISOString()}`;
  say(options, { destination, until, reason: options.reason }, `Mail to ${destination} is suspended ${end}.`);
}

export async function resume(context: Context, text: string, options: OutputOptions): Promise<void> {
  const destination = await readDestination(context, text);
  const ended = await resumeDestination(context.sql, destination);
  if (ended === 0)
    throw new CommandError(`${destination} is not suspended. \`postrider queue\` shows what is.`);
  say(options, { destination, resumed: true }, `Mail to ${destination} continues within seconds.`);
}

export async function retry(
  context: Context,
  text: string | undefined,
  options: RetryOptions,
): Promise<void> {
  const { sql, clock } = context;
  const named = text ?? options.domain;
  const destination = named === undefined ? null : await readDestination(context, named);
  const chosen = { workspaceId: options.workspace ?? null, destination };
  const count = await retryDeferred(sql, chosen, new Date(clock.now()));
  say(options, { retried: count }, `${counted(count, "e-mail is", "e-mails are")} due now.`);
}

export async function bounce(context: Context, text: string, options: BounceOptions): Promise<void> {
  const { sql, clock } = context;
  const destination = await readDestination(context, text);
  if (!options.yes)
    throw new CommandError(
      `This ends all deferred e-mails to ${destination}, of all workspaces, and cannot be undone. Add --yes to do it.`,
    );
  const count = await bounceDeferred(sql, destination, options.reason, new Date(clock.now()));
  say(options, { bounced: count }, `${counted(count, "e-mail is", "e-mails are")} bounced.`);
}

export async function shards(
  { sql }: Context,
  number: number | undefined,
  options: OutputOptions,
): Promise<void> {
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

export async function cancel(context: Context, options: CancelOptions): Promise<void> {
  const { workspace, domain } = options;
  // an empty one, such as a variable that is not set, would stand for the smarthost's mail
  const destination = domain === undefined ? null : await readDestination(context, domain);
  const now = new Date(context.clock.now());
  const count = await cancelDeferred(context.sql, workspace, destination, now);
  say(options, { canceled: count }, `${counted(count, "e-mail is", "e-mails are")} canceled.`);
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
  const known = kept ? await providersOf(kept.text) : [];
  // one that the file does not name any more can be suspended all the same
  if (known.includes(name) || (await listHolds(sql)).some(({ destination }) => destination === name))
    return name;
  const names = known.length > 0 ? `Its providers are ${known.join(", ")}.` : "No shaping file names any.";
  throw new CommandError(`${text} is neither a domain nor a provider of the shaping file. ${names}`);
}

/** The checker of shaping files takes long to load, and few have one. */
async function providersOf(shaping: string): Promise<string[]> {
  const { readShaping } = await import("../shaping/file.ts");
  return Object.keys(readShaping(shaping).providers ?? {});
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
  const active = (sending ?? []).map((one) => [
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
  const none =
    sending === null ? "No mail is deferred or suspended." : "No mail is being sent, deferred or suspended.";
  const rest = shown.length > 0 ? shown : [none];
  return [table(counts, ["", ""]).trimStart(), ...rest].join("\n\n");
}
