/**
 * What owners do with endpoints, by the API and the command line: what may be asked for, and the rows it
 * becomes.
 */

import { newId } from "../ids.ts";
import { isOneOf } from "../names.ts";
import type { Sql } from "../record/db/connect.ts";
import { insertTest } from "../record/outbox/replay.ts";
import { changeSecrets, insertWebhook, type WebhookKey } from "../record/outbox/webhooks.ts";
import { EVENT_TYPES, TEST_TYPE, TRIES_MAX } from "../rules/webhook.ts";
import { type EgressRules, readEndpoint } from "./endpoint.ts";
import { eventId } from "./payload.ts";
import { inForce, newKeyPair, newSecret, OLD_SECRETS_MAX, rotated, type SecretSealer } from "./secret.ts";

export const WEBHOOKS_MAX = 50;

export type EndpointParts = { sql: Sql; sealer: SecretSealer; rules: EgressRules };
export type NewEndpoint = { endpoint: string; events: readonly string[] | null; hasKeyPair: boolean };
export type ShownSecrets = { secret: string; publicKey: string | null };

/** `fault`: what is wrong with which field, in words that follow its name. */
export type Faulty = { fault: { field: "endpoint" | "events" | null; words: string } };
export type Added = (ShownSecrets & { id: string }) | Faulty | { isUnknown: true };

export async function addEndpoint(
  { sql, sealer, rules }: EndpointParts,
  workspaceId: string,
  { endpoint, events, hasKeyPair }: NewEndpoint,
  now: number,
): Promise<Added> {
  const read = readEndpoint(endpoint, rules);
  if ("fault" in read) return { fault: { field: "endpoint", words: read.fault } };
  const wrong = eventsFault(events);
  if (wrong) return { fault: { field: "events", words: wrong } };
  const id = newId(now);
  const { secrets, ...shown } = freshSecrets(hasKeyPair);
  const sealed = sealer.seal({ workspaceId, id }, inForce(secrets));
  const row = {
    workspaceId,
    id,
    endpoint: read.url,
    events: events && [...new Set(events)],
    secrets: sealed,
  };
  const { publicKey } = shown;
  switch (await insertWebhook(sql, { ...row, publicKey }, WEBHOOKS_MAX, new Date(now))) {
    case "inserted":
      return { id, ...shown };
    case "too many":
      return {
        fault: { field: null, words: `A workspace may have ${WEBHOOKS_MAX} webhooks. Delete one first.` },
      };
    case "unknown workspace":
      return { isUnknown: true };
  }
}

/** Null: they may be asked for. */
export function eventsFault(events: readonly string[] | null): string | null {
  const unknown = events?.find((type) => !isOneOf(EVENT_TYPES, type));
  if (unknown !== undefined)
    return `must hold only events of this engine, which \`${unknown.slice(0, 50)}\` is not: ${EVENT_TYPES.join(", ")}`;
  return events?.length === 0 ? "must name at least one event" : null;
}

/** What signed until now goes on signing for a day. Null: there is no such endpoint. */
export async function rotateSecrets(
  { sql, sealer }: EndpointParts,
  key: WebhookKey,
  now: number,
): Promise<ShownSecrets | { refusal: string } | null> {
  let outcome: ShownSecrets | { refusal: string } | null = null;
  const change = (sealed: Buffer) => {
    const old = sealer.open(key, sealed);
    const { secrets, ...fresh } = freshSecrets(old.some(({ secret }) => secret.startsWith("whsk_")));
    const next = rotated(old, secrets, now);
    if ("fullUntil" in next) {
      outcome = { refusal: tooManySecrets(next.fullUntil) };
      return null;
    }
    outcome = fresh;
    return { secrets: sealer.seal(key, next.secrets), publicKey: fresh.publicKey };
  };
  return (await changeSecrets(sql, key, change)) ? outcome : null;
}

function tooManySecrets(until: number): string {
  return `${OLD_SECRETS_MAX} old secrets of this webhook still sign. Rotate again after ${new Date(until).toISOString()}, when the first of them no longer does.`;
}

/** The id of the event; null: there is no such endpoint. */
export async function sendTest(sql: Sql, key: WebhookKey, now: number): Promise<string | null> {
  const last = { type: TEST_TYPE, tries: TRIES_MAX - 1 };
  const sequence = await insertTest(sql, key, last, new Date(now));
  return sequence === null ? null : eventId({ subjectId: key.id, sequence });
}

function freshSecrets(hasKeyPair: boolean): ShownSecrets & { secrets: string[] } {
  const secret = newSecret();
  if (!hasKeyPair) return { secret, publicKey: null, secrets: [secret] };
  const pair = newKeyPair();
  return { secret, publicKey: pair.publicKey, secrets: [secret, pair.secret] };
}
