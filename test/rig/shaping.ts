/** Shaping without rules and suspensions, for couriers that a test makes by itself. */
import type { Rooms } from "../../src/shaping/rooms.ts";
import { Shaping } from "../../src/shaping/shaping.ts";

export function unshaped(
  address: string | null = null,
  rooms: Pick<Rooms, "enter" | "leave" | "takeOne"> | null = null,
): Shaping {
  const never = () => {
    throw new Error("without rules nothing is limited");
  };
  return new Shaping({
    holds: {
      isEmpty: true,
      version: 0,
      suspensionOf: () => null,
      factorOf: () => 1,
      senderLimitOf: () => null,
      set: never,
    },
    rooms: rooms ?? { enter: never, leave: never, takeOne: never },
    clock: { now: Date.now, given: () => 0 },
    ownSource: { name: "", address, helo: null, since: null },
  });
}

/** Of no workspace in particular. */
export const SOMEBODY = {
  workspaceId: "00000000-0000-0000-0000-000000000001",
  stream: "transactional",
  pool: null,
};
