/**
 * What the log says at `info` besides faults: some of the requests, slow statements, what is refused or
 * suspended.
 */
import type { Logger } from "pino";
import type { Exchange } from "../api/exchange.ts";
import type { StatementWatch } from "../record/db/connect.ts";
import type { DestinationHold } from "../record/mail/destinations.ts";
import type { Shortage } from "../record/mail/overload.ts";

const TEXT_CHARS_MAX = 300;
const SLOW_EVERY_MS = 1_000;
const HOLDS_TOLD_MAX = 20;

/**
 * One request in so many; zero: none. Paths may hold addresses, so that the template of the route is logged.
 */
export function requestLog(log: Logger, every: number): (exchange: Exchange, ms: number) => void {
  let count = 0;
  return ({ requestId, method, route, status, caller }, ms) => {
    count++;
    const isTold = every > 0 && count % every === 0;
    if (!isTold && !log.isLevelEnabled("debug")) return;
    const line = { request_id: requestId, method, route, status, ms: Math.round(ms * 10) / 10 };
    log[isTold ? "info" : "debug"]({ ...line, workspace: caller?.workspaceId }, "answered");
  };
}

/** The text has places for values, and none of them. One a second is enough to know which it is. */
export function slowStatements(log: Logger, slowMs: number): StatementWatch {
  let toldAt = Number.NEGATIVE_INFINITY;
  return (pool, ms, text) => {
    if (ms < slowMs || performance.now() - toldAt < SLOW_EVERY_MS) return;
    toldAt = performance.now();
    const statement = text().replace(/\s+/g, " ").trim().slice(0, TEXT_CHARS_MAX);
    log.info({ pool, ms: Math.round(ms), statement }, "slow statement");
  };
}

export function tellShortage(log: Logger): (shortage: Shortage | null) => void {
  return (shortage) => {
    if (shortage) log.warn({ reason: shortage.reason }, "sends are refused for now");
    else log.info("sends are accepted again");
  };
}

/** Without the reasons: they are the words of receivers, who may repeat an address. */
export function tellHolds(log: Logger): (holds: readonly DestinationHold[]) => void {
  return (holds) => {
    const told = holds
      .slice(0, HOLDS_TOLD_MAX)
      .map(({ destination, source, kind, until }) => ({ destination, source, kind, until }));
    log.info({ count: holds.length, holds: told }, "suspended and slowed destinations changed");
  };
}
