/** Works off what receivers report, wherever it came in. */
import { addressHasher } from "../../audience/links.ts";
import { workspaceMarker } from "../../ids.ts";
import { ReportWorker } from "../../inbound/work.ts";
import { ReturnPathKey } from "../../returnpath.ts";
import { NO_GROUP, SMARTHOST } from "../../shaping/shaping.ts";
import { KEEPER_STOP_MS, type RoleParts, workerName } from "./parts.ts";

export function startReportWorker({ config, serverSecret, stores, looks, clock, onFault }: RoleParts) {
  const { softBouncesMax: bounces, softBounceDays: days } = config;
  const worker = new ReportWorker({
    sql: stores.sql("reports"),
    paths: new ReturnPathKey(serverSecret),
    markOf: workspaceMarker(serverSecret),
    clock,
    worker: workerName(),
    otherGroup: config.courier === "relay" ? SMARTHOST : NO_GROUP,
    bounceDomain: config.bounceDomain,
    hashOf: addressHasher(serverSecret),
    series: bounces > 0 ? { bounces, days } : null,
    timeoutMs: config.storeTimeoutMs,
    onFault,
  });
  worker.start(looks);
  return { wake: () => worker.wake(), stop: () => worker.stop(KEEPER_STOP_MS) };
}
