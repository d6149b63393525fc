/**
 * A renewal may meet a bag whose last write is committed and not yet answered: nobody has to be warned of
 * that.
 */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Leases } from "../../src/delivery/leases.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import type { HeldBag } from "../../src/record/mail/bagleases.ts";
import { services } from "../rig/services.ts";

let sql: Sql;
let leases: Leases;
const faults: string[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  sql = connectRecord(services().databaseUrl, "leases", 20_000);
  leases = new Leases(sql, Date.now, (error) => void faults.push(String(error)));
});
afterEach(async () => {
  leases.close();
  vi.useRealTimers();
  await sql.end();
  faults.length = 0;
});

/** As Postgres has it, it is gone. */
function gone(): HeldBag {
  return { workspaceId: randomUUID(), id: randomUUID(), generation: 0, token: randomUUID() };
}

test("one that ends is silent, one that does not is told", async () => {
  const [ending, lost] = [gone(), gone()];
  for (const bag of [ending, lost]) leases.hold(bag, leases.moment());
  leases.end(ending);
  await vi.advanceTimersByTimeAsync(3_000);
  await expect.poll(() => leases.count).toBe(0);
  expect(faults).toEqual(["Error: bags whose leases were lost: 1; another worker may send their e-mails"]);
});
