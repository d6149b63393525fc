/** `postrider webhook`: endpoints that are told of the events of a workspace. */
import { Command, InvalidArgumentError, Option } from "commander";
import { newId } from "../ids.ts";
import {
  type ListedAttempt,
  listAttempts,
  replayEvent,
  replayFailed,
  replayRange,
  sequencesBetween,
} from "../record/outbox/replay.ts";
import {
  changeWebhook,
  deleteWebhook,
  findWebhook,
  listWebhooks,
  type Webhook,
  type WebhookKey,
} from "../record/outbox/webhooks.ts";
import { egressRules } from "../webhooks/endpoint.ts";
import { addEndpoint, rotateSecrets, sendTest } from "../webhooks/owner.ts";
import { eventId, sequenceOf } from "../webhooks/payload.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import {
  CommandError,
  type Context,
  type OutputOptions,
  requireSecret,
  say,
  table,
  time,
  unknownWorkspace,
  withContext,
} from "./context.ts";
import { readTime } from "./time.ts";
import { ofWorkspace, readId } from "./workspace.ts";

const LINES_SHOWN = 100;
const FAILED_AT_ONCE_MAX = 5_000;
/** Longer than an endpoint may take to answer. */
const TEST_MS_MAX = 20_000;
const LOOK_MS = 200;

type WebhookOf = OutputOptions & { workspace: string };
type AddEndpointOptions = WebhookOf & { events?: string[]; ed25519?: boolean };
type SendAgainOptions = WebhookOf & { event?: number; failed?: boolean; since?: Date; until?: Date };

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
    .action((url, options) => withContext((context) => add(context, url, options)));
  ofWorkspace(command, "list")
    .description("list endpoints, newest first")
    .action((options) => withContext((context) => list(context, options)));
  one(command, "show", "show an endpoint and its state", show);
  one(command, "remove", "remove an endpoint: it gets no more events", remove);
  one(command, "enable", "enable an endpoint again: it gets the events that it missed", enable);
  one(command, "disable", "send nothing to an endpoint until it is enabled", disable);
  one(command, "rotate", "make a new secret and show it; the old one signs for another day", rotate);
  one(command, "test", "send a test event and wait for the answer", test, { isLong: true });
  ofWorkspace(command, "attempts")
    .argument("<id>", "the id of the webhook", readId)
    .option("--event <id>", "only of this event", readEvent)
    .description("list attempts, newest first, with what was answered")
    .action((id, options) => withContext((context) => attempts(context, id, options)));
  ofWorkspace(command, "replay")
    .argument("<id>", "the id of the webhook", readId)
    .addOption(new Option("--event <id>", "one event").argParser(readEvent))
    .option("--failed", "all events that failed for good")
    .option("--since <time>", "all events from this time on, such as `2026-11-20T20:07:38Z`", readTime)
    .option("--until <time>", "with --since: up to this time; default: now", readTime)
    .description("send events again, with the ids they had")
    .action((id, options) => withContext((context) => replay(context, id, options), { isLong: true }));
  return command;
}

function one(
  command: Command,
  name: string,
  does: string,
  run: (context: Context, key: WebhookKey, options: OutputOptions) => Promise<void>,
  how: { isLong?: boolean } = {},
): void {
  ofWorkspace(command, name)
    .argument("<id>", "the id of the webhook", readId)
    .description(does)
    .action((id, options: WebhookOf) =>
      withContext((context) => run(context, { workspaceId: options.workspace, id }, options), how),
    );
}

async function add(context: Context, url: string, options: AddEndpointOptions): Promise<void> {
  const { workspace, events = null, ed25519 = false } = options;
  const wish = { endpoint: url, events, hasKeyPair: ed25519 };
  const added = await addEndpoint(partsOf(context), workspace, wish, context.clock.now());
  if ("isUnknown" in added) throw unknownWorkspace(workspace);
  if ("fault" in added) {
    const { field, words } = added.fault;
    throw new CommandError(field === null ? words : `The ${field === "endpoint" ? "URL" : field} ${words}.`);
  }
  const { id, secret, publicKey } = added;
  say(
    options,
    { id, signing_secret: secret, public_key: publicKey },
    `Webhook ${id}.\n${secretLines(secret, publicKey)}`,
  );
}

function secretLines(secret: string, publicKey: string | null): string {
  const line = `Secret ${secret} (shown once).`;
  return publicKey === null ? line : `${line}\nPublic key ${publicKey}.`;
}

async function list({ sql }: Context, options: WebhookOf): Promise<void> {
  const page = { after: null, before: null, limit: LINES_SHOWN };
  const rows = (await listWebhooks(sql, options.workspace, page)).slice(0, LINES_SHOWN);
  const cells = rows.map((row) => [row.id, stateOf(row), row.behind, row.endpoint, row.events ?? "all"]);
  say(options, rows.map(shown), table(cells, ["id", "status", "behind", "endpoint", "events"]));
}

async function show({ sql }: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  const found = await existing(await findWebhook(sql, key), key);
  const value = shown(found);
  say(options, value, table(Object.entries(value), ["", ""]));
}

async function remove({ sql }: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  if (!(await deleteWebhook(sql, key))) throw unknownWebhook(key);
  say(options, { id: key.id, deleted: true }, `Webhook ${key.id} is removed.`);
}

async function enable(context: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  await setStatus(context, key, "enabled", options);
}

async function disable(context: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  await setStatus(context, key, "disabled", options);
}

async function setStatus(
  { sql, clock }: Context,
  key: WebhookKey,
  status: Webhook["status"],
  options: OutputOptions,
): Promise<void> {
  if (!(await changeWebhook(sql, key, { status }, new Date(clock.now())))) throw unknownWebhook(key);
  say(options, { id: key.id, status }, `Webhook ${key.id} is ${status}.`);
}

async function rotate(context: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  const fresh = await rotateSecrets(partsOf(context), key, context.clock.now());
  if (!fresh) throw unknownWebhook(key);
  const { secret, publicKey } = fresh;
  const value = { id: key.id, signing_secret: secret, public_key: publicKey };
  say(options, value, secretLines(secret, publicKey));
}

async function test({ sql, clock }: Context, key: WebhookKey, options: OutputOptions): Promise<void> {
  await enabled(await findWebhook(sql, key), key);
  const id = await sendTest(sql, key, clock.now());
  if (id === null) throw unknownWebhook(key);
  const sequence = sequenceOf(id) as number;
  const until = performance.now() + TEST_MS_MAX;
  for (;;) {
    const page = { after: null, before: null, limit: 1 };
    const [attempt] = await listAttempts(sql, key, sequence, page);
    if (attempt) {
      const { error, ms, status } = attempt;
      if (error !== null) throw new CommandError(`The test event was not accepted: ${error} (${ms} ms).`);
      say(options, shownAttempt(attempt), `The test event was answered ${status} in ${ms} ms.`);
      return;
    }
    if (performance.now() > until)
      throw new CommandError("The test event was not sent. Does a process with the role `webhooks` run?");
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

async function attempts(
  { sql }: Context,
  id: string,
  options: WebhookOf & { event?: number },
): Promise<void> {
  const key = { workspaceId: options.workspace, id };
  await existing(await findWebhook(sql, key), key);
  const page = { after: null, before: null, limit: LINES_SHOWN };
  const rows = (await listAttempts(sql, key, options.event ?? null, page)).slice(0, LINES_SHOWN);
  const cells = rows.map((row) => [
    time(row.at),
    row.type,
    row.subjectId === null ? null : eventId({ subjectId: row.subjectId, sequence: row.sequence }),
    row.status,
    row.ms,
    row.error,
  ]);
  say(options, rows.map(shownAttempt), table(cells, ["sent", "type", "event", "status", "ms", "error"]));
}

async function replay({ sql, clock }: Context, id: string, options: SendAgainOptions): Promise<void> {
  const { workspace, event, failed, since, until } = options;
  if ([event, failed, since].filter((one) => one !== undefined).length !== 1)
    throw new CommandError("Give one of --event, --failed and --since.");
  const key = { workspaceId: workspace, id };
  await enabled(await findWebhook(sql, key), key);
  const now = new Date(clock.now());
  let events = 0;
  if (event !== undefined) {
    if (!(await replayEvent(sql, key, event, now)))
      throw new CommandError("The event log does not hold this event any more.");
    events = 1;
  } else if (failed) {
    let some = FAILED_AT_ONCE_MAX;
    for (; some === FAILED_AT_ONCE_MAX; events += some)
      some = (await replayFailed(sql, key, FAILED_AT_ONCE_MAX, now)) ?? 0;
  } else if (since) {
    const found = await sequencesBetween(sql, workspace, since.getTime(), (until ?? now).getTime());
    if (found) {
      const begun = await replayRange(sql, key, { id: newId(now.getTime()), ...found }, now);
      if (begun === "too many") throw new CommandError("Too many replays of this webhook are under way.");
      events = found.to - found.from + 1;
    }
  }
  const what = since ? `Up to ${events} events are` : `${events} event${events === 1 ? " is" : "s are"}`;
  say(options, { id, events }, `${what} sent again.`);
}

function partsOf(context: Context) {
  const { sql, config } = context;
  const sealer = new SecretSealer(requireSecret(context));
  return { sql, sealer, rules: egressRules(config.webhookNetworksAllowed) };
}

async function existing(found: Webhook | null, key: WebhookKey): Promise<Webhook> {
  if (!found) throw unknownWebhook(key);
  return found;
}

async function enabled(found: Webhook | null, key: WebhookKey): Promise<void> {
  const { status } = await existing(found, key);
  if (status === "disabled")
    throw new CommandError(
      `Webhook ${key.id} is disabled. Enable it first: \`postrider webhook enable ${key.id}\`.`,
    );
}

function unknownWebhook({ id }: WebhookKey): CommandError {
  return new CommandError(
    `There is no webhook ${id} in this workspace. \`postrider webhook list\` lists them.`,
  );
}

function stateOf({ status, disabledFor, failingSince }: Webhook): string {
  if (disabledFor !== null) return `${status} (${disabledFor})`;
  return status === "enabled" && failingSince ? "failing" : status;
}

function shown(webhook: Webhook) {
  const { id, endpoint, events, publicKey, failures, missed, behind } = webhook;
  return {
    id,
    endpoint,
    events,
    status: stateOf(webhook),
    public_key: publicKey,
    failures,
    failing_since: time(webhook.failingSince),
    next_attempt_at: time(webhook.retryAt),
    last_delivered_at: time(webhook.deliveredAt),
    events_behind: behind,
    events_missed: missed,
    created_at: time(webhook.createdAt),
  };
}

function shownAttempt({ id, type, subjectId, sequence, status, response, error, ms, at }: ListedAttempt) {
  return {
    id,
    event_id: subjectId === null ? null : eventId({ subjectId, sequence }),
    event_type: type,
    http_status_code: status,
    response,
    error,
    duration_ms: ms,
    sent_at: time(at),
  };
}

function readTypes(text: string): string[] {
  return text.split(",").map((one) => one.trim());
}

function readEvent(text: string): number {
  const sequence = sequenceOf(text);
  if (sequence === null)
    throw new InvalidArgumentError("It must be the id of an event, as its `webhook-id` header has it.");
  return sequence;
}
