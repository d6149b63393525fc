/**
 * Room for what anybody with a link may fetch.
 *
 * Promises: a download costs what it holds in memory, until its last byte has left, its reader is gone, or it
 * has taken too long. Of a large attachment that is one piece, however slowly it is read. What readers of one
 * workspace's links hold leaves as much to those of the next. Few are read from Postgres at a time, so that
 * other callers do not wait behind them.
 */
import { AtOnce } from "../atonce.ts";
import { BodyBudget } from "./bodybudget.ts";
import type { Exchange } from "./exchange.ts";

const MEMORY_BYTES_MAX = 128 * 1024 * 1024;
/** What a download is counted as until its size is known: a piece of an attachment, as Postgres sends it. */
const BYTES_AT_FIRST = 1024 * 1024;
const READS_MAX = 4;
const DOWNLOAD_MS_MAX = 2 * 60_000;
export const TOO_MANY_DOWNLOADS = "Too many downloads. Try again in 1 second.";

export class Downloads {
  readonly #budget = new BodyBudget(MEMORY_BYTES_MAX);
  readonly #underWay = new Map<Exchange, { workspaceId: string; bytes: number }>();
  readonly #reads = new AtOnce(READS_MAX);

  /** Whether there is room for another, and somebody who reads it. */
  begin(exchange: Exchange, workspaceId: string): boolean {
    // nobody would say when it is over
    if (exchange.isGone || !this.#budget.take(workspaceId, BYTES_AT_FIRST)) return false;
    const download = { workspaceId, bytes: BYTES_AT_FIRST };
    const over = () => {
      clearTimeout(timer);
      this.#underWay.delete(exchange);
      this.#budget.give(workspaceId, download.bytes);
    };
    const timer = setTimeout(() => exchange.cutOff(), DOWNLOAD_MS_MAX);
    this.#underWay.set(exchange, download);
    exchange.onSent = over;
    return true;
  }

  /** Whether there is room for so much of it. */
  grow(exchange: Exchange, bytes: number): boolean {
    const download = this.#underWay.get(exchange);
    if (!download || bytes <= download.bytes) return true;
    if (!this.#budget.take(download.workspaceId, bytes - download.bytes)) return false;
    download.bytes = bytes;
    return true;
  }

  /** In its turn. */
  read<T>(work: () => Promise<T>): Promise<T> {
    return this.#reads.run(work);
  }
}
