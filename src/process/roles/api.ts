/** The HTTP API. */
import { startApi } from "../../api/api.ts";
import { CellServer } from "../../api/cells.ts";
import { type Server, startServer } from "../../api/server.ts";
import { atMost } from "../../clock.ts";
import { requestLog } from "../lifelog.ts";
import type { Readiness } from "../stores.ts";
import type { AllCells, FleetCell, JoinCell } from "./allcells.ts";
import { handlersOf, openIntake } from "./intake.ts";
import { API_STOP_MS, type RoleParts } from "./parts.ts";

export async function startApiRole(fleet: AllCells, server: Server | null) {
  return fleet.cells.length === 1 ? startOne(fleet.home, server) : startForCells(fleet, server);
}

/** One server, and handlers for each cell behind it, also for those that answer later. */
async function startForCells({ home, cells, finder }: AllCells, opened: Server | null) {
  const { config, budget, serverSecret } = home;
  const { host, port, sharedPort: sharesPort } = config;
  const server = opened ?? (await startServer({ host, port, sharesPort, budget, missing: () => ({}) }));
  const shared = new CellServer(server, finder, serverSecret);
  const join: JoinCell = (cell, n) => startOne(cell, shared.cell(n), () => checkAll(cells));
  const apis: { stop(): Promise<void> }[] = [];
  for (const [n, { parts }] of cells.entries()) if (parts) apis.push(await join(parts, n));
  shared.open();
  return {
    port: server.port,
    async stop() {
      await atMost(API_STOP_MS, shared.stop());
      await Promise.all(apis.map((api) => api.stop()));
    },
    join,
  };
}

/**
 * Home decides: a process without it cannot serve, and another cell that is away is no reason to leave the
 * rest alone.
 */
async function checkAll(cells: readonly FleetCell[]): Promise<Readiness> {
  const found = await Promise.all(cells.map((cell) => cell.check()));
  const named = found.map(({ checks }, n) =>
    n === 0
      ? checks
      : Object.fromEntries(
          Object.entries(checks).map(([name, state]) => [`${cells[n]?.name} ${name}`, state]),
        ),
  );
  return { ready: found[0]?.ready ?? false, checks: Object.assign({}, ...named) };
}

async function startOne(
  parts: RoleParts,
  server: Server | null,
  isReady = (): Promise<Readiness> => parts.stores.check(),
) {
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
    isReady,
    log: {
      answered: requestLog(log, config.logRequestsEvery),
      fault: (exchange, error) => parts.onFault(error, { request_id: exchange?.requestId }),
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
