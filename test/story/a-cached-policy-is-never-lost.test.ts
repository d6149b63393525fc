/**
 * An MTA-STS policy that was found once holds until it expires, for every process: while its record in DNS is
 * gone, while its host fails, and after a restart. It is fetched again in the background before that.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { type DirectUnderTest, inShort, openWorld, SILENCE_MS, type World } from "../rig/direct.ts";
import type { PolicyHost } from "../rig/policyhost.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const POLICY_HOST = "127.1.0.9";
const ENFORCED = ["mode: enforce", "mx: mx.a.test"];
const HOUR_MS = 3_600_000;
/** Longer than the route of a domain is remembered. */
const ROUTE_MS = 600_001;

let database: OwnDatabase;
let sql: Sql;
let world: World;
let served: PolicyHost;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "delivery", 20_000);
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});
beforeEach(async () => {
  await sql`delete from sts_policy`;
  world = await openWorld();
  world.name({ "a.test": { mx: [[10, "mx.a.test"]] }, "mx.a.test": { addresses: ["127.1.0.1"] } });
  served = await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.peerAt("127.1.0.1", async (talk) => {
    await talk.hello("PIPELINING");
    for (;;) await talk.takeMail();
  });
});
afterEach(() => world.end());

const KEPT_BACK = ["tls TLS_NOT_OFFERED"];
/** Written behind a mail's back, so it may come after the mail has gone. */
const usedAt = async () => (await sql<{ at: Date }[]>`select used_at as at from sts_policy`)[0]?.at.getTime();
/** As a process that has just started: what it knows is in Postgres. */
const another = (): DirectUnderTest => world.courier({ sql });
const modeKept = async () => (await sql<{ mode: string }[]>`select mode from sts_policy`)[0]?.mode ?? null;

test("many mails at once fetch it once, and another process does not", async () => {
  const { send } = another();
  await Promise.all(Array.from({ length: 50 }, (_, n) => send(`user${n}@a.test`)));
  await another().send("one@a.test");
  expect(served.asked).toEqual(["/.well-known/mta-sts.txt"]);
});

test.each([
  ["its record is gone", () => world.dns.zones.delete("_mta-sts.a.test")],
  ["DNS fails", () => world.dns.zones.set("_mta-sts.a.test", "fails")],
  ["DNS is silent", () => world.dns.zones.set("_mta-sts.a.test", "is silent")],
  ["its host is gone", () => served.close()],
  [
    "its record names another that cannot be had",
    async () => {
      world.name({ "_mta-sts.a.test": { txt: ["v=STSv1; id=2"] } });
      served.text = "version: STSv1\nmode: nonsense\n";
    },
  ],
])("it holds while %s", async (what, change) => {
  const brief = what === "DNS is silent" && { dnsTimeoutMs: SILENCE_MS };
  const later = () => world.courier({ sql, ...brief });
  expect(inShort(await another().send("one@a.test"))).toEqual(KEPT_BACK);
  await change();
  expect(inShort(await later().send("two@a.test"))).toEqual(KEPT_BACK);
  await later().policies.refresh();
  world.clock.advance(20 * HOUR_MS);
  expect(inShort(await later().send("three@a.test"))).toEqual(KEPT_BACK);
});

test("when it has expired and cannot be had again, the mail goes as without a policy", async () => {
  expect(inShort(await another().send("one@a.test"))).toEqual(KEPT_BACK);
  world.dns.zones.delete("_mta-sts.a.test");
  world.clock.advance(24 * HOUR_MS + 1);
  expect(inShort(await another().send("two@a.test"))).toEqual(["dot 250"]);
});

test("a process that runs hears of a new policy with the next look at DNS", async () => {
  const { send, pass } = another();
  expect(inShort(await send("one@a.test"))).toEqual(KEPT_BACK);
  served.text = "version: STSv1\nmode: none\nmax_age: 86400\n";
  world.name({ "_mta-sts.a.test": { txt: ["v=STSv1; id=2"] } });
  pass(ROUTE_MS);
  expect(inShort(await send("two@a.test"))).toEqual(["dot 250"]);
  expect(await modeKept()).toBe("none");
});

test("it is fetched again before it expires, without a mail, and not while nobody uses it", async () => {
  const { send, policies } = another();
  await send("one@a.test");
  await policies.refresh();
  expect(served.asked).toHaveLength(1);
  world.clock.advance(12 * HOUR_MS + 1);
  await Promise.all([policies.refresh(), another().policies.refresh()]);
  expect(served.asked).toHaveLength(2);
  world.clock.advance(20 * HOUR_MS); // past the end of the first
  expect(inShort(await another().send("two@a.test"))).toEqual(KEPT_BACK);
  await expect.poll(usedAt).toBe(world.clock.now());
  await sql`update sts_policy set used_at = used_at - interval '31 days'`;
  world.clock.advance(HOUR_MS);
  await policies.refresh();
  expect(served.asked).toHaveLength(2);
  await another().send("three@a.test");
  await expect.poll(() => policies.refresh().then(() => served.asked)).toHaveLength(3);
});

test("while Postgres does not say what is kept, the mail waits", async () => {
  const gone = connectRecord(database.url, "delivery", 500);
  await gone.end();
  const [reply] = await world.courier({ sql: gone }).send("one@a.test");
  expect(reply).toMatchObject({ phase: "session", error: "POLICY_UNREAD" });
});

test("policies that have expired are forgotten", async () => {
  const { send, policies } = another();
  await send("one@a.test");
  world.dns.zones.delete("_mta-sts.a.test");
  await served.close();
  world.clock.advance(25 * HOUR_MS);
  await policies.refresh();
  expect(await modeKept()).toBeNull();
});
