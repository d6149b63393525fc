/**
 * Endpoints of webhooks as their owners see and change them. A change never touches what the worker that
 * holds the endpoint writes: its cursor, its failures, its lease.
 */
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import {
  arrayOf,
  boolean,
  bytes,
  integer,
  oneOf,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const webhookRow = {
  workspaceId: text,
  id: text,
  endpoint: text,
  /** null: all. */
  events: orNull(arrayOf(text)),
  publicKey: orNull(text),
  status: oneOf("enabled", "disabled"),
  disabledFor: orNull(oneOf("gone", "failing")),
  failures: integer,
  failingSince: orNull(timestamp),
  retryAt: orNull(timestamp),
  deliveredAt: orNull(timestamp),
  missed: integer,
  /** Events that it has not been sent yet, of any type. */
  behind: integer,
  createdAt: timestamp,
};
export type Webhook = RowOf<typeof webhookRow>;

export type NewWebhook = Pick<Webhook, "workspaceId" | "id" | "endpoint" | "events" | "publicKey"> & {
  secrets: Buffer;
};
export const webhookKeyRow = pick(webhookRow, "workspaceId", "id");
export type WebhookKey = RowOf<typeof webhookKeyRow>;

/** From now on the events of its workspace are written. It is told of those that follow. */
export async function insertWebhook(
  sql: Sql,
  webhook: NewWebhook,
  most: number,
  now: Date,
): Promise<"inserted" | "too many" | "unknown workspace"> {
  const { workspaceId } = webhook;
  for (;;) {
    const [workspace] = await typed(sql, { webhooks: integer, isTold: boolean })`
      select webhooks, has_webhooks as "isTold" from workspace where id = ${workspaceId}`;
    if (!workspace) return "unknown workspace";
    if (workspace.webhooks >= most) return "too many";
    // in a transaction of its own: it takes the locks of tables before any of a row
    if (!workspace.isTold) await sql`update workspace set has_webhooks = true where id = ${workspaceId}`;
    if (await insertCounted(sql, webhook, most, now)) return "inserted";
  }
}

/** False when the count is reached meanwhile, or the keeper has found that the workspace has none. */
function insertCounted(sql: Sql, webhook: NewWebhook, most: number, now: Date): Promise<boolean> {
  const { workspaceId, id, endpoint, events, publicKey, secrets } = webhook;
  return sql.begin(async (tx) => {
    const counted = await tx`
      update workspace set webhooks = webhooks + 1
      where id = ${workspaceId} and has_webhooks and webhooks < ${most} returning 1`;
    if (counted.length === 0) return false;
    await tx`
      insert into webhook (workspace_id, id, endpoint, events, secrets, public_key, status, cursor,
        created_at, updated_at)
      select ${workspaceId}::uuid, ${id}::uuid, ${endpoint}, ${events}::text[], ${secrets}, ${publicKey},
        'enabled',
        coalesce((select last from event_sequence where workspace_id = ${workspaceId}), 0), ${now}, ${now}`;
    return true;
  });
}

/** Events of workspaces that have no webhook any more are written no longer, unless they keep a log. */
export async function stopTelling(sql: Sql): Promise<void> {
  const idle = await sql`select from workspace where has_webhooks and webhooks = 0 limit 1`;
  if (idle.length === 0) return;
  const fenced = await fencedNow(sql);
  // naming `logs_events` takes the locks that ending it needs
  await sql`
    update workspace set has_webhooks = false, logs_events = logs_events
    where has_webhooks and webhooks = 0 and id <> all(${fenced}::uuid[])`;
}

export async function findWebhook(sql: Sql, { workspaceId, id }: WebhookKey): Promise<Webhook | null> {
  const [row] = await typed(sql, webhookRow)`
    select ${columns(sql)} where w.workspace_id = ${workspaceId} and w.id = ${id}`;
  return row ?? null;
}

/** A page and one more row, newest first. */
export async function listWebhooks(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<Webhook[]> {
  return typed(sql, webhookRow)`
    select ${columns(sql)} where w.workspace_id = ${workspaceId}
      ${after === null ? sql`` : sql`and w.id < ${after}`} ${before === null ? sql`` : sql`and w.id > ${before}`}
    order by w.id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

export type WebhookChange = {
  endpoint?: string;
  events?: string[] | null;
  status?: Webhook["status"];
};

/**
 * Whoever enables it again, or gives it another address, has mended it: its failures are forgotten, and what
 * waits for another try is due. What is under way then counts no more, which `updated_at` tells its worker;
 * to choose other events changes nothing of that.
 */
export async function changeWebhook(
  sql: Sql,
  { workspaceId, id }: WebhookKey,
  { endpoint, events, status }: WebhookChange,
  now: Date,
): Promise<boolean> {
  const isMended = endpoint !== undefined || status === "enabled";
  return sql.begin(async (tx) => {
    const rows = await tx`
      update webhook set endpoint = coalesce(${endpoint ?? null}, endpoint),
        events = case when ${events === undefined} then events else ${events ?? null}::text[] end,
        status = coalesce(${status ?? null}, status),
        ${status === undefined ? tx`` : tx`disabled_for = null,`}
        ${isMended ? tx`failures = 0, failing_since = null, retry_at = null, told_by = null,` : tx``}
        updated_at = case when ${isMended || status !== undefined}
          then greatest(${now}, updated_at + interval '1 ms') else updated_at end
      where workspace_id = ${workspaceId} and id = ${id} returning 1`;
    if (isMended && rows.length > 0) await letAllGo(tx, [{ workspaceId, id }], now);
    return rows.length > 0;
  });
}

/** Of endpoints that take events again, and whose rows are locked: what waits for another try is due. */
export function letAllGo(tx: Tx, back: readonly WebhookKey[], now: Date): Statement {
  return tx`
    update webhook_delivery d set due_at = ${now}
    from unnest(${back.map((b) => b.workspaceId)}::uuid[],
      ${back.map((b) => b.id)}::uuid[]) as k(workspace_id, webhook_id)
    where d.workspace_id = k.workspace_id and d.webhook_id = k.webhook_id and d.due_at > ${now}`;
}

/**
 * `change` gets the sealed secrets under the lock of their row, and hands back the new ones; null: they stay.
 * False: there is no such endpoint.
 */
export async function changeSecrets(
  sql: Sql,
  { workspaceId, id }: WebhookKey,
  change: (sealed: Buffer) => { secrets: Buffer; publicKey: string | null } | null,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    const [held] = await typed(tx, { secrets: bytes })`
      select secrets from webhook where workspace_id = ${workspaceId} and id = ${id} for update`;
    if (!held) return false;
    const changed = change(held.secrets);
    if (!changed) return true;
    const { secrets, publicKey } = changed;
    await tx`
      update webhook set secrets = ${secrets}, public_key = ${publicKey}
      where workspace_id = ${workspaceId} and id = ${id}`;
    return true;
  });
}

/** With all that is kept for it but its attempts, which nobody finds any more. */
export async function deleteWebhook(sql: Sql, { workspaceId, id }: WebhookKey): Promise<boolean> {
  return sql.begin(async (tx) => {
    await tx`select from workspace where id = ${workspaceId} for no key update`;
    const gone = await tx`delete from webhook where workspace_id = ${workspaceId} and id = ${id} returning 1`;
    if (gone.length === 0) return false;
    await tx`update workspace set webhooks = webhooks - 1 where id = ${workspaceId}`;
    await tx`delete from webhook_delivery where workspace_id = ${workspaceId} and webhook_id = ${id}`;
    await tx`delete from webhook_replay where workspace_id = ${workspaceId} and webhook_id = ${id}`;
    return true;
  });
}

const webhookFiguresRow = {
  failing: integer,
  disabled: integer,
  behind: integer,
};
export type WebhookFigures = RowOf<typeof webhookFiguresRow>;

/**
 * Of all workspaces that are not suspended. `behind`: events that enabled endpoints have not been sent, of
 * any type.
 */
export async function webhookFigures(sql: Sql): Promise<WebhookFigures> {
  const [row] = await typed(sql, webhookFiguresRow)`
    select count(*) filter (where w.status = 'enabled' and w.failing_since is not null)::int as failing,
      count(*) filter (where w.disabled_for is not null)::int as disabled,
      coalesce(sum(greatest(0, s.last - w.cursor)) filter (where w.status = 'enabled'), 0)::float8 as behind
    from webhook w join workspace p on p.id = w.workspace_id and p.suspended_at is null
    left join event_sequence s on s.workspace_id = w.workspace_id`;
  return row ?? { failing: 0, disabled: 0, behind: 0 };
}

/** Rows of events that failed for good, and for whom nobody has asked again. */
export async function dropOldDeliveries(tx: Tx, before: Date, most: number): Promise<number> {
  const fenced = await fencedNow(tx);
  const dropped = await tx`
    delete from webhook_delivery where (workspace_id, webhook_id, sequence) in (
      select workspace_id, webhook_id, sequence from webhook_delivery
      where failed_at < ${before} and workspace_id <> all(${fenced}::uuid[])
      limit ${most} for update skip locked)`;
  return dropped.count;
}

/** Of a workspace: held by whoever erases, and shared by those who write down what receivers answered. */
export const ERASING_LOCKS = 7_165_200;

/**
 * What receivers answered about erased e-mails or contacts: it may repeat what they were sent. To be sent in
 * this order: when nobody writes down an answer any more, those that were written are found.
 */
export function forgetResponses(
  tx: Tx | Sql,
  subjects: readonly { workspaceId: string; id: string }[],
): Statement[] {
  const workspaceIds = [...new Set(subjects.map(({ workspaceId }) => workspaceId))].sort();
  const locked = tx`
    select pg_advisory_xact_lock(${ERASING_LOCKS}, hashtext(id))
    from unnest(${workspaceIds}::text[]) with ordinality as w(id, n) order by n`;
  const forgotten = tx`
    with held as materialized (
      select a.workspace_id, a.webhook_id, a.id from webhook_attempt a
      join unnest(${subjects.map((s) => s.workspaceId)}::uuid[],
        ${subjects.map((s) => s.id)}::uuid[]) as g(workspace_id, subject_id)
        on a.workspace_id = g.workspace_id and a.subject_id = g.subject_id
      order by a.workspace_id, a.webhook_id, a.id for update of a
    )
    update webhook_attempt a set response = null, subject_id = null from held
    where a.workspace_id = held.workspace_id and a.webhook_id = held.webhook_id and a.id = held.id`;
  return [locked, forgotten];
}

function columns(sql: Sql) {
  return sql`w.workspace_id as "workspaceId", w.id, w.endpoint, w.events, w.public_key as "publicKey", w.status,
    w.disabled_for as "disabledFor", w.failures, w.failing_since as "failingSince", w.retry_at as "retryAt",
    w.delivered_at as "deliveredAt", w.missed::float8 as missed,
    greatest(0, coalesce(s.last, 0) - w.cursor)::float8 as behind, w.created_at as "createdAt"
    from webhook w left join event_sequence s on s.workspace_id = w.workspace_id`;
}
