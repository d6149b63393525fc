/** `postrider stream`: create, list, change and delete the streams of a workspace. */
import { expectReleaseNow, readAccount } from "../record/workspaces/ledgers.ts";
import { senderLimitsOf } from "../record/workspaces/senderlimits.ts";
import { changeStreams, findStreams, StreamInUse } from "../record/workspaces/streams.ts";
import { waitingIn } from "../rules/ledger.ts";
import {
  BULK,
  contradictionIn,
  isBuiltIn,
  isDefined,
  type StreamDefinition,
  type StreamDefinitions,
  TRANSACTIONAL,
} from "../rules/stream.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say, table, UsageError, unknownWorkspace } from "./print.ts";

type StreamOf = OutputOptions & { workspace: string };
type ChangeOptions = StreamOf & { reservedShare?: number; pool?: string | false };
type CreateOptions = ChangeOptions & { kind: typeof TRANSACTIONAL | typeof BULK };

export async function create(context: Context, name: string, options: CreateOptions): Promise<void> {
  if (isBuiltIn(name)) throw new CommandError(`${name} is built in. Choose another name.`);
  const bulk = options.kind === BULK;
  const made = { bulk, reserved_share: options.reservedShare ?? 0, pool: options.pool || null };
  await save(context, options, (known) => {
    if (isDefined(name, known)) throw new CommandError(`The workspace has a stream ${name} already.`);
    const before = Object.hasOwn(known, name) ? known[name] : undefined;
    if (before && before.bulk !== bulk)
      throw new CommandError(
        `${name} was a ${before.bulk ? BULK : TRANSACTIONAL} stream, and mail of it may still be there. Choose that kind or another name.`,
      );
    return { ...known, [name]: made };
  });
  say(options, shown(name, made), `Stream ${name} (${options.kind}) is created.`);
}

export async function change(context: Context, name: string, options: ChangeOptions): Promise<void> {
  const { reservedShare, pool } = options;
  if (reservedShare === undefined && typeof pool !== "string" && pool !== false)
    throw new UsageError("Nothing to change: give --reserved-share, --pool or --no-pool.");
  let changed: StreamDefinition | undefined;
  await save(context, options, (known) => {
    const before = definitionOf(name, known);
    changed = {
      ...before,
      reserved_share: reservedShare ?? before.reserved_share,
      pool: pool === undefined ? before.pool : pool || null,
    };
    return { ...known, [name]: changed };
  });
  say(options, shown(name, changed as StreamDefinition), `Stream ${name} is changed.`);
}

export async function remove(context: Context, name: string, options: StreamOf): Promise<void> {
  await save(context, options, (known) => ({
    ...known,
    [name]: { ...definitionOf(name, known), reserved_share: 0, pool: null, gone: true },
  }));
  say(options, { name, deleted: true }, `Stream ${name} is deleted. What waits in it still goes out.`);
}

export async function list({ sql }: Context, options: StreamOf): Promise<void> {
  const [definitions, account, limits] = await Promise.all([
    findStreams(sql, options.workspace),
    readAccount(sql, options.workspace),
    senderLimitsOf(sql, options.workspace),
  ]);
  if (!definitions || !account) throw unknownWorkspace(options.workspace);
  const builtIn = [TRANSACTIONAL, BULK].map(
    (name) => [name, { bulk: name === BULK, reserved_share: 0, pool: null }] as const,
  );
  const named = Object.entries(definitions).filter(([, { gone }]) => !gone);
  const all = [...builtIn, ...named].map(([name, definition]) => {
    const stream = isBuiltIn(name) ? "" : name;
    const most = account.allowance.streams?.[name]?.most ?? 1;
    const isPaused = most === 0 || (definition.bulk && account.allowance.reservedShare >= 1);
    const waiting = waitingIn(account.ledger, { bulk: definition.bulk, stream });
    const slowed = limits
      .filter((one) => one.stream === name)
      .map(({ provider, perDay, reason }) => ({ provider, per_day: perDay, reason }));
    return { ...shown(name, definition), paused: isPaused, waiting, slowed };
  });
  const cells = all.map((one) => [
    one.name,
    one.kind,
    one.reserved_share,
    one.pool,
    one.paused ? "yes" : "no",
    one.waiting,
    one.slowed.map(({ provider, per_day }) => `${provider} to ${per_day} a day`).join(", "),
  ]);
  say(
    options,
    all,
    table(cells, ["stream", "kind", "reserved share", "pool", "paused", "waiting", "slowed at"]),
  );
}

async function save(
  { sql, keyring, reservations, clock }: Context,
  { workspace }: StreamOf,
  next: (known: StreamDefinitions) => StreamDefinitions,
): Promise<void> {
  const now = new Date(clock.now());
  const checked = (known: StreamDefinitions): StreamDefinitions => {
    const made = next(known);
    const wrong = contradictionIn(made);
    if (wrong) throw new CommandError(wrong);
    return made;
  };
  const changed = await changeStreams(sql, workspace, checked, now).catch((error: unknown) => {
    throw error instanceof StreamInUse ? new CommandError(error.message) : error;
  });
  if (!changed) throw unknownWorkspace(workspace);
  // what waits may go now
  await expectReleaseNow(sql, workspace, now);
  await keyring.forget(changed.handle, changed.version);
  await reservations.forget(changed.handle);
}

function definitionOf(name: string, known: StreamDefinitions): StreamDefinition {
  if (isBuiltIn(name)) throw new CommandError(`${name} is built in: it cannot be changed or deleted.`);
  const found = isDefined(name, known) ? known[name] : undefined;
  if (!found)
    throw new CommandError(
      `The workspace has no stream ${name}. \`postrider stream list\` lists those that it has.`,
    );
  return found;
}

function shown(name: string, { bulk, reserved_share, pool }: StreamDefinition) {
  return { name, kind: bulk ? BULK : TRANSACTIONAL, reserved_share, pool };
}
