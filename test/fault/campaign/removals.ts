/**
 * Workspaces move between the cells of a campaign, by the command that an operator uses. It is killed now and
 * then, and run again until it has succeeded. Knows in which cell each workspace is, for the other commands
 * about it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { randomOf } from "../../../src/capacity/random.ts";
import { pause } from "../../rig/pause.ts";
import type { Move } from "./history.ts";
import { type Cell, cellsFileOf } from "./stores.ts";

const POSTRIDER = fileURLToPath(new URL("../../../dist/cli/postrider.js", import.meta.url));
const KILLED_SHARE = 0.4;
const KILLED_MS_MAX = 5_000;
const KILLS_MAX = 3;
const RETRY_MS = 500;
/** The slowest move waits 75 s for sends that may be under way, and faults of 40 s come on top. */
const MOVE_MS_MAX = 240_000;
const CHANCES = 2 ** 31;

type Command = { ended: Promise<{ status: number | null; said: string }>; kill(): void };

export class Removals {
  readonly #cells: readonly Cell[];
  readonly #environment: Record<string, string>;
  readonly #moves: Move[];
  readonly #cellOf = new Map<string, string>();
  #movable: readonly { id: string }[] = [];

  constructor(cells: readonly Cell[], folder: string, secret: string, moves: Move[]) {
    const addresses = cells.map(({ name, postgres, redis }) => ({
      name,
      databaseUrl: postgres.url,
      redisUrl: redis.url,
    }));
    const file = join(folder, "cells.json");
    writeFileSync(file, cellsFileOf(addresses));
    this.#cells = cells;
    this.#moves = moves;
    this.#environment = {
      PATH: process.env.PATH ?? "",
      DATABASE_URL: addresses[0]?.databaseUrl ?? "",
      REDIS_URL: addresses[0]?.redisUrl ?? "",
      POSTRIDER_SECRET: secret,
      ...(cells.length > 1 && { CELLS_FILE: file }),
    };
  }

  /** Each as likely as any other. */
  mayMove(workspaces: readonly { id: string }[]): void {
    this.#movable = workspaces;
  }

  /** A command about a workspace, in the cell where that was last. */
  run(workspaceId: string, command: readonly string[]): Command {
    const cell = this.#cellOf.get(workspaceId);
    return this.#run(cell === undefined ? command : ["--cell", cell, ...command]);
  }

  /** Resolves when the workspace is there, or when that has taken too long. */
  async move(chance: number): Promise<void> {
    const random = randomOf(Math.floor(chance * CHANCES));
    const { id } = this.#movable[Math.floor(random() * this.#movable.length)] as { id: string };
    const [home, other] = this.#cells.map(({ name }) => name) as [string, string];
    const to = (this.#cellOf.get(id) ?? home) === home ? other : home;
    const move: Move = {
      ...{ workspaceId: id, to, from: Date.now(), endedAt: null, runs: 0, pauseMs: null, said: "" },
    };
    this.#moves.push(move);
    let kills = 0;
    while (Date.now() < move.from + MOVE_MS_MAX) {
      move.runs++;
      const command = this.#run(["workspace", "move", id, "--to", to, "--json"]);
      if (kills < KILLS_MAX && random() < KILLED_SHARE) {
        kills++;
        await Promise.race([pause(random() * KILLED_MS_MAX), command.ended]);
        command.kill();
      }
      const { status, said } = await command.ended;
      move.said = said;
      if (status === 0) {
        this.#cellOf.set(id, to);
        move.pauseMs ??= (JSON.parse(said) as { pause_ms: number | null }).pause_ms;
        move.endedAt = Date.now();
        return;
      }
      await pause(RETRY_MS);
    }
  }

  #run(command: readonly string[]): Command {
    const child = spawn(process.execPath, [POSTRIDER, ...command], {
      stdio: ["ignore", "pipe", "pipe"],
      env: this.#environment,
    });
    const heard = Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return {
      ended: heard.then(([out, err, [status]]) => ({
        status: status as number | null,
        said: status === 0 ? out : err,
      })),
      kill: () => child.kill("SIGKILL"),
    };
  }
}
