/**
 * What everything else proves on one version of Postgres, briefly on each older one that is supported: the
 * schema is made, mail is accepted, held back, canceled and delivered, told to webhooks and sent by
 * automations, old partitions are dropped, and a backup is restored, also on a newer version.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Postgres } from "../../src/embedded/postgres.ts";
import { Retention } from "../../src/keeper/retention.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { listPartitions, makePartitions } from "../../src/record/db/partitions.ts";
import { commandLine } from "../rig/command.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { missingPostgres, OLDER_POSTGRES, startTestPostgres } from "../rig/postgresversions.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const POLL = { timeout: 30_000, interval: 50 };
const ASK_MS_MAX = 10_000;

for (const major of OLDER_POSTGRES) {
  const missing = missingPostgres(major);
  if (missing !== null) console.warn(`SKIPPED: ${missing}`);
  describe.skipIf(missing)(missing ?? `on Postgres ${major}`, () => {
    let postgres: Postgres;
    let redis: OwnRedis;
    let sink: Sink;
    let receiver: Receiver;
    let engine: Engine;
    let ws: TestWorkspace;
    beforeAll(async () => {
      const folder = join(services().folder, `postgres-${major}`);
      [postgres, redis, sink, receiver] = await Promise.all([
        startTestPostgres({ folder }, major),
        ownRedis(),
        openSink(),
        openReceiver(),
      ]);
      engine = await startEngine(["api", "deliver", "keeper", "automate", "webhooks"], {
        ...{ databaseUrl: postgres.url, redisUrl: redis.url, smtpUrl: sink.url },
        settings: TO_LOOPBACK,
      });
      ws = await engine.workspace("pro", { cap_hour: 10, cap_day: 1_000 });
    }, 120_000);
    afterAll(async () => {
      await engine.stop();
      await Promise.all([postgres.stop(), redis.stop(), sink.close(), receiver.close()]);
    }, 60_000);

    const post = async <T = { id: string }>(path: string, body: object, headers = {}): Promise<T> => {
      const answer = await ws.client.post<T>(path, body, headers);
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
      return answer.body;
    };
    const eventOf = async (id: string) =>
      (await ws.client.get<{ last_event: string }>(`/emails/${id}`)).body.last_event;

    test("mail is accepted, held back, canceled, delivered and told", async () => {
      await post("/webhooks", { endpoint: receiver.url(), events: ["email.sent", "email.delivered"] });
      const tomorrow = new Date(Date.now() + DAY_MS).toISOString();
      const { id: later } = await post("/emails", mail({ scheduled_at: tomorrow }));
      await post(`/emails/${later}/cancel`, {});
      const [first, again] = [
        await post("/emails", mail(), { "idempotency-key": "once" }),
        await post("/emails", mail(), { "idempotency-key": "once" }),
      ];
      expect(again.id).toBe(first.id);
      const { data } = await post<{ data: { id: string }[] }>("/emails/batch", Array(14).fill(mail()));
      await expect.poll(async () => statuses(), POLL).toEqual({ canceled: 1, delivered: 10, waiting: 5 });
      expect(await eventOf(later)).toBe("canceled");
      expect(sink.ledger.count(`${first.id}@example.com`)).toBe(1);
      await receiver.until(() => receiver.typesOf(first.id).includes("email.delivered"));
      const listed = await ws.client.get<{ data: { id: string }[] }>("/emails?limit=5");
      expect(listed.body.data.map(({ id }) => id)).toEqual(
        data
          .map(({ id }) => id)
          .slice(-5)
          .reverse(),
      );
    }, 60_000);

    const statuses = async () => {
      const rows = await engine.sql<{ status: string; count: number }[]>`
        select status, count(*)::int from email where workspace_id = ${ws.id} group by status`;
      return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
    };

    test("an automation sends to a contact", async () => {
      const shop = await engine.workspace("pro");
      const { client } = shop;
      const audience = await client.post<{ id: string }>("/audiences", { name: "Shop" });
      const send = { from: "Shop <shop@example.com>", subject: "Welcome, {{first_name}}", html: "<p>Hi</p>" };
      const flow = { name: "Welcome", audience_id: audience.body.id, event: "signup", entry: "every" };
      const made = await client.post("/automations", { ...flow, steps: [{ send }] });
      expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
      const person = { email: "ann@example.net", first_name: "Ann", properties: { city: "Rome" } };
      const contact = await client.post<{ id: string }>(`/audiences/${audience.body.id}/contacts`, person);
      expect(contact.status).toBe(201);
      await client.post("/events", { audience_id: audience.body.id, email: person.email, name: "signup" });
      const delivered = () => engine.sql`
        select from email where workspace_id = ${shop.id} and status = 'delivered'`;
      await expect.poll(async () => (await delivered()).length, POLL).toBe(1);
    }, 60_000);

    test("partitions of old days are detached and dropped while others read", async () => {
      const [sql, retentionSql] = [
        connectRecord(postgres.url, "setup", ASK_MS_MAX),
        connectRecord(postgres.url, "retention", ASK_MS_MAX),
      ];
      const now = Date.now();
      await makePartitions(sql, now - 60 * DAY_MS);
      const old = async () =>
        (await listPartitions(sql)).filter(
          ({ day }) => day < new Date(now - 40 * DAY_MS).toISOString().slice(0, 10).replaceAll("-", ""),
        );
      expect((await old()).length).toBeGreaterThan(30);
      const faults: unknown[] = [];
      const retention = new Retention({
        sql: retentionSql,
        days: { emails: 30, bodies: 7, events: 7 },
        onFault: (error) => faults.push(error),
      });
      await retention.drop(now, { isHeld: () => true });
      expect(faults).toEqual([]);
      expect(await old()).toEqual([]);
      expect((await post("/emails", mail())).id).toBeTruthy();
      await Promise.all([sql.end({ timeout: 1 }), retentionSql.end({ timeout: 1 })]);
    }, 60_000);

    test("a backup is restored, and doctor has no complaint about Postgres", async () => {
      const folder = mkdtempSync(join(tmpdir(), "postrider-backup-"));
      const file = join(folder, "postrider.gz");
      const stores = { databaseUrl: postgres.url, redisUrl: redis.url };
      const run = commandLine(stores);
      const doctor = await run.postrider("doctor");
      expect(doctor.out).toMatch(new RegExp(`ok +Postgres +version ${major}`));
      const saved = await run.json<{ rows: number; tables: number }>("backup", file);
      expect(saved.rows).toBeGreaterThan(20);
      // on the same version, and on that of everything else: so a server is upgraded
      for (const server of [postgres.url, services().databaseUrl]) {
        await createDatabase(server, `restored_${major}`, "template0");
        const [databaseUrl, empty] = [databaseAt(server, `restored_${major}`), await ownRedis()];
        const restored = commandLine({ ...stores, databaseUrl, redisUrl: empty.url });
        expect(await restored.json("restore", file)).toMatchObject({
          rows: saved.rows,
          tables: saved.tables,
        });
        await empty.stop();
      }
      await dropDatabase(databaseAt(services().databaseUrl, `restored_${major}`));
      expect(engine.complaints).toEqual([]);
      rmSync(folder, { recursive: true, force: true });
    }, 120_000);
  });
}
