/**
 * What processes use while a scenario runs: seconds of CPU of each with all its children, also of those that
 * have ended meanwhile, and its memory, sampled four times a second, with any gauge that is to be seen beside
 * it. Linux only.
 */
import { readFileSync } from "node:fs";
import { type Course, type Figure, figure, TOTAL_UNIT } from "./figure.ts";

const TICKS_PER_SECOND = 100;
const SAMPLE_EVERY_MS = 250;

export type Watched = { name: string; pid: number };
/** A number that only rises: its rate is shown. */
export type Counter = { name: string; read(): number };

export type Metered = {
  seconds: number;
  cpu: { name: string; seconds: number }[];
  peaks: { name: string; mb: number }[];
  courses: Course[];
};

export class Meter {
  readonly #watched: readonly Watched[];
  readonly #counters: readonly Counter[];
  readonly #before: number[];
  readonly #peaks: number[];
  readonly #memory: [number, number][][];
  readonly #rates: [number, number][][];
  readonly #timer: NodeJS.Timeout;
  readonly #began = performance.now();
  #last: { at: number; counts: number[] };

  constructor(watched: readonly Watched[], counters: readonly Counter[] = []) {
    this.#watched = watched;
    this.#counters = counters;
    this.#before = watched.map(({ pid }) => cpuSeconds(pid));
    this.#peaks = watched.map(() => 0);
    this.#memory = watched.map(() => []);
    this.#rates = counters.map(() => []);
    this.#last = { at: this.#began, counts: counters.map((counter) => counter.read()) };
    this.#sample();
    this.#timer = setInterval(() => this.#sample(), SAMPLE_EVERY_MS);
  }

  /** For good, whether anybody wants to know or not. */
  end(): void {
    clearInterval(this.#timer);
  }

  stop(): Metered {
    this.end();
    this.#sample();
    return {
      seconds: (performance.now() - this.#began) / 1000,
      cpu: this.#watched.map(({ name, pid }, n) => ({
        name,
        seconds: Math.max(0, cpuSeconds(pid) - (this.#before[n] as number)),
      })),
      peaks: this.#watched.map(({ name, pid }, n) => ({
        name,
        mb: Math.max(this.#peaks[n] as number, peakMb(pid)),
      })),
      courses: [
        ...this.#counters.map(
          ({ name }, n): Course => ({ name, about: "rate", unit: "/s", points: this.#rates[n] ?? [] }),
        ),
        ...this.#watched.map(
          ({ name }, n): Course => ({ name, about: "memory", unit: "MB", points: this.#memory[n] ?? [] }),
        ),
      ],
    };
  }

  #sample(): void {
    const at = performance.now();
    const second = (at - this.#began) / 1000;
    for (const [n, { pid }] of this.#watched.entries()) {
      const mb = memoryMb(pid);
      this.#peaks[n] = Math.max(this.#peaks[n] as number, mb);
      this.#memory[n]?.push([second, mb]);
    }
    const passed = (at - this.#last.at) / 1000;
    if (passed * 1000 < SAMPLE_EVERY_MS / 2) return; // too short for a rate that means something
    const counts = this.#counters.map((counter) => counter.read());
    for (const [n, count] of counts.entries())
      this.#rates[n]?.push([second, (count - (this.#last.counts[n] as number)) / passed]);
    this.#last = { at, counts };
  }
}

/**
 * The rate of the second half of what was counted: processes have started by then, connections are open, and
 * the intake has ended or goes on as the program has it.
 */
export function secondHalfRate({ courses }: Metered): number {
  const points = courses.find(({ about }) => about === "rate")?.points ?? [];
  const spans = points.map(([at, rate], n) => ({ passed: at - (points[n - 1]?.[0] ?? 0), rate }));
  const all = spans.reduce((sum, { passed, rate }) => sum + passed * rate, 0);
  let seconds = 0;
  let count = 0;
  for (const { passed, rate } of spans.reverse()) {
    if (count >= all / 2) break;
    if (count + rate === 0) continue; // after the last of them
    seconds += passed;
    count += passed * rate;
  }
  return seconds === 0 ? 0 : count / seconds;
}

/** What all of it used for each thousand e-mails, in sum and by process, and the most memory of each. */
export function costFigures({ cpu, peaks }: Metered, mails: number, whose = ""): Figure[] {
  const total = cpu.reduce((sum, { seconds }) => sum + seconds, 0);
  const perThousand = (seconds: number) => (mails > 0 ? (seconds * 1000) / mails : 0);
  return [
    figure(`${whose}CPU per thousand e-mails`, perThousand(total), "s"),
    ...cpu.map(({ name, seconds }) => figure(`${whose}of which ${name}`, perThousand(seconds), "s")),
    ...cpu.map(({ name, seconds }) => figure(`${whose}CPU of ${name}`, seconds, TOTAL_UNIT)),
    ...peaks.map(({ name, mb }) => figure(`${whose}most memory of ${name}`, mb, "MB")),
  ];
}

/** Seconds of CPU a process and its children, living and dead, have used. */
export function cpuSeconds(pid: number): number {
  const [root, ...living] = tree(pid);
  if (root === undefined) return 0;
  return (
    [...living.map((one) => ticks(one)), ticks(root)].reduce((sum, one) => sum + one, 0) / TICKS_PER_SECOND
  );
}

/** What a process and its children hold: their own pages, and once those that they share. */
export function memoryMb(pid: number): number {
  let own = 0;
  let shared = 0;
  for (const one of tree(pid)) {
    const status = read(`/proc/${one}/status`);
    own += kilobytes(status, "RssAnon");
    shared = Math.max(shared, kilobytes(status, "RssFile") + kilobytes(status, "RssShmem"));
  }
  return Math.round((own + shared) / 1024);
}

/** The kernel's own peak is exact, but knows single processes only. */
function peakMb(pid: number): number {
  if (tree(pid).length > 1) return 0;
  return Math.round(kilobytes(read(`/proc/${pid}/status`), "VmHWM") / 1024);
}

/** Of the process itself, and of its children that have ended and were waited for. */
function ticks(pid: number): number {
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, "")
    .split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}

/** A process and all that came from it and live. */
export function tree(pid: number): number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
  return [pid, ...children.flatMap(tree)];
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // the process has ended
  }
}
