/**
 * How much of what anybody with a link may fetch is held in memory at a time, until its last byte has left.
 */
import type { Exchange } from "./exchange.ts";

const DOWNLOADS_MAX = 8;
const DOWNLOADS_OF_ONE_MAX = 3;
const DOWNLOAD_MS_MAX = 2 * 60_000;
export const TOO_MANY_DOWNLOADS = "Too many downloads. Try again in 1 second.";

export class Downloads {
  /** By their exchanges: of which workspaces. */
  readonly #underWay = new Map<Exchange, string>();

  /** Whether there is room; it is free again when the answer has left, or has taken too long. */
  begin(exchange: Exchange, workspaceId: string): boolean {
    const ofOne = [...this.#underWay.values()].filter((id) => id === workspaceId).length;
    if (this.#underWay.size >= DOWNLOADS_MAX || ofOne >= DOWNLOADS_OF_ONE_MAX) return false;
    const over = () => {
      clearTimeout(timer);
      this.#underWay.delete(exchange);
    };
    const timer = setTimeout(() => {
      over();
      exchange.cutOff();
    }, DOWNLOAD_MS_MAX);
    this.#underWay.set(exchange, workspaceId);
    exchange.onSent = over;
    return true;
  }
}
