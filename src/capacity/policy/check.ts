/**
 * Promises that a `Policy` in hand is complete and makes sense as a whole; a file that does not is refused
 * with the name of the field and the reason. Most processes never read a file: what needs this imports it
 * when it has one, since the schema compiler takes 0.4 s of CPU to load.
 */
import { Compile } from "typebox/compile";
import { PLANS } from "../../rules/plans.ts";
import { fileFault } from "../../schemafault.ts";
import { type Policy, PolicyFile } from "./file.ts";
import { DEFAULT_POLICY } from "./shipped.ts";

const compiled = Compile(PolicyFile);

/** The policy, or an Error that names the field and the reason. */
export function checkPolicy(given: unknown): Policy {
  const json = upgraded(given);
  if (!compiled.Check(json)) throw new Error(fileFault(compiled.Errors(json), PolicyFile, "policy"));
  const policy = json as Policy;
  const wrong = contradiction(policy);
  if (wrong) throw new Error(wrong);
  return policy;
}

type Section = Record<string, unknown>;

/** Fields that are younger than the files of operators: where a file lacks one it is as we ship it. */
const LATER: readonly (readonly [section: keyof Policy | null, field: string])[] = [
  [null, "growth_unknown"],
  ["healthy", "soft"],
  ["healthy", "throttled"],
  ["healthy", "delivered"],
  ["evidence", "heard_share"],
];

function upgraded(given: unknown): unknown {
  const file = withErrorBudget(given);
  if (file === null || typeof file !== "object" || Array.isArray(file)) return file;
  const next: Section = { ...file };
  for (const [section, field] of LATER) {
    const shipped = (section === null ? DEFAULT_POLICY : DEFAULT_POLICY[section]) as Section;
    if (section === null) next[field] ??= shipped[field];
    else if (isSection(next[section])) next[section] = { [field]: shipped[field], ...next[section] };
  }
  return next;
}

function isSection(value: unknown): value is Section {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** A file from before steps had an error budget. */
function withErrorBudget(given: unknown): unknown {
  const file = given as { evidence?: Section; recovery?: Section } | null;
  if (file?.evidence?.late_bounces === undefined || file.recovery === undefined) return given;
  const { late_bounces: _, ...evidence } = file.evidence;
  return {
    ...file,
    evidence: { ...DEFAULT_POLICY.evidence, ...evidence },
    recovery: { ...DEFAULT_POLICY.recovery, ...file.recovery },
  };
}

/** What no single field shows: the steps must come in order, and a cap must be able to grow. */
function contradiction(policy: Policy): string | null {
  const { start, healthy, freeze, shrink, pause, ceiling } = policy;
  if (policy.recovery.clean_days_max < policy.recovery.clean_days)
    return "`recovery.clean_days_max` must not be under `recovery.clean_days`.";
  if (start.hour > start.day) return "`start.hour` must not be over `start.day`.";
  for (const plan of PLANS)
    if (ceiling[plan] < start.day) return `\`ceiling.${plan}\` must not be under \`start.day\`.`;
  for (const rate of ["bounce", "complaint"] as const) {
    if (freeze[rate] < healthy[rate]) return `\`freeze.${rate}\` must not be under \`healthy.${rate}\`.`;
    if (shrink[rate] < freeze[rate]) return `\`shrink.${rate}\` must not be under \`freeze.${rate}\`.`;
    if (pause[rate] < freeze[rate]) return `\`pause.${rate}\` must not be under \`freeze.${rate}\`.`;
    if (policy.prior[rate].rate > healthy[rate])
      return `\`prior.${rate}.rate\` must not be over \`healthy.${rate}\`: no workspace could begin to grow.`;
  }
  return null;
}
