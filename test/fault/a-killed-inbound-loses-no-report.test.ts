/**
 * A report that was answered 250 is in Postgres: the process that took it may be killed at once, while others
 * are being worked off, and another process goes on. Each counts once.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BOUNCE_DOMAIN, ReportLoop } from "../rig/loop.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { dsn, handIn } from "../rig/reports.ts";

const MAILS = 60;

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

test("every report that was acknowledged is worked off once, whatever was killed meanwhile", async () => {
  const sent = await Promise.all(Array.from({ length: MAILS }, (_, n) => loop.send(`gone-${n}@example.net`)));
  for (const { id } of sent) await loop.once(id, ({ status }) => status === "delivered");
  const inbound = (): Promise<EngineProcess> =>
    startProcess(["inbound"], {
      databaseUrl: loop.database.url,
      redisUrl: loop.redis.url,
      settings: { BOUNCE_DOMAIN, INBOUND_PORT: "0" },
    });
  const acknowledged = new Set<string>();
  let taking = await inbound();
  for (const [n, { id, copies }] of sent.entries()) {
    const path = copies[0]?.from as string;
    const isKilled = n % 20 === 19;
    const handing = handIn(taking.inboundPort as number, path, dsn({ recipient: `gone-${n}@example.net` }));
    if (isKilled) {
      await Promise.all([taking.kill(), handing.catch(() => [])]);
      taking = await inbound();
    } else if ((await handing).at(-1) === "250 2.0.0 kept") acknowledged.add(id);
  }
  await taking.stop();
  expect(acknowledged.size).toBe(MAILS - 3);
  await loop.results();
  let bounced = 0;
  for (const { id } of sent) {
    const { status } = await loop.show(id);
    if (acknowledged.has(id)) expect(status).toBe("bounced");
    if (status === "bounced") bounced++;
  }
  expect(await loop.counts()).toMatchObject({ attempted: MAILS, delivered: MAILS, hard: bounced });
});
