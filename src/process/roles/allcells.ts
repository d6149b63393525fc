/** What roles that listen are started with: every cell of the fleet, of which there may be one. */
import type { CellFinder } from "../../api/cells.ts";
import type { Readiness } from "../stores.ts";
import type { RoleParts } from "./parts.ts";

export type AllCells = {
  home: RoleParts;
  /** Home first. */
  cells: readonly FleetCell[];
  finder: CellFinder;
};

export type FleetCell = {
  /** null: there are no cells. */
  name: string | null;
  /** null: its stores have not answered since the process began. */
  readonly parts: RoleParts | null;
  check(): Promise<Readiness>;
};

/**
 * How a listener takes in a cell, by its number, that answers only after the listener has begun. What is
 * handed back is stopped after the listener.
 */
export type JoinCell = (cell: RoleParts, n: number) => Promise<{ stop(): Promise<void> }>;
