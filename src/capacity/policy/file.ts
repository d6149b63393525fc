/**
 * The policy file: what an SRE may tune about sending caps, each field with what it means. `caps/scenarios/`,
 * the simulator and the keeper read the same file.
 */
import Type, { type Static } from "typebox";
import { CAP_MIN } from "../../rules/plans.ts";
import { patterned } from "../../schemafault.ts";

const CAP_MAX = 2_000_000_000;

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
      "The days over which rates are taken. Harm is looked for from the start of each of them until now.",
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
            "The error budget, for each measure: of senders at the limit, a step hits at most 1.4 times this share in their first month, and 0.6 times in each later one, however often one looks. A smaller share lets more bad mail through before the first step.",
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
          "Bounces, or complaints, a day of a group of sources that count whatever the others have. More count only as far as the rest of the mail has as many for its share, unless most mail goes to the group: strangers cannot stop a sender from a few places.",
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
        shrinks: count(
          1,
          100,
          "That many shrinks within `within_days`, the present one included, pause as well.",
        ),
        within_days: count(1, 30, "For how many days a shrink is counted for `shrinks`."),
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
