/** Two cells: stores for each, the file that names them, and workspaces in either. The first is home. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Keyring } from "../../src/admission/keyring.ts";
import { HELD_MS_MAX } from "../../src/api/cells.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import type { Overrides, Plan } from "../../src/rules/plans.ts";
import type { PostgresStore } from "../fault/campaign/stores.ts";
import { type Engine, SERVER_SECRET, startEngine } from "./engine.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "./services.ts";
import { freshWorkspace, type TestWorkspace } from "./workspace.ts";

const LOOK_MS_MAX = 20_000;

export type TestCell = {
  name: string;
  databaseUrl: string;
  redisUrl: string;
  sql: Sql;
  redis: RedisClient;
  redisServer: OwnRedis;
  /** One that is called at this api. */
  workspace(url: string, plan?: Plan, limits?: Overrides): Promise<TestWorkspace>;
};

export type TwoCells = {
  home: TestCell;
  other: TestCell;
  /** CELLS_FILE. */
  file: string;
  close(): Promise<void>;
};

/**
 * `servers`: each cell has a Postgres of its own, which can be ended; an engine that is started there makes
 * its tables.
 */
export async function openCells(
  servers: readonly [PostgresStore, PostgresStore] | null = null,
): Promise<TwoCells> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-cells-"));
  const databases = servers
    ? servers.map(({ url }): OwnDatabase => ({ url, drop: async () => {} }))
    : await Promise.all([ownDatabase(), ownDatabase()]);
  const [east, west] = databases as [OwnDatabase, OwnDatabase];
  const opened = await Promise.all([openCell("east", east), openCell("west", west)]);
  const [{ cell: home }, { cell: other }] = opened;
  const file = join(folder, "cells.json");
  const stores = { database_url: other.databaseUrl, redis_url: other.redisUrl };
  writeFileSync(file, JSON.stringify({ home: "east", cells: { east: {}, west: stores } }));
  return {
    ...{ home, other, file },
    async close() {
      await Promise.all(opened.map((one) => one.close()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** An api of the home cell, which knows the other one. */
export function startApiOf({ home, file }: TwoCells): Promise<Engine> {
  const { databaseUrl, redisUrl } = home;
  return startEngine(["api"], {
    ...{ databaseUrl, redisUrl, smtpUrl: "smtp://127.0.0.1:1" },
    settings: { CELLS_FILE: file },
  });
}

async function openCell(
  name: string,
  database: OwnDatabase,
): Promise<{ cell: TestCell; close(): Promise<void> }> {
  const redisServer: OwnRedis = await ownRedis();
  const sql = connectRecord(database.url, "setup", LOOK_MS_MAX);
  const redis = connectRedis(redisServer.url, "worker", LOOK_MS_MAX);
  redis.on("error", () => {}); // commands that fail say so themselves
  const clock = { now: Date.now, given: () => 0 };
  const keyring = new Keyring({ redis, sql, serverSecret: SERVER_SECRET, clock });
  const workspace: TestCell["workspace"] = (url, plan, limits) => freshWorkspace(keyring, url, plan, limits);
  return {
    cell: { name, databaseUrl: database.url, redisUrl: redisServer.url, redisServer, sql, redis, workspace },
    async close() {
      redis.disconnect();
      await sql.end({ timeout: 1 });
      await Promise.all([database.drop(), redisServer.stop()]);
    },
  };
}

/**
 * The api holds a request until its workspace has arrived, and refuses it after HELD_MS_MAX, which a busy
 * machine may need: then it is made again, as a caller does. What is refused sooner is handed back.
 */
export async function heldUntilItArrived<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const began = performance.now();
    const answer = await ask();
    if (answer.status !== 503 || performance.now() - began < HELD_MS_MAX) return answer;
  }
}
