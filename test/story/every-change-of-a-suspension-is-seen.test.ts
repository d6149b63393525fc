/**
 * Workers learn of every change of a suspension, also of one by somebody whose clock is behind that of the
 * last.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { listHolds, resumeDestination, suspendDestination } from "../../src/record/mail/destinations.ts";
import { Holds } from "../../src/shaping/holds.ts";
import { MovableClock } from "../rig/clock.ts";
import { commandLine } from "../rig/command.ts";
import { ownDatabase, services } from "../rig/services.ts";

let database: Awaited<ReturnType<typeof ownDatabase>>;
beforeAll(async () => {
  database = await ownDatabase();
});
afterAll(() => database.drop());

function openHolds() {
  const clock = new MovableClock();
  const sql = connectRecord(database.url, "setup", 5_000);
  const onFault = (error: unknown) => {
    throw error;
  };
  return { clock, sql, holds: new Holds({ sql, clock, onFault }) };
}

test("a provider can be resumed when the shaping file does not name it any more", async () => {
  const sql = connectRecord(database.url, "setup", 5_000);
  await suspendDestination(sql, { destination: "formerly", until: null, reason: "tests" }, new Date());
  await sql.end();
  const command = commandLine({ databaseUrl: database.url, redisUrl: services().redisUrl });
  expect(await command.json("queue", "resume", "formerly")).toEqual({
    destination: "formerly",
    resumed: true,
  });
  expect((await command.postrider("queue", "resume", "formerly")).err).toContain("neither a domain nor");
});

test("a change that is older than another is seen", async () => {
  const { clock, sql, holds } = openHolds();
  const suspend = (destination: string, reason: string, minutes: number) =>
    suspendDestination(sql, { destination, until: null, reason }, new Date(clock.now() + minutes * 60_000));
  await suspend("a.test", "first", 0);
  await suspend("b.test", "by a clock that is ahead", 5);
  await holds.look();
  await suspend("a.test", "second", 1);
  await holds.look();
  expect(holds.suspensionOf("a.test", "")?.reason).toBe("second");
  holds.stop();
  await sql.end();
});

test("one that a rule set and somebody ended before anybody looked is over", async () => {
  const { clock, sql, holds } = openHolds();
  await holds.look();
  const until = new Date(clock.now() + 3_600_000);
  holds.set({ destination: "c.test", source: "", kind: "suspended", factor: 1, until, reason: "421" });
  expect(holds.suspensionOf("c.test", "")).not.toBeNull();
  await expect
    .poll(async () => (await listHolds(sql)).map(({ destination }) => destination))
    .toContain("c.test");
  await resumeDestination(sql, "c.test");
  // each look is one that the worker makes every second
  await expect.poll(() => holds.look().then(() => holds.suspensionOf("c.test", ""))).toBeNull();
  holds.stop();
  await sql.end();
});
