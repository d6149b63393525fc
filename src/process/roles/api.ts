/** The HTTP API. */
import { startApi } from "../../api/api.ts";
import type { Server } from "../../api/server.ts";
import { atMost } from "../../clock.ts";
import { requestLog } from "../lifelog.ts";
import { handlersOf, openIntake } from "./intake.ts";
import { API_STOP_MS, type RoleParts } from "./parts.ts";

export async function startApiRole(parts: RoleParts, server: Server | null) {
  const { config, stores, budget, log } = parts;
  const intake = await openIntake(parts);
  const api = await startApi({
    ...intake.parts,
    lists: stores.lists(intake.parts.reads),
    ...handlersOf(config),
    trustProxy: config.trustProxy,
    budget,
    server,
    sharesPort: config.sharedPort,
    isReady: () => stores.check(),
    log: {
      answered: requestLog(log, config.logRequestsEvery),
      fault: (exchange, error) =>
        log.error({ request_id: exchange?.requestId, err: error }, "internal error"),
    },
  });
  return {
    port: api.port,
    async stop() {
      await atMost(API_STOP_MS, api.stop());
      await intake.close();
    },
  };
}
