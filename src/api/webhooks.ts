/** /webhooks: endpoints that are told of events. Shapes as the official client types them, and more. */
import Type from "typebox";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import type { Network } from "../networks.ts";
import { expectHere } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import type { EventName } from "../record/outbox/outbox.ts";
import {
  findSent,
  type ListedAttempt,
  type ListedEvent,
  listAttempts,
  listSent,
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
  type WebhookChange,
  type WebhookKey,
} from "../record/outbox/webhooks.ts";
import { EVENT_TYPES } from "../rules/webhook.ts";
import { type EgressRules, egressRules, readEndpoint } from "../webhooks/endpoint.ts";
import { addEndpoint, eventsFault, rotateSecrets, sendTest, WEBHOOKS_MAX } from "../webhooks/owner.ts";
import { eventId, eventNamed, shownEvent } from "../webhooks/payload.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import { refuseLimited } from "./audiences.ts";
import { checker } from "./check.ts";
import { envelope, LIST_QUERY, limitOf, pageOf, refuseIgnored } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, Id, inner, listOf, Named, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso, parseInstant } from "./time.ts";

const PATH = "/api/v1/webhooks";
const FAILED_AT_ONCE_MAX = 10_000;
const EVENTS_MAX = 100;
/** Where a secret stands in the client's types and is not shown again. No verifier takes it for one. */
const HIDDEN = "whsec_********";

const endpoint = Type.String({ description: "an https URL" });
const events = Type.Array(Type.String(), {
  maxItems: EVENTS_MAX,
  description: `of these: ${EVENT_TYPES.join(", ")}`,
});

const NewWebhookBody = Type.Object(
  {
    endpoint,
    events: Type.Optional(events),
    signature: Type.Optional(
      Type.Enum(["hmac", "ed25519"], {
        description: "`ed25519`: signed with a key pair as well, whose public key is shown; default `hmac`",
      }),
    ),
  },
  { $id: "NewWebhook" },
);
const WebhookChanges = Type.Object(
  {
    endpoint: Type.Optional(orNull(endpoint)),
    events: Type.Optional(orNull(events)),
    status: Type.Optional(orNull(Type.Enum(["enabled", "disabled"]))),
  },
  { $id: "WebhookChanges", description: "`events` of null: all; anything else of null stays as it is" },
);
const ReplayWish = Type.Object(
  {
    event_id: Type.Optional(Type.String({ description: "one event" })),
    failed: Type.Optional(Type.Boolean({ description: "`true`: all that failed for good" })),
    since: Type.Optional(Type.String({ description: "RFC 3339: all events from then on" })),
    until: Type.Optional(Type.String({ description: "RFC 3339, with `since`; default now" })),
  },
  { $id: "WebhookReplay" },
);
const checkNew = checker(NewWebhookBody);
const checkChanges = checker(WebhookChanges, { keepsNull: true });
const checkReplay = checker(ReplayWish);

const eventType = Type.String({ description: "one of the types above, or `webhook.test`" });
const webhookFields = {
  id: Id,
  endpoint: Text,
  created_at: Time,
  status: Type.Enum(["enabled", "disabled"]),
  events: orNull(Type.Array(Type.String())),
};
const Secrets = {
  signing_secret: Type.String({ description: "shown once" }),
  public_key: Type.Optional(Type.String({ description: "of the ed25519 key, where it has one" })),
};
const EventId = Type.String({ examples: ["01990000-0000-7000-8000-000000000000_12"] });
const eventFields = {
  id: EventId,
  type: eventType,
  created_at: Time,
  status: Type.Enum(["success", "pending", "attempting", "failed"]),
};
const Attempts = listOf(
  shape("WebhookAttempt", {
    id: Id,
    event_id: orNull(EventId),
    event_type: orNull(eventType),
    http_status_code: Type.Integer({ description: "0: there was no answer" }),
    response: Type.String({ description: "the beginning of the answer to a failure" }),
    error: orNull(Text),
    duration_ms: Count,
    sent_at: Time,
  }),
);
const Replay = inner({
  object: Type.Literal("webhook_replay"),
  id: Id,
  events: Type.Integer({ minimum: 0, description: "of a span of time: the most that it may be" }),
  has_more: Type.Boolean({ description: "of failed ones: ask again" }),
});
const OneEvent = inner({ object: Type.Literal("webhook_event"), id: EventId });

export type WebhookParts = {
  reads: Sql;
  lists(): Sql;
  clock: Clock;
  serverSecret: string;
  /** Private networks to which webhooks may be sent. */
  networksAllowed: readonly Network[];
};
type Owning = Pick<WebhookParts, "reads" | "lists" | "clock"> & { sealer: SecretSealer; rules: EgressRules };

export function webhookRoutes({ reads, lists, clock, serverSecret, networksAllowed }: WebhookParts): Route[] {
  const permissions = ["full"] as const;
  const one = `${PATH}/{id}`;
  const event = `${one}/events/{event_id}`;
  // routes are described also where nothing is served
  let made: Owning | null = null;
  const parts = (): Owning => {
    made ??= {
      ...{ reads, lists, clock },
      sealer: new SecretSealer(serverSecret),
      rules: egressRules(networksAllowed),
    };
    return made;
  };
  const route = (
    [method, path, success]: [Route["method"], string, number],
    summary: string,
    handle: (owning: Owning, call: Call) => Promise<Answer>,
    more: Pick<Route, "answer" | "request" | "query">,
  ): Route => ({
    ...{ method, path, permissions, success, summary, ...more },
    handle: (call) => {
      refuseLimited(call.caller, "manage webhooks, which are told of all contacts");
      return handle(parts(), call);
    },
  });
  return [
    route(["GET", PATH, 200], "List webhooks, newest first", list, {
      query: LIST_QUERY,
      answer: listOf(shape("WebhookItem", webhookFields)),
    }),
    route(["POST", PATH, 201], `Add a webhook, at most ${WEBHOOKS_MAX}; shows its secret once`, add, {
      request: NewWebhookBody,
      answer: told("webhook", Secrets),
    }),
    route(["GET", one, 200], "Get a webhook and its state", get, {
      answer: shape("Webhook", {
        object: Type.Literal("webhook"),
        ...webhookFields,
        signing_secret: Type.Literal(HIDDEN),
        public_key: orNull(Text),
        disabled_for: orNull(Type.Enum(["gone", "failing"])),
        failures: Count,
        failing_since: orNull(Time),
        next_attempt_at: orNull(Time),
        last_delivered_at: orNull(Time),
        events_behind: Count,
        events_missed: Count,
      }),
    }),
    route(["PATCH", one, 200], "Change a webhook, disable or enable it", change, {
      request: WebhookChanges,
      answer: told("webhook"),
    }),
    route(["DELETE", one, 200], "Remove a webhook", remove, {
      answer: told("webhook", { deleted: Type.Literal(true) }),
    }),
    route(
      ["POST", `${one}/signing-secret/rotate`, 200],
      "Make a new secret; the old one signs for another day",
      rotate,
      { answer: told("webhook", Secrets) },
    ),
    route(["POST", `${one}/test`, 202], "Send a test event, once", test, { answer: OneEvent }),
    route(["POST", `${one}/replay`, 202], "Send an event, all failed or a span of time again", replay, {
      request: ReplayWish,
      answer: Replay,
    }),
    route(["GET", `${one}/attempts`, 200], "List attempts of all events, newest first", attempts, {
      query: LIST_QUERY,
      answer: Attempts,
    }),
    route(["GET", `${one}/events`, 200], "List events that were sent, newest first", sent, {
      query: [
        { name: "limit", description: "1 to 100, default 20" },
        {
          name: "after",
          alias: "cursor",
          description: "the id of an event: only older ones; `cursor` means the same",
        },
      ],
      answer: listOf(shape("WebhookEventItem", eventFields)),
    }),
    route(["GET", event, 200], "Get an event with its payload", getEvent, {
      answer: shape("WebhookEvent", {
        object: Type.Literal("webhook_event"),
        ...eventFields,
        next_attempt_at: orNull(Time),
        payload: inner({ type: eventType, created_at: Time, data: Named }),
      }),
    }),
    route(["POST", `${event}/replay`, 200], "Send an event again", replayOne, { answer: OneEvent }),
    route(["GET", `${event}/attempts`, 200], "List attempts of an event, newest first", attemptsOfOne, {
      query: LIST_QUERY,
      answer: Attempts,
    }),
  ];
}

async function list({ reads }: Owning, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query);
  const rows = await listWebhooks(reads, caller.workspaceId, page);
  if (rows.length === 0) await expectHere(reads, caller.workspaceId);
  return ok(envelope(rows, page, listed));
}

async function add({ reads, clock, sealer, rules }: Owning, { caller, body }: Call): Promise<Answer> {
  const { endpoint, events = null, signature } = checkNew(body);
  const wish = { endpoint, events, hasKeyPair: signature === "ed25519" };
  const added = await addEndpoint({ sql: reads, sealer, rules }, caller.workspaceId, wish, clock.now());
  if ("fault" in added) throw faulty(added.fault.field, added.fault.words);
  if ("isUnknown" in added) throw refuse("invalid_api_key", "The workspace of this API key is gone.");
  return { status: 201, body: JSON.stringify({ object: "webhook", id: added.id, ...secretsOf(added) }) };
}

async function get({ reads }: Owning, call: Call): Promise<Answer> {
  const found = await findWebhook(reads, keyOf(call));
  if (!found) throw unknownWebhook();
  return ok(JSON.stringify(shown(found)));
}

async function change({ reads, clock, rules }: Owning, call: Call): Promise<Answer> {
  const { endpoint, events, status } = checkChanges(call.body);
  const changes: WebhookChange = { ...(status && { status }) };
  if (typeof endpoint === "string") {
    const read = readEndpoint(endpoint, rules);
    if ("fault" in read) throw faulty("endpoint", read.fault);
    changes.endpoint = read.url;
  }
  if (events !== undefined) {
    const wrong = eventsFault(events);
    if (wrong) throw faulty("events", wrong);
    changes.events = events && [...new Set(events)];
  }
  const key = keyOf(call);
  if (!(await changeWebhook(reads, key, changes, new Date(clock.now())))) throw unknownWebhook();
  return ok(JSON.stringify({ object: "webhook", id: key.id }));
}

async function remove({ reads }: Owning, call: Call): Promise<Answer> {
  const key = keyOf(call);
  if (!(await deleteWebhook(reads, key))) throw unknownWebhook();
  return ok(JSON.stringify({ object: "webhook", id: key.id, deleted: true }));
}

async function rotate({ reads, clock, sealer, rules }: Owning, call: Call): Promise<Answer> {
  const key = keyOf(call);
  const fresh = await rotateSecrets({ sql: reads, sealer, rules }, key, clock.now());
  if (!fresh) throw unknownWebhook();
  if ("refusal" in fresh) throw refuse("validation_error", fresh.refusal);
  return ok(JSON.stringify({ object: "webhook", id: key.id, ...secretsOf(fresh) }));
}

async function test({ reads, clock }: Owning, call: Call): Promise<Answer> {
  const found = await enabled(reads, keyOf(call));
  const id = await sendTest(reads, found, clock.now());
  if (id === null) throw unknownWebhook();
  return { status: 202, body: JSON.stringify({ object: "webhook_event", id }) };
}

async function replay({ reads, clock }: Owning, call: Call): Promise<Answer> {
  const wish = checkReplay(call.body);
  const given = [wish.event_id !== undefined, wish.failed === true, wish.since !== undefined];
  if (given.filter(Boolean).length !== 1)
    throw refuse(
      "validation_error",
      "One of the fields `event_id`, `failed: true` and `since` must be given.",
    );
  const key = await enabled(reads, keyOf(call));
  const now = new Date(clock.now());
  let events: number;
  if (wish.event_id !== undefined) events = await one(reads, key, eventCalled(wish.event_id), now);
  else if (wish.failed) events = await allFailed(reads, key, now);
  else events = await range(reads, key, spanOf(wish, now), now);
  const body = {
    object: "webhook_replay",
    id: key.id,
    events,
    has_more: Boolean(wish.failed) && events === FAILED_AT_ONCE_MAX,
  };
  return { status: 202, body: JSON.stringify(body) };
}

async function one(sql: Sql, key: WebhookKey, event: EventName, now: Date): Promise<number> {
  if (!(await replayEvent(sql, key, event, now))) throw unknownEvent();
  return 1;
}

async function allFailed(sql: Sql, key: WebhookKey, now: Date): Promise<number> {
  const events = await replayFailed(sql, key, FAILED_AT_ONCE_MAX, now);
  if (events === null) throw unknownWebhook();
  return events;
}

/** The most events that it may be: those of types that the endpoint does not want are left out. */
async function range(
  sql: Sql,
  key: WebhookKey,
  span: { since: number; until: number },
  now: Date,
): Promise<number> {
  const found = await sequencesBetween(sql, key.workspaceId, span.since, span.until);
  if (!found) return 0;
  switch (await replayRange(sql, key, { id: newId(now.getTime()), ...found }, now)) {
    case "begun":
      return found.to - found.from + 1;
    case "too many":
      throw refuse(
        "validation_error",
        "Too many replays of this webhook are under way. Wait until one is over.",
      );
    case "no endpoint":
      throw unknownWebhook();
  }
}

function spanOf(
  { since, until }: { since?: string; until?: string },
  now: Date,
): { since: number; until: number } {
  const read = (name: string, text: string): number => {
    const time = parseInstant(text);
    if (time === null) throw faulty(name, "must be a time, such as `2026-11-20T20:07:38Z`");
    return time;
  };
  const span = {
    since: read("since", since ?? ""),
    until: until === undefined ? now.getTime() : read("until", until),
  };
  if (span.until < span.since) throw faulty("until", "must not be before `since`");
  return span;
}

async function attempts({ reads, lists }: Owning, call: Call): Promise<Answer> {
  const key = await existing(reads, keyOf(call));
  const page = pageOf(call.query);
  return ok(envelope(await listAttempts(lists(), key, null, page), page, shownAttempt));
}

async function sent({ reads, lists }: Owning, call: Call): Promise<Answer> {
  const key = await existing(reads, keyOf(call));
  const { query } = call;
  refuseIgnored(query, [], ["after", "cursor"]);
  const after = query.get("after") ?? query.get("cursor");
  const limit = limitOf(query);
  const before = after === null ? Number.MAX_SAFE_INTEGER : eventCalled(after).sequence;
  const rows = (await listSent(lists(), key, before, limit)).map((row) => ({ ...row, id: eventId(row) }));
  return ok(envelope(rows, { after, before: null, limit }, listedEvent));
}

async function getEvent({ reads }: Owning, call: Call): Promise<Answer> {
  const key = await existing(reads, keyOf(call));
  const found = await findSent(reads, key, eventIn(call));
  if (!found?.isSent) throw unknownEvent();
  const body = {
    object: "webhook_event",
    ...listedEvent({ ...found, id: eventId(found) }),
    next_attempt_at: iso(found.nextAttemptAt),
    payload: shownEvent(found),
  };
  return ok(JSON.stringify(body));
}

async function replayOne({ reads, clock }: Owning, call: Call): Promise<Answer> {
  const key = await enabled(reads, keyOf(call));
  const event = eventIn(call);
  await one(reads, key, event, new Date(clock.now()));
  return ok(JSON.stringify({ object: "webhook_event", id: eventId(event) }));
}

async function attemptsOfOne({ reads, lists }: Owning, call: Call): Promise<Answer> {
  const key = await existing(reads, keyOf(call));
  const page = pageOf(call.query);
  return ok(envelope(await listAttempts(lists(), key, eventIn(call), page), page, shownAttempt));
}

function keyOf({ caller, params }: Call): WebhookKey {
  const id = params[0] ?? "";
  if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of a webhook must be a UUID.");
  return { workspaceId: caller.workspaceId, id: id.toLowerCase() };
}

function eventIn({ params }: Call): EventName {
  return eventCalled(params[1] ?? "");
}

function eventCalled(id: string): EventName {
  const event = eventNamed(id);
  if (event === null)
    throw refuse(
      "invalid_parameter",
      "The id of an event is that of its `webhook-id` header, as in the event log.",
    );
  return event;
}

async function existing(sql: Sql, key: WebhookKey): Promise<Webhook> {
  const found = await findWebhook(sql, key);
  if (!found) throw unknownWebhook();
  return found;
}

async function enabled(sql: Sql, key: WebhookKey): Promise<Webhook> {
  const found = await existing(sql, key);
  if (found.status === "disabled")
    throw refuse(
      "validation_error",
      "The webhook is disabled. Enable it first: PATCH its `status` to `enabled`.",
    );
  return found;
}

function listed({ id, endpoint, createdAt, status, events }: Webhook) {
  return { id, endpoint, created_at: iso(createdAt), status, events };
}

function shown(webhook: Webhook) {
  const { publicKey, disabledFor, failures, failingSince, retryAt, deliveredAt, missed, behind } = webhook;
  return {
    object: "webhook",
    ...listed(webhook),
    signing_secret: HIDDEN,
    public_key: publicKey,
    disabled_for: disabledFor,
    failures,
    failing_since: iso(failingSince),
    next_attempt_at: iso(retryAt),
    last_delivered_at: iso(deliveredAt),
    events_behind: behind,
    events_missed: missed,
  };
}

function secretsOf({ secret, publicKey }: { secret: string; publicKey: string | null }) {
  return { signing_secret: secret, ...(publicKey !== null && { public_key: publicKey }) };
}

/** `http_status_code` is a number in the client's types: 0 where there was no answer. */
function shownAttempt({ id, sequence, subjectId, type, status, response, error, ms, at }: ListedAttempt) {
  return {
    id,
    event_id: subjectId === null ? null : eventId({ subjectId, sequence }),
    event_type: type,
    http_status_code: status ?? 0,
    response: response ?? "",
    error,
    duration_ms: ms,
    sent_at: iso(at),
  };
}

function listedEvent({ id, type, at, state }: Pick<ListedEvent, "type" | "at" | "state"> & { id: string }) {
  return { id, type, created_at: iso(at), status: state };
}

function ok(body: string): Answer {
  return { status: 200, body };
}

function faulty(field: string | null, words: string): Refusal {
  return refuse("validation_error", field === null ? words : `The \`${field}\` field ${words}.`);
}

function unknownWebhook(): Refusal {
  return refuse("not_found", "There is no webhook with this id.");
}

function unknownEvent(): Refusal {
  return refuse("not_found", "This webhook was sent no such event, or the event log no longer holds it.");
}
