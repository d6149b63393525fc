/** `postrider key`: create, list, revoke. */
import { Command, InvalidArgumentError, Option } from "commander";
import { fromBits, isPermission, PERMISSIONS, type Permission, PRESETS } from "../admission/permissions.ts";
import { cancelScheduled, countScheduled } from "../record/mail/change.ts";
import { listKeys } from "../record/workspaces/keys.ts";
import {
  CommandError,
  type Context,
  type OutputOptions,
  requireSecret,
  say,
  table,
  time,
  withContext,
} from "./context.ts";
import { readId } from "./workspace.ts";

/** So many are counted, and no more. */
const SCHEDULED_MAX = 100_000;

type CreateKeyOptions = OutputOptions & {
  workspace: string;
  permission?: Permission[];
  preset?: keyof typeof PRESETS;
  audience?: string[];
  name?: string;
  stream?: string;
};

export function keyCommand(): Command {
  const command = new Command("key").description("create, list and revoke API keys");
  command
    .command("create")
    .description("create an API key and show it once")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .addOption(
      new Option("--permission <list>", `comma-separated: ${PERMISSIONS.join(", ")}`)
        .argParser(readPermissions)
        .conflicts("preset"),
    )
    .addOption(new Option("--preset <name>", "a set of permissions").choices(Object.keys(PRESETS)))
    .option("--audience <ids>", "limit the key to these audiences: ids, comma-separated", (text) =>
      text.split(",").map(readId),
    )
    .option("--name <name>", "a display name")
    .option(
      "--stream <name>",
      "the stream of mail that names none: transactional (the default), bulk, or a stream of the workspace",
    )
    .option("--json", "print JSON")
    .action((options: CreateKeyOptions) => withContext((context) => create(context, options)));
  command
    .command("list")
    .description("list the keys of a workspace, with their last use")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON")
    .action((options) => withContext((context) => list(context, options)));
  command
    .command("revoke")
    .description("revoke a key at once and for good")
    .argument("<id>", "the id of the key", readId)
    .option("--cancel-scheduled", "also cancel the scheduled e-mails that were sent with this key")
    .option("--json", "print JSON")
    .action((id, options) => withContext((context) => revoke(context, id, options), { isLong: true }));
  return command;
}

async function create(context: Context, options: CreateKeyOptions) {
  requireSecret(context);
  const preset = options.preset && PRESETS[options.preset];
  const permissions = options.permission ?? preset?.permissions;
  if (!permissions) throw new CommandError("A key needs permissions: give --permission or --preset.");
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
  say(
    options,
    { id: created.id, key: created.key, name, permissions },
    `${created.key}\nKey ${created.id}. This is the only time it is shown.`,
  );
}

async function list({ sql }: Context, options: OutputOptions & { workspace: string }) {
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

async function revoke(
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

function readPermissions(text: string): Permission[] {
  return text.split(",").map((one) => {
    const name = one.trim();
    if (!isPermission(name))
      throw new InvalidArgumentError(
        `${name} is not a permission. The permissions are ${PERMISSIONS.join(", ")}.`,
      );
    return name;
  });
}
