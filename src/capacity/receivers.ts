/**
 * How receivers react to what comes from one address, so that a simulation shows what growing too fast costs:
 * they throttle what is far more than they are used to, put mail of a bad reputation into the spam folder,
 * and blocklist. A model, not a measurement: docs/caps-statistics.md has its formulas, `postrider caps fit`
 * takes what it can from an operator's own counts, and `--sweep receivers.NAME=...` shows how much an answer
 * depends on a number.
 */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { fileFault } from "../schemafault.ts";
import { binomial, type Random } from "./random.ts";

const strict = { additionalProperties: false };
const positive = (maximum: number, description: string) => Type.Number({ minimum: 0, maximum, description });

/** Of numbers that are fitted to counts. */
export const RECEIVERS_MAX = { comfortable_ramp: 100, blocklist_days: 60 };

export const ReceiverFile = Type.Object(
  {
    unnoticed_per_day: positive(1e9, "So many a day are never throttled."),
    comfortable_ramp: positive(
      RECEIVERS_MAX.comfortable_ramp,
      "So many times the usual volume of a day pass; more is throttled.",
    ),
    learning: positive(1, "How much of a larger volume counts as usual the day after."),
    throttle_hours: positive(240, "Half of what is throttled goes through within so many hours."),
    ramp_damage: positive(1, "Reputation lost on a day with twice the volume that passes."),
    complaint_damage: positive(1, "Reputation lost on a day with twice the tolerated complaints."),
    complaint_tolerated: positive(1, "Complaints of what reaches inboxes."),
    bounce_damage: positive(1, "Reputation lost on a day with twice the tolerated bounces."),
    bounce_tolerated: positive(1, "Bounces of what is tried."),
    young_days: positive(365, "A new address loses twice as much; the older, the nearer to once."),
    recovery: positive(1, "Share of what is missing from the full reputation that a good day brings back."),
    spam_below: positive(1, "Below this reputation mail goes to the spam folder, all of it at 0."),
    blocklist_below: positive(1, "Below this reputation a blocklist may take the address up on any day."),
    blocklist_chance: positive(1, "The chance of that on a day with no reputation left."),
    blocklist_days: positive(RECEIVERS_MAX.blocklist_days, "How long it stays there."),
    blocklist_share: positive(1, "Mail refused meanwhile."),
  },
  { ...strict, title: "Postrider receivers" },
);

export type ReceiverModel = Static<typeof ReceiverFile>;

export const DEFAULT_RECEIVERS: ReceiverModel = {
  unnoticed_per_day: 1_000,
  comfortable_ramp: 2.1,
  learning: 0.5,
  throttle_hours: 4,
  ramp_damage: 0.1,
  complaint_damage: 0.05,
  complaint_tolerated: 0.001,
  bounce_damage: 0.02,
  bounce_tolerated: 0.05,
  young_days: 30,
  recovery: 0.07,
  spam_below: 0.7,
  blocklist_below: 0.4,
  blocklist_chance: 0.5,
  blocklist_days: 5,
  blocklist_share: 0.7,
};

const compiled = Compile(Type.Partial(ReceiverFile, strict));

/**
 * The numbers that differ from the model, or an Error that names the field and the reason; `caps fit` writes
 * more.
 */
export function checkReceivers(json: unknown): Partial<ReceiverModel> {
  const receivers = (json as { receivers?: unknown } | null)?.receivers ?? json;
  if (!compiled.Check(receivers))
    throw new Error(fileFault(compiled.Errors(receivers), ReceiverFile, "receivers"));
  return receivers;
}

/** What a day did to the address; no receiver is moved further by what is ten times as bad. */
const DAMAGE_FACTOR_MAX = 10;
const FORGETTING = 0.03;
const REPUTATION_NEW = 0.75;
const REPUTATION_KNOWN = 0.95;
const KNOWN_AGE_DAYS = 60;

export type ReceiverDay = { volume: number; bounced: number; inboxed: number; complained: number };

export class SimulatedReceivers {
  readonly #model: ReceiverModel;
  readonly #random: Random;
  #age: number;
  #usual: number;
  #listedFor = 0;
  #volume = 0;
  reputation: number;
  /** Of mail that is delivered. */
  spamShare = 0;
  /** Of all mail. */
  blockedShare = 0;

  /** `known`: recipients a day that the address has been sending to for long; 0: it is new. */
  constructor(model: ReceiverModel, known: number, random: Random) {
    this.#model = model;
    this.#random = random;
    this.#usual = known;
    this.#age = known > 0 ? KNOWN_AGE_DAYS : 0;
    this.reputation = known > 0 ? REPUTATION_KNOWN : REPUTATION_NEW;
  }

  get isListed(): boolean {
    return this.#listedFor > 0;
  }

  /** What passes today without a delay. */
  get comfortable(): number {
    return Math.max(this.#model.unnoticed_per_day, this.#model.comfortable_ramp * this.#usual);
  }

  /** Of these, how many are told to come back later. */
  throttle(count: number): number {
    const passes = Math.max(0, this.comfortable - this.#volume);
    this.#volume += count;
    return Math.max(0, count - passes);
  }

  /** After a day: what it did to the volume they are used to and to the reputation. */
  endDay({ volume, bounced, inboxed, complained }: ReceiverDay): void {
    const model = this.#model;
    const excess = (found: number, tolerated: number) =>
      Math.min(DAMAGE_FACTOR_MAX, Math.max(0, found / tolerated - 1));
    const youth = 1 + Math.max(0, 1 - this.#age / Math.max(1, model.young_days));
    const damage =
      model.ramp_damage * excess(volume, this.comfortable) +
      model.bounce_damage * excess(volume > 0 ? bounced / volume : 0, model.bounce_tolerated) +
      model.complaint_damage * excess(inboxed > 0 ? complained / inboxed : 0, model.complaint_tolerated);
    if (damage > 0) this.reputation = Math.max(0, this.reputation - damage * youth);
    else if (volume > 0) this.reputation += (1 - this.reputation) * model.recovery;

    const passed = Math.min(volume, this.comfortable);
    const rate = passed > this.#usual ? model.learning : FORGETTING;
    this.#usual += (passed - this.#usual) * rate;
    this.#age++;
    this.#volume = 0;
    this.#blocklist();
    this.spamShare = Math.max(0, 1 - this.reputation / Math.max(1e-9, model.spam_below));
    this.blockedShare = this.isListed ? model.blocklist_share : 0;
  }

  #blocklist(): void {
    const { blocklist_below, blocklist_chance, blocklist_days } = this.#model;
    if (this.#listedFor > 0) this.#listedFor--;
    const danger = Math.max(0, 1 - this.reputation / Math.max(1e-9, blocklist_below));
    if (!this.isListed && binomial(this.#random, 1, danger * blocklist_chance) > 0)
      this.#listedFor = Math.round(blocklist_days);
  }
}
