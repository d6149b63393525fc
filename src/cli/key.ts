/** `postrider key`: create, list, revoke. */
import { Command, InvalidArgumentError, Option } from "commander";
import { fromBits, isPermission, PERMISSIONS, type Permission, PRESETS } from "../admission/permissions.ts";
import { listKeys } from "../record/keys.ts";
import {
  CommandError,
  type Context,
  type Output,
  requireSecret,
  say,
  table,
  time,
  withContext,
} from "./context.ts";
import { readId } from "./workspace.ts";

type CreateOptions = Output & {
  workspace: string;
  permission?: Permission[];
  preset?: keyof typeof PRESETS;
  audience?: string[];
  name?: string;
};

export function keyCommand(): Command {
  const command = new Command("key").description("API keys of a workspace");
  command
    .command("create")
    .requiredOption("--workspace <id>", "whose key", readId)
    .addOption(
      new Option("--permission <list>", PERMISSIONS.join(", "))
        .argParser(readPermissions)
        .conflicts("preset"),
    )
    .addOption(new Option("--preset <name>", "a usual set of permissions").choices(Object.keys(PRESETS)))
    .option("--audience <ids>", "limits the key to these audiences, with commas between", (text) =>
      text.split(",").map(readId),
    )
    .option("--name <name>", "what people call it")
    .option("--json", "as JSON")
    .action((options: CreateOptions) => withContext((context) => create(context, options)));
  command
    .command("list")
    .requiredOption("--workspace <id>", "whose keys", readId)
    .option("--json", "as JSON")
    .action((options) => withContext((context) => list(context, options)));
  command
    .command("revoke")
    .argument("<id>", "the key's id", readId)
    .option("--json", "as JSON")
    .action((id, options) => withContext((context) => revoke(context, id, options)));
  return command;
}

async function create(context: Context, options: CreateOptions) {
  requireSecret(context);
  const preset = options.preset && PRESETS[options.preset];
  const permissions = options.permission ?? preset?.permissions;
  if (!permissions) throw new CommandError("Give --permission or --preset.");
  const name = options.name ?? preset?.name ?? permissions.join(", ");
  const created = await context.keyring.createKey(
    options.workspace,
    { name, permissions, audienceIds: options.audience ?? null },
    "operator",
  );
  if (!("key" in created)) throw new CommandError(created.message);
  say(
    options,
    { id: created.id, key: created.key, name, permissions },
    `${created.key}\nKey ${created.id}. It is shown only now.`,
  );
}

async function list({ sql }: Context, options: Output & { workspace: string }) {
  const keys = (await listKeys(sql, options.workspace)).map((key) => ({
    id: key.id,
    name: key.name,
    shown: key.shown,
    permissions: fromBits(key.permissions),
    audience_ids: key.audienceIds,
    created_at: time(key.createdAt),
    last_used_at: time(key.lastUsedAt),
    revoked_at: time(key.revokedAt),
  }));
  const rows = keys.map((key) => [
    key.id,
    `${key.shown}...`,
    key.name,
    key.permissions.join(","),
    key.last_used_at,
    key.revoked_at,
  ]);
  say(options, keys, table(rows, ["id", "key", "name", "permissions", "last used", "revoked"]));
}

async function revoke({ keyring }: Context, id: string, options: Output) {
  const revoked = await keyring.revokeKey(id, "operator");
  if (!("revoked" in revoked)) throw new CommandError(revoked.message);
  say(options, { id, revoked: true }, `Key ${id} is revoked.`);
}

function readPermissions(text: string): Permission[] {
  return text.split(",").map((one) => {
    const name = one.trim();
    if (!isPermission(name)) throw new InvalidArgumentError(`${name} is none of ${PERMISSIONS.join(", ")}.`);
    return name;
  });
}
