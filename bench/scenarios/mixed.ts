/**
 * mixed: what a day looks like: single sends, small batches and reads together at `--rate` arrivals per second that do not
 * wait for each other, while everything is delivered. Latency counts from when a request was due, so that a stall
 * is charged to everybody it made wait. Against a deployment: the same, scheduled for weeks ahead and canceled.
 */
import { mail, quantile, quantilesOf } from "../load.ts";
import { costFigures } from "../meter.ts";
import { type Fired, type Hit, openLoop, type Shot } from "../openloop.ts";
import { type Figure, figure, type Result, type Scenario } from "../scenario.ts";
import { aim, cancelAll, harmless } from "../target.ts";

const KINDS = ["single send", "batch of 10", "read"] as const;
type Kind = (typeof KINDS)[number];
const BATCH_OF = 10;
/** Of ten requests. */
const PATTERN: readonly Kind[] = [
  "single send",
  "read",
  "single send",
  "single send",
  "read",
  "batch of 10",
  "single send",
  "read",
  "single send",
  "read",
];

type Sending = { shot(method: Shot["method"], path: string, body?: object): Shot; mailOf(n: number): object };

/** Sends, and reads again what was sent before. */
class Mixture {
  readonly ids: string[] = [];
  readonly waits: Record<Kind, number[]> = { "single send": [], "batch of 10": [], read: [] };
  readonly #sending: Sending;

  constructor(sending: Sending) {
    this.#sending = sending;
  }

  get sent(): number {
    return this.ids.length;
  }

  next(n: number): Shot {
    const { shot, mailOf } = this.#sending;
    const kind = this.#kindOf(n);
    if (kind === "single send") return shot("POST", "/emails", mailOf(n));
    if (kind === "batch of 10")
      return shot(
        "POST",
        "/emails/batch",
        Array.from({ length: BATCH_OF }, (_, at) => mailOf(n + at)),
      );
    return shot("GET", `/emails/${this.ids[(n * 7_919) % this.ids.length]}`);
  }

  heard({ status, body, waitMs }: Hit, n: number): void {
    const kind = this.#kinds[n] as Kind;
    this.waits[kind].push(waitMs);
    if (status !== 200 || kind === "read") return;
    const answer = JSON.parse(body) as { id?: string; data?: { id: string }[] };
    this.ids.push(...(answer.data ?? [answer as { id: string }]).map(({ id }) => id));
  }

  readonly #kinds: Kind[] = [];

  /** Nothing can be read before anything was sent. */
  #kindOf(n: number): Kind {
    const wanted = PATTERN[n % PATTERN.length] as Kind;
    const kind = wanted === "read" && this.ids.length === 0 ? "single send" : wanted;
    this.#kinds[n] = kind;
    return kind;
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
  const distributions = KINDS.map((kind) => ({
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
  does: "sends, batches and reads together at a rate that does not wait for answers",
  async run(bench, { seconds, sizes: { rate }, tell }) {
    const { key } = await bench.workspace();
    const [api] = await Promise.all([bench.role("api"), bench.role("deliver"), bench.role("keeper")]);
    const target = { url: api.url, key, rate, booked: new Set<string>(), signal: bench.endings.signal };
    const sending: Sending = { shot: (method, path, body) => aim(target, method, path, body), mailOf: mail };
    const warmup = new Mixture(sending);
    await openLoop(
      { rate, count: rate },
      (n) => warmup.next(n),
      (hit, n) => warmup.heard(hit, n),
    );
    const mixture = new Mixture(sending);
    const meter = bench.meter();
    const fired = await openLoop(
      { rate, count: rate * seconds },
      (n) => mixture.next(n),
      (hit, n) => {
        mixture.heard(hit, n);
        if (n % rate === 0) tell(`${n} of ${rate * seconds} requests`);
      },
    );
    const metered = meter.stop();
    const { figures, ...others } = outcome(rate, fired, mixture);
    return {
      figures: [...figures, ...costFigures(metered, mixture.sent)],
      ...others,
      courses: metered.courses,
    };
  },
  async against(target, { seconds, tell }) {
    const now = Date.now();
    const mixture = new Mixture({
      shot: (method, path, body) => aim(target, method, path, body),
      mailOf: (n) => harmless(n, now),
    });
    const { rate, signal } = target;
    const fired = await openLoop(
      { rate, count: rate * seconds, signal },
      (n) => mixture.next(n),
      (hit, n) => {
        mixture.heard(hit, n);
        for (const id of mixture.ids.slice(target.booked.size)) target.booked.add(id);
      },
    );
    tell(`${mixture.sent} e-mails are canceled`);
    const left = await cancelAll(target);
    const { figures, ...others } = outcome(rate, fired, mixture);
    return { figures: [...figures, figure("could not be canceled", left, "", "0")], ...others };
  },
};

export const scenarios = [mixed];
