/**
 * API keys of a workspace: made with the presets of the contract, shown once, listed with their last use,
 * revoked.
 */

import Type, { type Static } from "typebox";
import type { KeyRefusal, Keyring } from "../admission/keyring.ts";
import { fromBits, PERMISSIONS, PRESETS } from "../admission/permissions.ts";
import { isUuid } from "../ids.ts";
import { keysOf } from "../names.ts";
import type { Sql } from "../record/db/connect.ts";
import { cancelScheduled, countScheduled } from "../record/mail/change.ts";
import { type ApiKey, listKeys, pageOfKeys } from "../record/workspaces/keys.ts";
import { TRANSACTIONAL } from "../rules/stream.ts";
import {
  type ConsoleCall,
  EVERYONE,
  type KnownWorkspace,
  MANAGERS,
  type VisitOf,
  workspaceCall,
} from "./calls.ts";
import { pageIn, pageOfRows } from "./pages.ts";
import { type ConsoleAnswer, type ConsoleRefusal, type ConsoleRefusalName, deny } from "./refusal.ts";

/** So many are counted, and no more. */
const SCHEDULED_MAX = 100_000;
const AUDIENCES_MAX = 100;
const NAME_CHARS_MAX = 100;

const PRESET_IDS = keysOf(PRESETS);
const NewKey = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: NAME_CHARS_MAX })),
    preset: Type.Optional(Type.Enum([...PRESET_IDS])),
    permissions: Type.Optional(Type.Array(Type.Enum([...PERMISSIONS]), { maxItems: PERMISSIONS.length })),
    audience_ids: Type.Optional(
      Type.Union([Type.Null(), Type.Array(Type.String({ maxLength: 36 }), { maxItems: AUDIENCES_MAX })]),
    ),
    stream: Type.Optional(Type.String({ minLength: 1, maxLength: 32 })),
  },
  { additionalProperties: false },
);

export type KeyParts = { sql: Sql; keyring: Keyring };

export function keyCalls(parts: KeyParts): ConsoleCall[] {
  return [
    workspaceCall({ method: "GET", path: "keys", roles: EVERYONE, handle: (visit) => list(parts, visit) }),
    workspaceCall({
      ...{ method: "POST", path: "keys", roles: MANAGERS, body: NewKey },
      handle: (visit) => create(parts, visit),
    }),
    workspaceCall({
      ...{ method: "DELETE", path: "keys/{id}", roles: MANAGERS },
      handle: (visit) => revoke(parts, visit),
    }),
  ];
}

async function list(
  { sql }: KeyParts,
  { workspace, query }: VisitOf<KnownWorkspace>,
): Promise<ConsoleAnswer> {
  const page = pageIn(query);
  const revoked = query.get("revoked") !== "false";
  const { body } = pageOfRows(await pageOfKeys(sql, workspace.id, { ...page, revoked }), page, show);
  return {
    status: 200,
    body: {
      ...(body as object),
      presets: PRESET_IDS.map((id) => ({ id, ...PRESETS[id] })),
      permissions: PERMISSIONS,
      may_manage: MANAGERS.includes(workspace.role),
    },
  };
}

function show(key: ApiKey) {
  const { id, name, shown, permissions, audienceIds, stream, createdAt, lastUsedAt, revokedAt } = key;
  return {
    ...{ object: "api_key", id, name, shown },
    permissions: fromBits(permissions),
    audience_ids: audienceIds,
    stream,
    created_at: createdAt.toISOString(),
    last_used_at: lastUsedAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
  };
}

async function create(
  { keyring }: KeyParts,
  visit: VisitOf<KnownWorkspace, Static<typeof NewKey>>,
): Promise<ConsoleAnswer> {
  const { workspace, body: asked } = visit;
  if ((asked.preset === undefined) === (asked.permissions === undefined))
    throw deny("validation_error", "Give either `preset` or `permissions`.");
  const preset = asked.preset && PRESETS[asked.preset];
  const permissions = preset?.permissions ?? asked.permissions ?? [];
  const name = asked.name ?? preset?.name ?? "Key";
  const audienceIds = asked.audience_ids ?? null;
  const unreadable = audienceIds?.find((id) => !isUuid(id));
  if (unreadable !== undefined)
    throw deny("validation_error", "The `audience_ids` field must hold ids of audiences.");
  const wanted = { name, permissions, audienceIds, ...(asked.stream && { stream: asked.stream }) };
  const created = await keyring.createKey(workspace.id, wanted, workspace.role);
  if (!("key" in created)) throw refused(created);
  const { id, key, shown } = created;
  const described = { name, permissions, audience_ids: audienceIds, stream: asked.stream ?? TRANSACTIONAL };
  return {
    status: 201,
    body: { object: "api_key", id, key, shown, ...described },
    detail: { id, shown, ...described },
  };
}

async function revoke({ sql, keyring }: KeyParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, params, query, now } = visit;
  const [id = ""] = params;
  // of this workspace: the keyring knows the keys of all of them
  const key = (await listKeys(sql, workspace.id)).find((one) => one.id === id.toLowerCase());
  if (!key) throw deny("not_found", "There is no key with this id.");
  const revoked = await keyring.revokeKey(key.id, workspace.role);
  if (!("revoked" in revoked)) throw refused(revoked);
  const named = { workspaceId: workspace.id, keyId: key.id };
  const cancels = query.get("cancel_scheduled") === "true";
  const canceled = cancels ? await cancelScheduled(sql, named, new Date(now)) : 0;
  const scheduled = cancels ? 0 : await countScheduled(sql, named, SCHEDULED_MAX);
  return {
    status: 200,
    body: { object: "api_key", id: key.id, revoked: true, scheduled, canceled },
    detail: { name: key.name, shown: key.shown, canceled },
  };
}

const NAMES: Record<KeyRefusal["status"], ConsoleRefusalName> = {
  402: "plan_required",
  403: "forbidden",
  404: "not_found",
  422: "validation_error",
};

function refused({ status, message }: KeyRefusal): ConsoleRefusal {
  return deny(NAMES[status], message);
}
