/**
 * The policy file: what an SRE may tune about sending caps, each field with what it means, and the values we ship.
 * Promises that a `Policy` in hand is complete and makes sense as a whole; a file that does not is refused with the
 * name of the field and the reason. `caps/scenarios/`, the simulator and the keeper read the same file.
 */
import { createHash } from "node:crypto";
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { CAP_DAY_START, CAP_HOUR_START, CAP_MIN, PLANS } from "../../rules/plans.ts";
import { fileFault, patterned, type SchemaError } from "../../schemafault.ts";

const CAP_MAX = 2_000_000_000;
const VERSION_CHARS = 8;

const cap = (description: string) => Type.Integer({ minimum: CAP_MIN, maximum: CAP_MAX, description });
const share = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });
const count = (minimum: number, maximum: number, description: string) =>
  Type.Integer({ minimum, maximum, description });
const strict = { additionalProperties: false };

const Prior = (of: string) =>
  Type.Object(
    {
      rate: share(`The ${of} rate assumed of a workspace of which nothing is known.`),
      weight: Type.Number({
        exclusiveMinimum: 0,
        maximum: 1e6,
        description: "How many e-mails of its own it takes to count as much as this assumption.",
      }),
    },
    { ...strict, description: `What the posterior mean of the ${of} rate starts from.` },
  );

export const PolicyFile = Type.Object(
  {
    $schema: Type.Optional(Type.String({ description: "For editors: ./policy.schema.json." })),
    description: Type.Optional(Type.String({ description: "What this policy is for." })),
    start: Type.Object(
      {
        day: cap("Recipients a day."),
        hour: cap("Recipients an hour, until the hourly share of the daily cap is more."),
      },
      { ...strict, description: "The caps of a new workspace." },
    ),
    hour_share: Type.Number({
      minimum: 0.05,
      maximum: 1,
      description: "The hourly cap as a share of the daily cap.",
    }),
    growth: Type.Number({
      minimum: 1,
      maximum: 10,
      description:
        "What the daily cap is multiplied by, once per UTC day, when every condition of growth holds.",
    }),
    growth_unknown: Type.Number({
      minimum: 1,
      maximum: 10,
      description:
        "The factor while bounces or complaints are unknown: nobody would tell us of them, or too little of the mail goes to domains that report them.",
    }),
    growth_after_shrink: Type.Number({
      minimum: 1,
      maximum: 10,
      description:
        "The factor for a workspace whose cap was shrunk not long ago, or whose automation mail was paused.",
    }),
    growth_after_shrink_days: count(0, 365, "How long a shrink or a pause slows growth, in days."),
    utilisation: share(
      "Growth needs a day that used at least this share of its cap, or on which mail waited for a cap.",
    ),
    delivered_min: count(0, 1e6, "Growth needs at least so many e-mails delivered within the window."),
    window_days: count(
      1,
      30,
      "The days over which rates are taken. Harm is also looked for in the last one and two.",
    ),
    healthy: Type.Object(
      {
        bounce: share("Bounced of what was tried."),
        complaint: share("Complaints of what was delivered where feedback loops exist."),
        blocked: share("Refused for the address of the sender or its content: growing would make it worse."),
        soft: share("Refused for good, for other reasons than an address that is not there."),
        throttled: share("Told at the first attempt to come back later, for our reputation or our rate."),
        delivered: share("At least this share of what was tried on the day must be delivered."),
      },
      {
        ...strict,
        description:
          "Growth needs posterior means of bounces and complaints below these rates, the rates of the day itself below the next three, and the share of delivered mail above the last.",
      },
    ),
    prior: Type.Object({ bounce: Prior("bounce"), complaint: Prior("complaint") }, strict),
    evidence: Type.Object(
      {
        errors_per_month: Type.Number({
          minimum: 1e-6,
          maximum: 0.5,
          description:
            "Of senders at the limit, the share that a step hits in their first month at most, for each measure, however often one looks; half of it in every month after that. A smaller share lets more bad mail through before the first step.",
        }),
        errors_after_step: Type.Number({
          minimum: 1e-6,
          maximum: 0.5,
          description: "The same for a workspace that is not back to normal: its next step needs less.",
        }),
        confidence: Type.Number({
          minimum: 0.5,
          maximum: 0.99999,
          description: "Of the intervals that a report draws around rates. Steps are not taken on it.",
        }),
        attempted_min: count(
          1,
          1e6,
          "E-mails tried, or delivered at feedback loops, that a rate is taken over at least: of fewer the missing ones count as fine.",
        ),
        bounces_min: count(1, 1e6, "Fewer bounces prove nothing."),
        complaints_min: count(1, 1e6, "Fewer complaints prove nothing: one reader's mood is not a rate."),
        heard_share: share(
          "Complaints are unknown where less than this share of the delivered mail goes to domains that report them.",
        ),
        source_events: count(
          0,
          1e6,
          "Bounces, or complaints, a day of one source that count whatever the others have. More count only as far as the rest of the mail has as many, unless most mail goes to that source: strangers cannot stop a sender from one place.",
        ),
      },
      { ...strict, description: "What it takes to prove harm." },
    ),
    freeze: Type.Object(
      { bounce: share("Bounce rate."), complaint: share("Complaint rate.") },
      { ...strict, description: "Above these rates, surely, the cap stays where it is." },
    ),
    pause: Type.Object(
      {
        bounce: share("Bounce rate."),
        complaint: share("Complaint rate."),
        shrinks: count(1, 100, "As many shrinks within `within_days` pause as well."),
        within_days: count(1, 30, "The days within which shrinks add up."),
      },
      {
        ...strict,
        description:
          "Above these rates, surely, mail that is not transactional waits, which spares the rest.",
      },
    ),
    shrink: Type.Object(
      {
        bounce: share("Bounce rate."),
        complaint: share("Complaint rate."),
        factor: Type.Number({ minimum: 0.01, maximum: 0.99, description: "What the cap is multiplied by." }),
      },
      {
        ...strict,
        description:
          "Above these rates, surely, the cap shrinks, each time on new evidence. Where the rate of pause is lower, a pause comes first and the cap shrinks if harm goes on all the same.",
      },
    ),
    recovery: Type.Object(
      {
        clean_days: count(
          1,
          60,
          "Days in a row without new harm that take a workspace one step back to normal.",
        ),
        clean_days_max: count(
          1,
          365,
          "Each pause within `growth_after_shrink_days` doubles the days needed, up to so many.",
        ),
        below: share("A day is clean below this share of the freeze rates, which keeps caps from swinging."),
        probe: count(
          CAP_MIN,
          1e6,
          "After a pause, recipients a day of mail that is not transactional: so few find out whether the list has been mended.",
        ),
        probe_growth: Type.Number({
          minimum: 1,
          maximum: 10,
          description: "What the probe is multiplied by after each clean day on which mail was sent.",
        }),
      },
      {
        ...strict,
        description: "The way back: paused, probing, normal; or shrunk, normal; or frozen, normal.",
      },
    ),
    idle: Type.Object(
      {
        after_days: count(1, 365, "Days without any mail until the cap begins to decay."),
        every_days: count(1, 365, "Days between two steps of decay."),
        factor: Type.Number({
          minimum: 0.01,
          maximum: 1,
          description: "What each step multiplies the cap by.",
        }),
      },
      { ...strict, description: "A reputation not used is lost: decay, never below the start." },
    ),
    feedback_domains: Type.Array(patterned("^[a-z0-9.-]+$", "a domain in small letters"), {
      maxItems: 10_000,
      description:
        "Domains whose providers report complaints: what is delivered elsewhere says nothing about them.",
    }),
    ceiling: Type.Object(
      {
        free: cap("On the plan free."),
        essentials: cap("On the plan essentials."),
        standard: cap("On the plan standard."),
        pro: cap("On the plan pro."),
      },
      { ...strict, description: "What the daily cap grows to at most, by plan." },
    ),
  },
  { ...strict, title: "Postrider sending cap policy" },
);

export type Policy = Static<typeof PolicyFile>;

export const DEFAULT_POLICY: Policy = {
  start: { day: CAP_DAY_START, hour: CAP_HOUR_START },
  hour_share: 0.2,
  growth: 1.4,
  growth_unknown: 1.2,
  growth_after_shrink: 1.2,
  growth_after_shrink_days: 30,
  utilisation: 0.6,
  delivered_min: 100,
  window_days: 7,
  healthy: { bounce: 0.02, complaint: 0.001, blocked: 0.1, soft: 0.1, throttled: 0.2, delivered: 0.6 },
  prior: { bounce: { rate: 0.01, weight: 100 }, complaint: { rate: 0.0005, weight: 2000 } },
  evidence: {
    errors_per_month: 0.005,
    errors_after_step: 0.05,
    confidence: 0.99,
    attempted_min: 50,
    bounces_min: 5,
    complaints_min: 4,
    heard_share: 0.02,
    source_events: 3,
  },
  freeze: { bounce: 0.05, complaint: 0.001 },
  pause: { bounce: 0.06, complaint: 0.003, shrinks: 2, within_days: 7 },
  shrink: { bounce: 0.08, complaint: 0.005, factor: 0.5 },
  recovery: { clean_days: 3, clean_days_max: 24, below: 0.8, probe: 50, probe_growth: 3 },
  idle: { after_days: 30, every_days: 7, factor: 0.5 },
  feedback_domains: [
    ...[
      "yahoo.com",
      "ymail.com",
      "rocketmail.com",
      "aol.com",
      "yahoo.co.uk",
      "yahoo.fr",
      "yahoo.de",
      "yahoo.co.jp",
    ],
    ...["hotmail.com", "outlook.com", "live.com", "msn.com", "hotmail.co.uk", "hotmail.fr", "outlook.de"],
    ...["comcast.net", "cox.net", "fastmail.com", "mail.ru", "inbox.ru", "bk.ru", "list.ru", "yandex.ru"],
    ...["libero.it", "virgilio.it", "laposte.net", "sfr.fr", "seznam.cz", "zoho.com", "rackspace.com"],
  ],
  ceiling: { free: 300, essentials: 5_000, standard: 50_000, pro: 500_000 },
};

const compiled = Compile(PolicyFile);

/** The policy, or an Error that names the field and the reason. */
export function checkPolicy(given: unknown): Policy {
  const json = upgraded(given);
  if (!compiled.Check(json))
    throw new Error(fileFault(compiled.Errors(json) as readonly SchemaError[], PolicyFile, "policy"));
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

/** Names what a policy decides: two files that decide alike have the same version, whatever they say about themselves. */
export function policyVersion(policy: Policy): string {
  const { $schema: _schema, description: _description, ...decides } = policy;
  return createHash("sha256").update(sorted(decides)).digest("hex").slice(0, VERSION_CHARS);
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

function sorted(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
