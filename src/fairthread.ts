/**
 * A thread for work that would hold up this one: a piece at a time, workspaces in turn, so that who has much
 * of it delays others by one piece. Work that waits for too long is refused. Work that the thread is at for
 * too long costs the thread, and the rest goes to a new one.
 */
import { Worker } from "node:worker_threads";
import { whenLate } from "./clock.ts";

const HEAP_MB_MAX = 512;

export type ThreadWork<Work> = {
  workspaceId: string;
  work: Work;
  /** Handed over, not copied. */
  memory?: readonly ArrayBuffer[];
  waitMsMax: number;
  /** From its beginning on: also what comes last in a long line has all of it. */
  runMsMax: number;
  late(): unknown;
  /** Nobody waits for it any more. The thread finishes it all the same, since a new one would cost more. */
  onGone?(drop: (error: unknown) => void): void;
};

type Job<Work, Done> = {
  work: Work;
  memory: readonly ArrayBuffer[];
  runMsMax: number;
  resolve(done: Done): void;
  reject(error: unknown): void;
  late(): unknown;
  /** First of its wait, then of its run, also when nobody waits for it any more. */
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

  run(asked: ThreadWork<Work>): Promise<Done> {
    const { workspaceId, work, memory = [], waitMsMax, runMsMax, late, onGone } = asked;
    return new Promise((resolve, reject) => {
      const cancelLate = whenLate(waitMsMax, () => this.#giveUp(workspaceId, job, late()));
      const job: Job<Work, Done> = { work, memory, runMsMax, resolve, reject, late, cancelLate };
      onGone?.((error) => this.#giveUp(workspaceId, job, error));
      const line = this.#waiting.get(workspaceId);
      if (line) line.push(job);
      else this.#waiting.set(workspaceId, [job]);
      this.#next();
    });
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
    job.cancelLate();
    job.cancelLate = whenLate(job.runMsMax, () => {
      job.reject(job.late());
      this.#replaceThread();
    });
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
