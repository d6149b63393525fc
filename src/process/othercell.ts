/**
 * A cell beside home. A start waits a moment for its stores and then goes on without them, so that no cell
 * keeps the others from being served; whenever they answer, the cell joins the running process.
 *
 * Promises: until it has joined, `parts` is null, and nothing of the cell is served.
 */
import type { Logger } from "pino";
import { inTime } from "../clock.ts";
import { Gauge } from "../meter.ts";
import type { FleetCell } from "./roles/allcells.ts";
import type { RoleParts } from "./roles/parts.ts";
import type { Readiness, Stores } from "./stores.ts";

/** Enough for one that is well; who restarts a process waits no longer for one that is away. */
const START_MS_MAX = 5_000;
/** After what waiting does not mend, such as a wrong password. */
const AGAIN_MS = 10_000;

const MISSING = new Gauge(
  "postrider_cell_missing",
  "1 while the process has not reached the cell since it began",
  ["cell"],
);

export type Stops = (() => Promise<void>)[];
/** `stops` end what works on the cell; `closes` what serves requests, after the listeners have ended. */
export type BeginRoles = (parts: RoleParts, stops: Stops, closes: Stops) => Promise<void>;

export type OtherCellParts = {
  name: string;
  log: Logger;
  connect(): Stores;
  open(stores: Stores, stops: Stops): Promise<RoleParts>;
};

export class OtherCell implements FleetCell {
  readonly name: string;
  parts: RoleParts | null = null;
  readonly #options: OtherCellParts;
  #stores: Stores;
  #opened: Promise<RoleParts> | null = null;
  readonly #stops: Stops = [];
  readonly #closes: Stops = [];
  #isStopping = false;
  readonly #unfollow: () => void;

  constructor(options: OtherCellParts) {
    this.name = options.name;
    this.#options = options;
    this.#stores = options.connect();
    this.#unfollow = MISSING.follow(() => Number(this.parts === null), options.name);
  }

  /** Waits no longer than START_MS_MAX; throws what waiting does not mend. */
  async open(): Promise<void> {
    this.parts = await inTime(START_MS_MAX, this.#open(), () => null);
    if (this.parts === null)
      this.#options.log.warn("the cell does not answer: the others are served without it until it does");
  }

  /** Once the roles of the process have begun. */
  joinWith(begin: BeginRoles): void {
    if (this.parts === null) void this.#join(begin);
  }

  async #join(begin: BeginRoles): Promise<void> {
    const { log, connect } = this.#options;
    while (!this.#isStopping) {
      try {
        const parts = await (this.#opened ?? this.#open());
        await begin(parts, this.#stops, this.#closes);
        this.parts = parts;
        log.info("the cell is served from now on");
        return;
      } catch (error) {
        if (this.#isStopping) return;
        log.error({ err: error }, "the cell is not served, and is tried again");
        await this.#end();
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS).unref());
        if (!this.#isStopping) this.#stores = connect();
      }
    }
  }

  #open(): Promise<RoleParts> {
    this.#opened = this.#options.open(this.#stores, this.#stops);
    this.#opened.catch(() => {}); // whoever joins hears of it
    return this.#opened;
  }

  async check(): Promise<Readiness> {
    if (this.parts !== null) return this.#stores.check();
    const { missing } = this.#stores;
    const isNamed = Object.keys(missing).length > 0;
    return { ready: false, checks: isNamed ? missing : { stores: "not served yet, see the log" } };
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#unfollow();
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
  }

  /** After all that uses the cell was stopped. */
  close(): Promise<void> {
    return this.#end();
  }

  async #end(): Promise<void> {
    this.#opened = null;
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
    await Promise.all(this.#closes.splice(0).map((close) => close()));
    await this.#stores.close();
  }
}
