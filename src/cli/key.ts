/** `postrider key`: create, list, revoke. */
import { fromBits, type Permission, PRESETS } from "../admission/permissions.ts";
import { cancelScheduled, countScheduled } from "../record/mail/change.ts";
import { listKeys } from "../record/workspaces/keys.ts";
import { type Context, requireSecret } from "./context.ts";
import { CommandError, type OutputOptions, say, table, time, UsageError } from "./print.ts";

/** So many are counted, and no more. */
const SCHEDULED_MAX = 100_000;

const ALL_AUDIENCES =
  "It works for all audiences of the workspace. To limit a key to some, create it with --audience.";

type CreateKeyOptions = OutputOptions & {
  workspace: string;
  permission?: Permission[];
  preset?: keyof typeof PRESETS;
  audience?: string[];
  name?: string;
  stream?: string;
};

export async function create(context: Context, options: CreateKeyOptions) {
  await requireSecret(context);
  const preset = options.preset && PRESETS[options.preset];
  const permissions = options.permission ?? preset?.permissions;
  if (!permissions) throw new UsageError("A key needs permissions: give --permission or --preset.");
  const name = options.name ?? preset?.name ?? permissions.join(", ");
  const created = await context.keyring.createKey(
    options.workspace,
    {
      name,
      permissions,
      audienceIds: options.audience ?? null,
      ...(options.stream && { stream: options.stream }),
    },
    "operator",
  );
  if (!("key" in created)) throw new CommandError(created.message);
  const shown = `${created.key}\nKey ${created.id}. This is the only time it is shown.`;
  const isUnlimited = options.preset === "audience" && !options.audience;
  say(
    options,
    { id: created.id, key: created.key, name, permissions },
    isUnlimited ? `${shown}\n${ALL_AUDIENCES}` : shown,
  );
}

export async function list({ sql }: Context, options: OutputOptions & { workspace: string }) {
  const keys = (await listKeys(sql, options.workspace)).map((key) => ({
    id: key.id,
    name: key.name,
    shown: key.shown,
    permissions: fromBits(key.permissions),
    audience_ids: key.audienceIds,
    stream: key.stream,
    created_at: time(key.createdAt),
    last_used_at: time(key.lastUsedAt),
    revoked_at: time(key.revokedAt),
  }));
  const rows = keys.map((key) => [
    key.id,
    `${key.shown}...`,
    key.name,
    key.permissions.join(","),
    key.stream,
    key.last_used_at,
    key.revoked_at,
  ]);
  say(options, keys, table(rows, ["id", "key", "name", "permissions", "stream", "last used", "revoked"]));
}

export async function revoke(
  { keyring, sql, clock }: Context,
  id: string,
  options: OutputOptions & { cancelScheduled?: boolean },
) {
  const revoked = await keyring.revokeKey(id, "operator");
  if (!("revoked" in revoked)) throw new CommandError(revoked.message);
  const key = { workspaceId: revoked.workspaceId, keyId: id };
  if (options.cancelScheduled) {
    const canceled = await cancelScheduled(sql, key, new Date(clock.now()));
    const words = `Key ${id} is revoked, and ${canceled} scheduled e-mails sent with it are canceled.`;
    say(options, { id, revoked: true, canceled }, words);
    return;
  }
  const scheduled = await countScheduled(sql, key, SCHEDULED_MAX);
  const many = `${scheduled}${scheduled === SCHEDULED_MAX ? " or more" : ""}`;
  const offer = `${many} scheduled e-mails sent with it will still go out. \`postrider key revoke ${id} --cancel-scheduled\` cancels them.`;
  const words = [`Key ${id} is revoked.`, ...(scheduled > 0 ? [offer] : [])];
  say(options, { id, revoked: true, scheduled }, words.join("\n"));
}
