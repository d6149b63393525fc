/**
 * A thread for work that would hold up this one: a piece at a time, workspaces in turn, so that who has much
 * of it delays others by one piece. What is late costs the thread, if it is at it, and the rest goes to a new
 * one.
 */
import { Worker } from "node:worker_threads";
import { whenLate } from "./clock.ts";

const HEAP_MB_MAX = 512;

export type ThreadWork<Work> = {
  workspaceId: string;
  work: Work;
  /** Handed over, not copied. */
  memory?: readonly ArrayBuffer[];
  /** Until it is done, from now on. */
  msMax: number;
  late(): unknown;
  /** Nobody waits for it any more. The thread finishes it all the same, since a new one would cost more. */
  onGone?(drop: (error: unknown) => void): void;
};

type Job<Work, Done> = {
  work: Work;
  memory: readonly ArrayBuffer[];
  resolve(done: Done): void;
  reject(error: unknown): void;
  /** Of work that the thread is at, also when nobody waits for it any more. */
  cancelLate(): void;
};

export class FairThread<Work, Done, Other = never> {
  readonly #file: URL;
  readonly #isDone: (said: Done | Other) => said is Done;
  readonly #waiting = new Map<string, Job<Work, Done>[]>();
  #running: Job<Work, Done> | null = null;
  #worker: Worker | null = null;

  /**
   * A compiled file, even when this one runs from the sources: a thread has no TypeScript loader. `isDone`
   * takes what else the thread says.
   */
  constructor(file: URL, isDone = (_: Done | Other): _ is Done => true) {
    this.#file = file;
    this.#isDone = isDone;
  }

  /** Beforehand, since starting a thread holds up this one for 30 ms. */
  start(): void {
    this.#ready();
  }

  run({ workspaceId, work, memory = [], msMax, late, onGone }: ThreadWork<Work>): Promise<Done> {
    let job: Job<Work, Done> | undefined;
    const giveUp = (error: unknown) => this.#giveUp(workspaceId, job as Job<Work, Done>, error);
    const cancelLate = whenLate(msMax, () => {
      giveUp(late());
      if (this.#running === job) this.#replaceThread();
    });
    const done = new Promise<Done>((resolve, reject) => {
      job = { work, memory, resolve, reject, cancelLate };
    });
    onGone?.(giveUp);
    const line = this.#waiting.get(workspaceId);
    if (line) line.push(job as Job<Work, Done>);
    else this.#waiting.set(workspaceId, [job as Job<Work, Done>]);
    this.#next();
    return done;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #next(): void {
    const [first] = this.#waiting;
    if (this.#running || !first) return;
    const [workspaceId, line] = first;
    const job = line.shift() as Job<Work, Done>;
    // to the end of the round
    this.#waiting.delete(workspaceId);
    if (line.length > 0) this.#waiting.set(workspaceId, line);
    this.#running = job;
    this.#ready().postMessage(job.work, job.memory);
  }

  #ready(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(this.#file, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    });
    worker.unref();
    worker.on("message", (said: Done | Other) => {
      if (this.#isDone(said)) this.#ended((job) => job.resolve(said));
    });
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = null;
      this.#ended((job) => job.reject(error));
    });
    this.#worker = worker;
    return worker;
  }

  #ended(tell: (job: Job<Work, Done>) => void): void {
    const job = this.#running;
    this.#running = null;
    job?.cancelLate();
    if (job) tell(job);
    this.#next();
  }

  #replaceThread(): void {
    // what it says until it has ended concerns nobody
    this.#worker
      ?.removeAllListeners()
      .on("error", () => {})
      .terminate();
    this.#worker = null;
    this.#ended(() => {});
  }

  #giveUp(workspaceId: string, job: Job<Work, Done>, error: unknown): void {
    job.reject(error);
    if (job !== this.#running) job.cancelLate();
    const left = this.#waiting.get(workspaceId)?.filter((one) => one !== job) ?? [];
    if (left.length > 0) this.#waiting.set(workspaceId, left);
    else this.#waiting.delete(workspaceId);
  }
}
