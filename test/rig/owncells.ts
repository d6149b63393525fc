/** An engine in this process that serves two cells, each with a Postgres that a test can end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Role } from "../../src/rules/roles.ts";
import { PostgresStore } from "../fault/campaign/stores.ts";
import { openCells, type TwoCells } from "./cells.ts";
import { type CommandLine, commandLine } from "./command.ts";
import { type Engine, startEngine } from "./engine.ts";
import { openSink, type Sink } from "./sink.ts";

export type OwnCells = {
  /** Of the home cell, and of the other. */
  servers: [PostgresStore, PostgresStore];
  cells: TwoCells;
  sink: Sink;
  engine: Engine;
  /** With the settings of the engine. */
  run: CommandLine;
  close(): Promise<void>;
};

export async function startOwnCells(roles: Role[], more: Record<string, string> = {}): Promise<OwnCells> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-moves-"));
  const servers: [PostgresStore, PostgresStore] = [
    await PostgresStore.start(join(folder, "east")),
    await PostgresStore.start(join(folder, "west")),
  ];
  const [cells, sink] = await Promise.all([openCells(servers), openSink()]);
  const { databaseUrl, redisUrl } = cells.home;
  const settings = { ...more, CELLS_FILE: cells.file };
  const engine = await startEngine(roles, { databaseUrl, redisUrl, settings, smtpUrl: sink.url });
  return {
    ...{ servers, cells, sink, engine, run: commandLine({ databaseUrl, redisUrl, settings }) },
    async close() {
      await engine.stop();
      await Promise.all([sink.close(), cells.close()]);
      await Promise.all(servers.map((server) => server.stop("immediate")));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
