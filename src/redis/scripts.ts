/**
 * Lua scripts as functions. A script's header is its contract and its binding: the names behind KEYS and ARGV
 * become the local variables of the script and the fields the caller must give, so the two cannot drift
 * apart. `name:number` converts an argument on the script's first line; `-- @include name` brings in
 * lua/include/name.lua.
 *
 * A script is sent by its hash; only a store that does not know it is sent the source. Nothing is ever sent
 * twice after it may have run: a lost reply is the caller's to judge.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Cluster, Redis } from "ioredis";
import { Counter, Histogram, SECONDS } from "../meter.ts";

const TOOK = new Histogram(
  "postrider_redis_script_seconds",
  "How long callers waited for a script in Redis",
  SECONDS,
  ["script"],
);
const FAILED = new Counter("postrider_redis_script_errors_total", "Scripts in Redis that gave no answer", [
  "script",
]);

const LUA_FOLDER = new URL("../../lua/", import.meta.url);

export type RedisClient = Redis | Cluster;
type Argument = string | number | Buffer;

export type Script<Keys extends string, Args extends string> = {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
  run(client: RedisClient, keys: Record<Keys, string>, args: Record<Args, Argument>): Promise<unknown>;
};

class ScriptContractError extends Error {}

/** Reads lua/<name>.lua and checks that its header declares exactly the given keys and arguments. */
export function loadScript<const Keys extends string, const Args extends string>(
  name: string,
  keys: readonly Keys[],
  args: readonly Args[],
): Script<Keys, Args> {
  const text = readFileSync(new URL(`${name}.lua`, LUA_FOLDER), "utf8");
  const declaredKeys = words(text, "KEYS", name);
  const declaredArgs = words(text, "ARGV", name);
  expectSame(name, "KEYS", declaredKeys, keys);
  expectSame(
    name,
    "ARGV",
    declaredArgs.map((word) => word.split(":")[0] as string),
    args,
  );
  const source = bind(declaredKeys, declaredArgs) + include(text);
  const sha = createHash("sha1").update(source).digest("hex");
  return {
    name,
    source,
    sha,
    async run(client, keyValues, argValues) {
      const values: Argument[] = [];
      for (const key of keys) values.push(keyValues[key]);
      for (const arg of args) values.push(argValues[arg]);
      const began = performance.now();
      try {
        return await sent(client, sha, source, [keys.length, ...values]);
      } catch (error) {
        FAILED.add(1, name);
        throw error;
      } finally {
        TOOK.note((performance.now() - began) / 1_000, name);
      }
    },
  };
}

async function sent(
  client: RedisClient,
  sha: string,
  source: string,
  [keys, ...values]: [number, ...Argument[]],
): Promise<unknown> {
  try {
    return await client.evalsha(sha, keys, ...values);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return await client.eval(source, keys, ...values);
  }
}

function words(text: string, label: string, name: string): string[] {
  const line = new RegExp(`^${label}(.*)$`, "m").exec(text);
  if (!line) throw new ScriptContractError(`lua/${name}.lua: the header has no ${label} line`);
  return (line[1] as string).trim().split(/\s+/).filter(Boolean);
}

function expectSame(
  name: string,
  label: string,
  declared: readonly string[],
  given: readonly string[],
): void {
  if (declared.join(" ") === given.join(" ")) return;
  throw new ScriptContractError(
    `lua/${name}.lua declares ${label} ${declared.join(" ")}, its caller binds ${given.join(" ")}`,
  );
}

/** On one line, so that line numbers in Lua errors are those of the file. */
function bind(keys: readonly string[], args: readonly string[]): string {
  const lines = keys.map((key, n) => `local ${key} = KEYS[${n + 1}]`);
  args.forEach((arg, n) => {
    const [name, type] = arg.split(":");
    lines.push(
      type === "number" ? `local ${name} = tonumber(ARGV[${n + 1}])` : `local ${name} = ARGV[${n + 1}]`,
    );
  });
  return `${lines.join(" ")} `;
}

function include(text: string): string {
  return text.replace(/^-- @include (\w+)$/gm, (_, name: string) =>
    readFileSync(new URL(`include/${name}.lua`, LUA_FOLDER), "utf8").trimEnd(),
  );
}
