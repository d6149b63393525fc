/** A cell beside home whose stores answer late, or refuse what waiting does not mend. */
import pino from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { OtherCell } from "../../src/process/othercell.ts";
import type { RoleParts } from "../../src/process/roles/parts.ts";
import type { Stores } from "../../src/process/stores.ts";

const PARTS = { cell: "west" } as RoleParts;
const AN_HOUR_MS = 3_600_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

type Opening = { resolve(parts: RoleParts): void; reject(error: Error): void };

/** Each try to open it waits until the test says how it ends; what is called is kept in its order. */
function openWest() {
  const called: string[] = [];
  const tries: Opening[] = [];
  const stores = {
    missing: {},
    check: async () => ({ ready: true, checks: { postgres: "ok" } }),
    close: async () => void called.push("stores closed"),
  };
  const cell = new OtherCell({
    name: "west",
    log: pino({ level: "error" }, { write: (line) => void called.push(`said: ${JSON.parse(line).msg}`) }),
    connect: () => stores as unknown as Stores,
    open: (_, stops) => {
      called.push("opening");
      stops.push(async () => void called.push("looks stopped"));
      return new Promise((resolve, reject) => void tries.push({ resolve, reject }));
    },
  });
  const begin = async () => void called.push("roles begin");
  return { cell, called, tries, begin };
}

async function startedWithout({ cell, begin }: ReturnType<typeof openWest>): Promise<void> {
  const started = cell.open();
  await vi.advanceTimersByTimeAsync(AN_HOUR_MS);
  await started;
  expect(cell.parts).toBeNull();
  cell.joinWith(begin);
}

test("one that answers at once is there when the roles begin", async () => {
  const { cell, called, tries, begin } = openWest();
  const started = cell.open();
  tries[0]?.resolve(PARTS);
  await started;
  cell.joinWith(begin);
  expect([cell.parts, called]).toEqual([PARTS, ["opening"]]);
});

test("what waiting does not mend ends the start", async () => {
  const { cell, tries } = openWest();
  const started = cell.open();
  tries[0]?.reject(new Error("refuses the password"));
  await expect(started).rejects.toThrow("refuses the password");
});

test("one that answers later joins", async () => {
  const west = openWest();
  await startedWithout(west);
  expect(await west.cell.check()).toEqual({
    ready: false,
    checks: { stores: "not served yet, see the log" },
  });
  west.tries[0]?.resolve(PARTS);
  await vi.advanceTimersByTimeAsync(0);
  expect([west.cell.parts, west.called]).toEqual([PARTS, ["opening", "roles begin"]]);
  expect((await west.cell.check()).ready).toBe(true);
});

test("one that refuses later is said to, and is tried again with nothing left of the first try", async () => {
  const west = openWest();
  await startedWithout(west);
  west.tries[0]?.reject(new Error("refuses the password"));
  await vi.advanceTimersByTimeAsync(AN_HOUR_MS);
  expect(west.called).toEqual([
    "opening",
    "said: the cell is not served, and is tried again",
    "looks stopped",
    "stores closed",
    "opening",
  ]);
  west.tries[1]?.resolve(PARTS);
  await vi.advanceTimersByTimeAsync(0);
  expect(west.cell.parts).toBe(PARTS);
});

test("a process that stops tries no more", async () => {
  const west = openWest();
  await startedWithout(west);
  await west.cell.stop();
  await west.cell.close();
  west.tries[0]?.reject(new Error("the connection was closed"));
  await vi.advanceTimersByTimeAsync(AN_HOUR_MS);
  expect(west.called).toEqual(["opening", "looks stopped", "stores closed"]);
});
