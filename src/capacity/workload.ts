/**
 * What a simulated workspace wants to send and what becomes of it: a scenario, as the files under
 * caps/scenarios/ have it, checked and made ready to be asked bin by bin. A bin is the five minutes of a
 * bucket of the hourly cap.
 */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { BUCKET_MS } from "../rules/ledger.ts";
import { CAP_MIN, PLANS } from "../rules/plans.ts";
import { fileFault } from "../schemafault.ts";
import { factorAround1, normal, poisson, type Random, randomFor } from "./random.ts";
import { ReceiverFile } from "./receivers.ts";
import { DAYS_MAX } from "./scenarios.ts";

export const BINS_PER_HOUR = 3_600_000 / BUCKET_MS;
export const BINS_PER_DAY = 24 * BINS_PER_HOUR;
const STREAMS_MAX = 16;
const PER_DAY_MAX = 1e8;

const strict = { additionalProperties: false };
const day = (description: string) => Type.Integer({ minimum: 0, maximum: DAYS_MAX, description });
const rate = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });

const After = Type.Object(
  {
    median_hours: Type.Number({
      minimum: 0,
      maximum: 1_000,
      description: "Half of it comes within so many hours.",
    }),
    spread: Type.Number({
      minimum: 0,
      maximum: 3,
      description: "Of the logarithm; 1: two thirds lie within a factor of e.",
    }),
  },
  strict,
);

const Hours = Type.Union([
  Type.Enum(["even", "office", "evening"]),
  Type.Array(Type.Number({ minimum: 0 }), { minItems: 24, maxItems: 24 }),
]);

const Stream = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 60 }),
    class: Type.Enum(["transactional", "automation"]),
    from_day: Type.Optional(day("The first day, 0 if left out.")),
    to_day: Type.Optional(day("The day on which it has ended.")),
    per_day: Type.Optional(
      Type.Number({ minimum: 0, maximum: PER_DAY_MAX, description: "Recipients on the first day." }),
    ),
    growth: Type.Optional(
      Type.Number({
        minimum: 0.1,
        maximum: 10,
        description: "What demand is multiplied by from day to day.",
      }),
    ),
    per_day_max: Type.Optional(Type.Number({ minimum: 0, maximum: PER_DAY_MAX })),
    share_of_cap: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 10,
        description:
          "Recipients a day as a share of the cap of its morning, up to `per_day_max`: what does not fit goes elsewhere.",
      }),
    ),
    list: Type.Optional(
      Type.Integer({ minimum: 1, maximum: PER_DAY_MAX, description: "Recipients that all arrive at once." }),
    ),
    at_hour: Type.Optional(
      Type.Number({ minimum: 0, exclusiveMaximum: 24, description: "When a list arrives." }),
    ),
    every_day: Type.Optional(Type.Boolean({ description: "The list comes every day." })),
    week: Type.Optional(
      Type.Array(Type.Number({ minimum: 0 }), {
        minItems: 7,
        maxItems: 7,
        description: "Factors from Monday to Sunday.",
      }),
    ),
    hours: Type.Optional(Hours),
    noise: Type.Optional(
      Type.Number({ minimum: 0, maximum: 2, description: "Spread of the volume from day to day." }),
    ),
    bad: Type.Optional(Type.Boolean({ description: "Mail that the caps are there to stop." })),
    bounce: rate("Of what is delivered or bounces."),
    /** In the session, if left out. */
    bounce_after: Type.Optional(After),
    complaint: rate("Of what is delivered where complaints are reported."),
    complaint_after: Type.Optional(After),
    fbl_share: Type.Optional(rate("Of what is delivered, to domains that report complaints.")),
    source: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 60,
        description: "The source it counts as: a form open to all.",
      }),
    ),
    sources: Type.Optional(
      Type.Record(Type.String({ maxLength: 60 }), rate("Of its mail."), {
        description: "The domains it goes to; the rest of it goes to very many.",
      }),
    ),
  },
  strict,
);

const period = { from_day: day("The first day."), to_day: day("The day on which it is over.") };

const Event = Type.Union([
  Type.Object(
    { kind: Type.Literal("evaluator_down"), ...period },
    { ...strict, description: "Nobody runs the policy: caps stay as they are, windows go on." },
  ),
  Type.Object(
    { kind: Type.Literal("blocked"), ...period, share: rate("Of all mail.") },
    { ...strict, description: "Mail is refused for the address that it comes from." },
  ),
  Type.Object(
    { kind: Type.Literal("soft"), ...period, share: rate("Of all mail.") },
    {
      ...strict,
      description:
        "Mail is refused for good for reasons that say nothing of the list, such as a full mailbox.",
    },
  ),
  Type.Object(
    {
      kind: Type.Literal("complaints"),
      day: day("At its noon, unless `at_hour` says when."),
      at_hour: Type.Optional(Type.Number({ minimum: 0, exclusiveMaximum: 24 })),
      count: Type.Integer({ minimum: 1, maximum: 1e6, description: "So many at once." }),
      source: Type.Optional(
        Type.String({ minLength: 1, maxLength: 60, description: "The provider that all of them come from." }),
      ),
    },
    { ...strict, description: "Complaints that no stream accounts for." },
  ),
  Type.Object(
    { kind: Type.Literal("deferred"), ...period, share: rate("Of all mail, told to come back later.") },
    { ...strict, description: "Receivers are slow: mail goes through, but later." },
  ),
  Type.Object(
    {
      kind: Type.Literal("override"),
      ...period,
      minimum: Type.Optional(Type.Integer({ minimum: CAP_MIN })),
      maximum: Type.Optional(Type.Integer({ minimum: CAP_MIN })),
      fixed: Type.Optional(Type.Integer({ minimum: CAP_MIN })),
      fixed_hour: Type.Optional(Type.Integer({ minimum: CAP_MIN })),
    },
    { ...strict, description: "Somebody sets the caps by hand, as `caps set` does." },
  ),
]);

/** What one sender is and wants to send. */
const sender = {
  plan: Type.Enum([...PLANS]),
  limits: Type.Optional(
    Type.Object(
      {
        emails_per_day: Type.Optional(Type.Integer({ minimum: 1 })),
        emails_per_month: Type.Optional(Type.Integer({ minimum: 1 })),
      },
      { ...strict, description: "In place of the quota of the plan, as `workspace set --limit` does." },
    ),
  ),
  start_cap: Type.Optional(
    Type.Integer({ minimum: CAP_MIN, description: "For a workspace that has grown before." }),
  ),
  spread: Type.Optional(
    Type.Object(
      { volume: Type.Number({ minimum: 0, maximum: 2 }), quality: Type.Number({ minimum: 0, maximum: 2 }) },
      { ...strict, description: "How much workspaces differ, from seed to seed." },
    ),
  ),
  streams: Type.Array(Stream, { minItems: 1, maxItems: STREAMS_MAX }),
};

const ScenarioFile = Type.Object(
  {
    description: Type.String(),
    days: Type.Integer({ minimum: 1, maximum: DAYS_MAX, description: "When --days does not say." }),
    target: Type.Optional(
      Type.Integer({ minimum: CAP_MIN, description: "The daily cap whose day of arrival is measured." }),
    ),
    ...sender,
    events: Type.Optional(Type.Array(Event, { maxItems: 50 })),
    providers: Type.Optional(
      Type.Record(Type.String({ maxLength: 60 }), rate("Of the mail that can be complained about."), {
        description: "Where complaints come from: a source each.",
      }),
    ),
    neighbours: Type.Optional(
      Type.Array(Type.Object({ count: Type.Integer({ minimum: 1, maximum: 20 }), ...sender }, strict), {
        maxItems: 10,
        description: "Others who send from the same address, under the same policy.",
      }),
    ),
    receivers: Type.Optional(
      Type.Union([Type.Literal("indifferent"), Type.Partial(ReceiverFile, strict)], {
        description: "How receivers react, where it differs from the model; indifferent: they do not.",
      }),
    ),
  },
  { ...strict, title: "Postrider scenario" },
);

export type ScenarioEvent = Static<typeof Event>;
export type Scenario = Static<typeof ScenarioFile>;
export type SimulatedSender = Pick<Scenario, "plan" | "limits" | "start_cap" | "spread" | "streams"> & {
  target?: number;
};
type StreamFile = Static<typeof Stream>;
type Delay = Static<typeof After>;

const compiled = Compile(ScenarioFile);

/** The scenario, or an Error that names the field and the reason. */
export function checkScenario(json: unknown): Scenario {
  if (!compiled.Check(json)) {
    const errors = compiled.Errors(json);
    throw new Error(fileFault(errors, ScenarioFile, "scenario"));
  }
  const scenario = json as Scenario;
  const streams = [scenario, ...(scenario.neighbours ?? [])].flatMap((sender) => sender.streams);
  for (const { name, per_day, list, share_of_cap } of streams)
    if ([per_day, list, share_of_cap].filter((one) => one !== undefined).length !== 1)
      throw new Error(`The stream ${name} needs either \`per_day\` or \`list\` or \`share_of_cap\`.`);
  return scenario;
}

export type SourceShare = readonly [name: string, share: number];

export type Quality = { bounce: number; complaint: number };

/** A stream with every default in place, for one workspace of the many that a scenario stands for. */
export type Workload = {
  bulk: boolean;
  bad: boolean;
  bounce: number;
  bounceAfter: Delay | null;
  complaint: number;
  complaintAfter: Delay;
  /** What the scenario says, before workspaces differ. */
  written: Quality;
  fblShare: number;
  /** The share of each known source in its mail. */
  sources: readonly SourceShare[];
  /** Sets what follows to a day with this cap; `weekday` 0 is Monday. */
  begin(day: number, weekday: number, capDay: number): void;
  /**
   * Of that day, what has no room under the cap and stays with another sender; null: all of it comes here.
   */
  elsewhere(): number | null;
  /** Recipients that arrive in a bin of that day. */
  arrivals(bin: number): number;
};

export const FBL_SHARE = 0.35;
const COMPLAINT_AFTER: Delay = { median_hours: 8, spread: 1.2 };
const BOUNCE_RATE_MAX = 0.95;

const SHAPES: Record<"even" | "office" | "evening", readonly number[]> = {
  even: new Array<number>(24).fill(1),
  office: [1, 1, 1, 1, 1, 2, 4, 8, 14, 16, 15, 14, 12, 14, 15, 14, 12, 9, 6, 5, 4, 3, 2, 1],
  evening: [3, 2, 1, 1, 1, 1, 2, 4, 5, 6, 7, 7, 8, 7, 7, 8, 9, 10, 13, 16, 18, 16, 11, 6],
};

/**
 * A stream's demand of a day follows from the seed, the stream and the day alone: two policies meet the same,
 * whatever they made of the days before.
 */
export function workloadsOf(scenario: SimulatedSender, seed: number): Workload[] {
  const { volume = 0, quality = 0 } = scenario.spread ?? {};
  const random = randomFor(seed);
  const size = factorAround1(random, volume);
  const illness = factorAround1(random, quality);
  return scenario.streams.map((stream, n) =>
    workloadOf(stream, size, stream.bad ? 1 : illness, (day) => randomFor(seed, n, day)),
  );
}

/** A delay in whole bins. */
export function binsAfter({ median_hours, spread }: Delay, random: Random): number {
  return Math.floor(median_hours * Math.exp(spread * normal(random)) * BINS_PER_HOUR);
}

function workloadOf(
  stream: StreamFile,
  size: number,
  illness: number,
  randomOn: (day: number) => Random,
): Workload {
  const {
    from_day = 0,
    to_day = Number.POSITIVE_INFINITY,
    list,
    per_day = 0,
    growth = 1,
    noise = 0,
  } = stream;
  const shape = shapeOf(stream.hours ?? "even");
  const listBin = Math.floor((stream.at_hour ?? 10) * BINS_PER_HOUR);
  let active = false;
  let today = 0;
  let listed = 0;
  let random = randomOn(0);
  let elsewhere = 0;
  return {
    bulk: stream.class === "automation",
    bad: stream.bad ?? false,
    bounce: Math.min(BOUNCE_RATE_MAX, stream.bounce * illness),
    bounceAfter: stream.bounce_after ?? null,
    complaint: Math.min(1, stream.complaint * illness),
    complaintAfter: stream.complaint_after ?? COMPLAINT_AFTER,
    written: { bounce: stream.bounce, complaint: stream.complaint },
    fblShare: stream.fbl_share ?? FBL_SHARE,
    sources: stream.source === undefined ? Object.entries(stream.sources ?? {}) : [[stream.source, 1]],
    begin(day, weekday, capDay) {
      active = day >= from_day && day < to_day;
      random = randomOn(day);
      listed = list && (day === from_day || stream.every_day) ? list : 0;
      const asked = stream.share_of_cap ? stream.share_of_cap * capDay : per_day * growth ** (day - from_day);
      const wanted = Math.min(stream.per_day_max ?? PER_DAY_MAX, asked);
      const scale = active ? size * (stream.week?.[weekday] ?? 1) : 0;
      today = active ? wanted * scale * factorAround1(random, noise) : 0;
      elsewhere = Math.round(((stream.per_day_max ?? wanted) - wanted) * scale);
    },
    elsewhere: () => (stream.share_of_cap === undefined ? null : elsewhere),
    arrivals(bin) {
      if (!active) return 0;
      const listedNow = bin === listBin ? listed : 0;
      return listedNow + poisson(random, today * (shape[Math.floor(bin / BINS_PER_HOUR)] as number));
    },
  };
}

/** The share of a day's mail that arrives in each bin of an hour. */
function shapeOf(hours: Static<typeof Hours>): readonly number[] {
  const weights = typeof hours === "string" ? SHAPES[hours] : hours;
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  return weights.map((weight) => weight / total / BINS_PER_HOUR);
}
