/** What roles that listen are started with: every cell of the fleet, of which there may be one. */
import type { CellFinder } from "../../api/cells.ts";
import type { RoleParts } from "./parts.ts";

export type AllCells = {
  home: RoleParts;
  /** Home first. */
  cells: readonly RoleParts[];
  finder: CellFinder;
};
