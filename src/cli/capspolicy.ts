/** `postrider caps policy`: the policy of sending caps in force, its versions, and who put them there. */
import { InvalidArgumentError } from "commander";
import { applyPolicy, BUILT_IN, policyAt, policyInForce } from "../capacity/inforce.ts";
import { type Policy, policyVersion } from "../capacity/policy.ts";
import { type PolicyDifference, policyDifferences, readPolicy } from "../capacity/policyfile.ts";
import { messageOf } from "../caught.ts";
import { findCapPolicy, listCapPolicies } from "../record/workspaces/cappolicies.ts";
import { putShadow } from "../record/workspaces/shadow.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say, table, time } from "./print.ts";

const VERSIONS_SHOWN = 50;

type AuthorOptions = OutputOptions & { by: string; reason: string };
type ShadowOptions = OutputOptions & { by: string };
type ShowOptions = OutputOptions & { version?: number };

export async function apply({ sql, clock }: Context, policy: Policy, options: AuthorOptions) {
  const applied = await applyPolicy(sql, policy, { name: options.by, reason: options.reason }, clock.now());
  const changes = policyDifferences(applied.before, policy);
  const words = applied.isNew
    ? `Version ${applied.version} is in force. Keepers judge by it from their next look on.\n${shown(changes)}`
    : `Nothing changes: version ${applied.version}, which is in force, decides the same.`;
  say(options, { version: applied.version, changed: applied.isNew, changes }, words);
}

export async function shadow({ sql, clock }: Context, policy: Policy | null, options: ShadowOptions) {
  const since = new Date(clock.now());
  const digest = policy && policyVersion(policy);
  const row =
    policy && digest ? { text: JSON.stringify(policy, null, 2), digest, author: options.by, since } : null;
  await putShadow(sql, row);
  const words = row
    ? "It is judged beside the policy in force from the keeper's next look on, and changes no cap. `postrider caps compare` shows what it would have done."
    : "There is no shadow policy any more, and what it would have done is forgotten.";
  say(options, { shadow: digest, since: row ? time(since) : null }, words);
}

export async function rollback({ sql, clock }: Context, version: number, options: AuthorOptions) {
  const policy = await policyAt(sql, version);
  if (policy === null) throw unknownVersion(version);
  const reason = options.reason === "" ? `back to version ${version}` : options.reason;
  const applied = await applyPolicy(sql, policy, { name: options.by, reason }, clock.now());
  const changes = policyDifferences(applied.before, policy);
  const words = applied.isNew
    ? `Version ${applied.version} is in force; it decides as version ${version}.\n${shown(changes)}`
    : `Nothing changes: version ${applied.version}, which is in force, decides as version ${version}.`;
  say(options, { version: applied.version, restored: version, changed: applied.isNew, changes }, words);
}

export async function show({ sql }: Context, options: ShowOptions) {
  const inForce = await policyInForce(sql);
  const version = options.version ?? inForce.version;
  const policy = await policyAt(sql, version);
  if (policy === null) throw unknownVersion(version);
  const row = version === BUILT_IN ? null : await findCapPolicy(sql, version);
  const versions = await listCapPolicies(sql, VERSIONS_SHOWN);
  const value = {
    version,
    in_force: version === inForce.version,
    digest: policyVersion(policy),
    author: row?.author ?? null,
    reason: row?.reason ?? null,
    applied_at: time(row?.appliedAt ?? null),
    refused: inForce.refused,
    policy,
    versions: versions.map(({ appliedAt, ...one }) => ({ ...one, applied_at: time(appliedAt) })),
  };
  const rows = versions.map((one) => [one.version, time(one.appliedAt), one.author, one.digest, one.reason]);
  const who = row ? `, applied by ${row.author} at ${time(row.appliedAt)}` : ", the built-in policy";
  const text = [
    `Version ${version}${who}${version === inForce.version ? "; it is in force." : "; it is not in force."}`,
    ...(inForce.refused === null ? [] : [inForce.refused]),
    JSON.stringify(policy, null, 2),
    table(rows, ["version", "applied", "by", "digest", "why"]),
  ];
  say(options, value, text.join("\n\n"));
}

export async function diff({ sql }: Context, policy: Policy, options: OutputOptions) {
  const inForce = await policyInForce(sql);
  const changes = policyDifferences(inForce.policy, policy);
  const name = inForce.version === BUILT_IN ? "the built-in policy" : `version ${inForce.version}`;
  const words =
    changes.length === 0
      ? `The file decides the same as ${name}, which is in force.`
      : `Against ${name}, which is in force:\n${shown(changes)}`;
  say(options, { version: inForce.version, changes }, words);
}

function shown(changes: readonly PolicyDifference[]): string {
  const rows = changes.map(({ field, before, after }) => [field, brief(before), brief(after)]);
  return table(rows, ["field", "in force", "new"]);
}

const LIST_SHOWN = 5;

function brief(value: unknown): string {
  if (!Array.isArray(value)) return JSON.stringify(value);
  const more = value.length > LIST_SHOWN ? `, and ${value.length - LIST_SHOWN} more` : "";
  return `${value.slice(0, LIST_SHOWN).join(", ")}${more}`;
}

function unknownVersion(version: number): CommandError {
  return new CommandError(
    `There is no version ${version} of the policy. \`postrider caps policy show\` lists them.`,
  );
}

export function readShadow(text: string): Policy | null {
  return text === "off" ? null : readFile(text);
}

export function readFile(path: string): Policy {
  try {
    return readPolicy(path);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}
