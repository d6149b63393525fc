/**
 * mixed: what a day looks like: single sends, small batches, events that each start a run, and reads together
 * at `--rate` arrivals per second that do not wait for each other, while everything is delivered. Latency
 * counts from when a request was due, so that a stall is charged to everybody it made wait. Against a
 * deployment: the same, scheduled for weeks ahead and canceled, the events in an audience that no automation
 * knows.
 */
import { audienceOf } from "../audience.ts";
import { type Figure, figure } from "../figure.ts";
import { quantile, quantilesOf } from "../load.ts";
import { mail } from "../mails.ts";
import { costFigures } from "../meter.ts";
import { type Fired, type Hit, openLoop, type Shot } from "../openloop.ts";
import type { Result, Scenario } from "../scenario.ts";
import { aim, audienceThere, harmless, type Target, takeBack, targetAt } from "../target.ts";

const KINDS = ["single send", "batch of 10", "event", "read"] as const;
type Kind = (typeof KINDS)[number];
const BATCH_OF = 10;
/** Of ten requests. */
const PATTERN: readonly Kind[] = [
  "single send",
  "read",
  "event",
  "single send",
  "read",
  "batch of 10",
  "single send",
  "event",
  "single send",
  "read",
];
/** Every run of the automation tags its contact and sleeps on. */
const STEPS = [{ tag: { add: ["seen"] } }, { wait: "30d" }];

type Load = {
  target: Target;
  mailOf(n: number): object;
  /** Bodies, in turn; without any a read takes their place. */
  events: readonly string[];
};

/** Sends, and reads again what was sent before. */
class Mixture {
  readonly ids: string[] = [];
  readonly waits: Record<Kind, number[]> = { "single send": [], "batch of 10": [], event: [], read: [] };
  readonly #load: Load;
  readonly #kinds: Kind[] = [];

  constructor(load: Load) {
    this.#load = load;
  }

  get sent(): number {
    return this.ids.length;
  }

  next(n: number): Shot {
    const { target, mailOf, events } = this.#load;
    const kind = this.#kindOf(n);
    this.#kinds[n] = kind;
    switch (kind) {
      case "single send":
        return aim(target, "POST", "/emails", mailOf(n));
      case "batch of 10":
        return aim(
          target,
          "POST",
          "/emails/batch",
          Array.from({ length: BATCH_OF }, (_, at) => mailOf(n + at)),
        );
      case "event":
        return { ...aim(target, "POST", "/events"), body: events[n % events.length] as string };
      case "read":
        return aim(target, "GET", `/emails/${this.ids[(n * 7_919) % this.ids.length]}`);
    }
  }

  heard({ status, body, waitMs }: Hit, n: number): void {
    const kind = this.#kinds[n] as Kind;
    this.waits[kind].push(waitMs);
    if (status !== 200 || kind === "read" || kind === "event") return;
    const answer = JSON.parse(body) as { id?: string; data?: { id: string }[] };
    this.ids.push(...(answer.data ?? [answer as { id: string }]).map(({ id }) => id));
  }

  /** Nothing can be read before anything was sent. */
  #kindOf(n: number): Kind {
    const given = PATTERN[n % PATTERN.length] as Kind;
    const kind = given === "event" && this.#load.events.length === 0 ? "read" : given;
    return kind === "read" && this.ids.length === 0 ? "single send" : kind;
  }
}

function outcome(rate: number, { failures, perSecond, waits: all }: Fired, mixture: Mixture): Result {
  const figures: Figure[] = [
    figure("requests due", rate, "/s"),
    figure("requests answered well", perSecond, "/s"),
    figure("refused or failed", failures, "", "0"),
  ];
  for (const kind of KINDS) {
    const waits = mixture.waits[kind].sort((a, b) => a - b);
    if (waits.length === 0) continue;
    for (const [name, part] of [
      ["p50", 0.5],
      ["p99", 0.99],
      ["p99.9", 0.999],
    ] as const)
      figures.push(figure(`${kind} ${name}`, quantile(waits, part), "ms"));
  }
  const distributions = KINDS.filter((kind) => mixture.waits[kind].length > 0).map((kind) => ({
    name: kind,
    unit: "ms",
    points: quantilesOf(mixture.waits[kind]),
  }));
  return {
    figures,
    distributions: [...distributions, { name: "all", unit: "ms", points: quantilesOf(all) }],
  };
}

const mixed: Scenario = {
  name: "mixed",
  does: "sends, batches, events and reads together at a rate that does not wait for answers",
  async run(bench, { seconds, sizes: { rate }, tell }) {
    const workspace = await bench.workspace();
    const events = await audienceOf(bench, workspace, STEPS);
    const [api] = await Promise.all([
      bench.role("api"),
      bench.role("deliver"),
      bench.role("automate"),
      bench.role("keeper"),
    ]);
    const target = targetAt(api.url, workspace.key, rate, bench.endings.signal);
    const load: Load = { target, mailOf: mail, events };
    await fire(new Mixture(load), target, rate);
    const mixture = new Mixture(load);
    const meter = bench.meter();
    const fired = await fire(mixture, target, rate * seconds, (n) => {
      if (n % rate === 0) tell(`${n} of ${rate * seconds} requests`);
    });
    const metered = meter.stop();
    const { figures, ...others } = outcome(rate, fired, mixture);
    return {
      figures: [...figures, ...costFigures(metered, mixture.sent)],
      ...others,
      courses: metered.courses,
    };
  },
  async against(target, { seconds, tell }) {
    const { rate } = target;
    const now = Date.now();
    const events = await audienceThere(target);
    const why = typeof events === "string" ? events : null;
    const mixture = new Mixture({
      target,
      mailOf: (n) => harmless(n, now),
      events: typeof events === "string" ? [] : events,
    });
    const fired = await fire(mixture, target, rate * seconds, () => {
      for (const id of mixture.ids.slice(target.booked.size)) target.booked.add(id);
    });
    tell(`${mixture.sent} e-mails are canceled`);
    const left = await takeBack(target);
    const { figures, ...others } = outcome(rate, fired, mixture);
    return {
      figures: [...figures, figure("could not be taken back", left, "", "0")],
      ...others,
      ...(why !== null && { skipped: [`the events: ${why}`] }),
    };
  },
};

function fire(
  mixture: Mixture,
  target: Target,
  count: number,
  onHit: (n: number) => void = () => {},
): Promise<Fired> {
  return openLoop(
    { rate: target.rate, count, signal: target.signal },
    (n) => mixture.next(n),
    (hit, n) => {
      mixture.heard(hit, n);
      onHit(n);
    },
  );
}

export const scenarios = [mixed];
