/** `postrider webhook`: endpoints that are told of the events of a workspace. */
import { InvalidArgumentError } from "commander";
import { counted, sayCount } from "../capacity/report/words.ts";
import { newId } from "../ids.ts";
import type { EventName } from "../record/outbox/outbox.ts";
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
import { eventId, eventNamed } from "../webhooks/payload.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import { type Context, requireSecret } from "./context.ts";
import { CommandError, type OutputOptions, say, table, time, UsageError, unknownWorkspace } from "./print.ts";

const LINES_SHOWN = 100;
const FAILED_AT_ONCE_MAX = 5_000;
/** Longer than an endpoint may take to answer. */
const TEST_MS_MAX = 20_000;
const LOOK_MS = 200;

type WebhookOf = OutputOptions & { workspace: string };
type AddEndpointOptions = WebhookOf & { events?: string[]; ed25519?: boolean };
type SendAgainOptions = WebhookOf & { event?: EventName; failed?: boolean; since?: Date; until?: Date };

export async function add(context: Context, url: string, options: AddEndpointOptions): Promise<void> {
  const { workspace, events = null, ed25519 = false } = options;
  const wish = { endpoint: url, events, hasKeyPair: ed25519 };
  const added = await addEndpoint(await partsOf(context), workspace, wish, context.clock.now());
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

export async function list({ sql }: Context, options: WebhookOf): Promise<void> {
  const page = { after: null, before: null, limit: LINES_SHOWN };
  const rows = (await listWebhooks(sql, options.workspace, page)).slice(0, LINES_SHOWN);
  const cells = rows.map((row) => [row.id, stateOf(row), row.behind, row.endpoint, row.events ?? "all"]);
  say(options, rows.map(shown), table(cells, ["id", "status", "behind", "endpoint", "events"]));
}

export async function show({ sql }: Context, id: string, options: WebhookOf): Promise<void> {
  const key = keyOf(id, options);
  const found = await existing(await findWebhook(sql, key), key);
  const value = shown(found);
  say(options, value, table(Object.entries(value), ["", ""]));
}

export async function remove({ sql }: Context, id: string, options: WebhookOf): Promise<void> {
  const key = keyOf(id, options);
  if (!(await deleteWebhook(sql, key))) throw unknownWebhook(key);
  say(options, { id: key.id, deleted: true }, `Webhook ${key.id} is removed.`);
}

export async function enable(context: Context, id: string, options: WebhookOf): Promise<void> {
  await setStatus(context, keyOf(id, options), "enabled", options);
}

export async function disable(context: Context, id: string, options: WebhookOf): Promise<void> {
  await setStatus(context, keyOf(id, options), "disabled", options);
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

export async function rotate(context: Context, id: string, options: WebhookOf): Promise<void> {
  const key = keyOf(id, options);
  const fresh = await rotateSecrets(await partsOf(context), key, context.clock.now());
  if (!fresh) throw unknownWebhook(key);
  if ("refusal" in fresh) throw new CommandError(fresh.refusal);
  const { secret, publicKey } = fresh;
  const value = { id: key.id, signing_secret: secret, public_key: publicKey };
  say(options, value, secretLines(secret, publicKey));
}

export async function test({ sql, clock }: Context, id: string, options: WebhookOf): Promise<void> {
  const key = keyOf(id, options);
  await enabled(await findWebhook(sql, key), key);
  const event = await sendTest(sql, key, clock.now());
  if (event === null) throw unknownWebhook(key);
  const named = eventNamed(event);
  const until = performance.now() + TEST_MS_MAX;
  for (;;) {
    const page = { after: null, before: null, limit: 1 };
    const [attempt] = await listAttempts(sql, key, named, page);
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

export async function attempts(
  { sql }: Context,
  id: string,
  options: WebhookOf & { event?: EventName },
): Promise<void> {
  const key = keyOf(id, options);
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

export async function replay({ sql, clock }: Context, id: string, options: SendAgainOptions): Promise<void> {
  const { workspace, event, failed, since, until } = options;
  if ([event, failed, since].filter((one) => one !== undefined).length !== 1)
    throw new UsageError("Give one of --event, --failed and --since.");
  if (until && !since) throw new UsageError("--until needs --since.");
  const key = keyOf(id, options);
  await enabled(await findWebhook(sql, key), key);
  const now = new Date(clock.now());
  let events = 0;
  if (event !== undefined) {
    if (!(await replayEvent(sql, key, event, now)))
      throw new CommandError("There is no such event, or the event log does not hold it any more.");
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
  const what = since ? `Up to ${sayCount(events)} events are` : counted(events, "event is", "events are");
  say(options, { id, events }, `${what} sent again.`);
}

function keyOf(id: string, { workspace }: WebhookOf): WebhookKey {
  return { workspaceId: workspace, id };
}

async function partsOf(context: Context) {
  const { sql, config } = context;
  const sealer = new SecretSealer(await requireSecret(context));
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

export function readEvent(text: string): EventName {
  const event = eventNamed(text);
  if (event === null)
    throw new InvalidArgumentError("It must be the id of an event, as its `webhook-id` header has it.");
  return event;
}
