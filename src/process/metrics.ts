/**
 * Metrics for Prometheus, on their own port. Read from Postgres on request, at most once a second; figures of single
 * workspaces are limited to the busiest. They name workspaces and their volume, so a token is required unless the
 * address is a loopback one.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { isIPv4 } from "node:net";
import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import { overdueRuns } from "../record/automations/runs.ts";
import type { Sql } from "../record/db/connect.ts";
import { webhookFigures } from "../record/outbox/webhooks.ts";
import { busiestCaps, totalWaiting } from "../record/workspaces/caps.ts";

const WORKSPACES_SHOWN = 50;
const FRESH_MS = 1_000;
const OVERDUE_COUNTED_MAX = 10_000;

export type MetricsParts = {
  sql: Sql;
  clock: Clock;
  host: string;
  port: number;
  /** null: no token is needed. */
  token: string | null;
  onFault(error: unknown): void;
};

export async function startMetrics(parts: MetricsParts): Promise<{ port: number; stop(): Promise<void> }> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const refresh = gauges(registry, parts);
  let freshUntil = 0;
  const server = createServer((request, response) => {
    if (parts.token !== null && !isBearer(request.headers.authorization ?? "", parts.token)) {
      response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
      return;
    }
    if (request.url !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    const isFresh = performance.now() < freshUntil;
    if (!isFresh) freshUntil = performance.now() + FRESH_MS;
    (isFresh ? Promise.resolve() : refresh())
      .then(() => registry.metrics())
      .then(
        (text) => response.writeHead(200, { "Content-Type": registry.contentType }).end(text),
        (error) => {
          parts.onFault(error);
          response.writeHead(503).end();
        },
      );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(parts.port, parts.host, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : parts.port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Whether the address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

/** In constant time, so that timing does not reveal a partial match. */
function isBearer(authorization: string, token: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(authorization.replace(/^bearer +/i, "")), digest(token));
}

function gauges(registry: Registry, { sql, clock }: MetricsParts): () => Promise<void> {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `postrider_${name}`, help, labelNames, registers: [registry] });
  const cap = gauge("cap", "Recipients that a workspace may send to, by window", ["workspace", "window"]);
  const used = gauge("cap_used", "Recipients granted today", ["workspace"]);
  const waiting = gauge("waiting", "E-mails that wait for a cap or the month", ["workspace"]);
  const oldest = gauge("waiting_oldest_seconds", "How long the oldest of them has waited", ["workspace"]);
  const allWaiting = gauge("waiting_total", "E-mails that wait, of all workspaces");
  const held = gauge("workspaces_waiting", "Workspaces with mail that waits");
  const overdue = gauge("runs_overdue", `Runs whose time has come, counted up to ${OVERDUE_COUNTED_MAX}`);
  const lag = gauge("runs_overdue_seconds", "How long the first of them has been due");
  const behind = gauge("webhook_events_behind", "Events that enabled webhooks have not been sent yet");
  const failing = gauge("webhooks_failing", "Enabled webhooks that take no events now");
  const disabled = gauge("webhooks_disabled", "Webhooks that were disabled because they took none");
  return async () => {
    const now = clock.now();
    const [rows, total, runs, webhooks] = await Promise.all([
      busiestCaps(sql, now, WORKSPACES_SHOWN),
      totalWaiting(sql),
      overdueRuns(sql, new Date(now), OVERDUE_COUNTED_MAX),
      webhookFigures(sql),
    ]);
    for (const one of [cap, used, waiting, oldest]) one.reset();
    for (const row of rows) {
      const workspace = row.workspaceId;
      cap.set({ workspace, window: "day" }, row.capDay);
      cap.set({ workspace, window: "hour" }, row.capHour);
      used.set({ workspace }, row.used);
      waiting.set({ workspace }, row.waiting);
      oldest.set({ workspace }, row.oldest ? (now - row.oldest.getTime()) / 1_000 : 0);
    }
    allWaiting.set(total.waiting);
    held.set(total.workspaces);
    overdue.set(runs.count);
    behind.set(webhooks.behind);
    failing.set(webhooks.failing);
    disabled.set(webhooks.disabled);
    lag.set(runs.since ? (now - runs.since.getTime()) / 1_000 : 0);
  };
}
