import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnCluster, ownCluster } from "../rig/rediscluster.ts";
import { REDIS_PROGRAMS } from "../rig/redisserver.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail } from "../rig/workspace.ts";

const SETTLED_MS_MAX = 30_000;

for (const { name, program, missing } of REDIS_PROGRAMS)
  describe.skipIf(missing)(missing ?? `on a cluster of ${name}`, () => {
    let cluster: OwnCluster;
    let database: OwnDatabase;
    let sink: Sink;
    let engine: Engine;
    let options: { databaseUrl: string; redisUrl: string; smtpUrl: string };
    beforeAll(async () => {
      [cluster, database, sink] = await Promise.all([
        ownCluster(services().folder, { program }),
        ownDatabase(),
        openSink(),
      ]);
      options = { databaseUrl: database.url, redisUrl: cluster.url, smtpUrl: sink.url };
      await commandLine(options).json("queue", "shards", "3");
      engine = await startEngine(["api", "deliver", "keeper", "automate"], options);
    });
    afterAll(async () => {
      await engine.stop();
      await Promise.all([sink.close(), cluster.stop(), database.drop()]);
    });

    test("the shards of the queue are on several masters", async () => {
      const keys = Array.from({ length: 6 }, (_, shard) => `bull:{bags-${shard}}:prioritized`);
      const slots = await Promise.all(keys.map((key) => cluster.slotOf(key)));
      const masters = await Promise.all(slots.map((slot) => cluster.masterOf(slot)));
      expect(new Set(masters.slice(0, 3)).size).toBe(3);
      for (const master of masters.slice(0, 3))
        expect(masters.filter((one) => one === master).length).toBeLessThanOrEqual(3);
    });

    test("single sends, batches and scheduled mail of many workspaces are delivered once", async () => {
      const workspaces = await Promise.all(Array.from({ length: 8 }, () => engine.workspace()));
      const before = sink.ledger.mails.length;
      for (const { client } of workspaces) {
        expect((await client.post("/emails", mail())).status).toBe(200);
        const batch = Array.from({ length: 20 }, (_, n) => mail({ to: `reader-${n}@example.net` }));
        expect((await client.post("/emails/batch", batch)).status).toBe(200);
        const later = new Date(Date.now() + 2_000).toISOString();
        expect((await client.post("/emails", mail({ scheduled_at: later }))).status).toBe(200);
      }
      for (const { id } of workspaces)
        expect(await settled(engine.sql, id, SETTLED_MS_MAX)).toEqual({ delivered: 22 });
      expect(sink.ledger.mails.length - before).toBe(8 * 22);
    });

    test("an idempotency key is one e-mail, a quota is exact and a cap delays", async () => {
      const ws = await engine.workspace("free", { cap_hour: 60 });
      const key = { "idempotency-key": "once" };
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => ws.client.post<{ id: string }>("/emails", mail(), key)),
      );
      const accepted = answers.filter(({ status }) => status === 200);
      expect(new Set(accepted.map(({ body }) => body.id)).size).toBe(1);
      let sent = 1;
      for (;;) {
        const { status } = await ws.client.post("/emails", mail());
        if (status === 429) break;
        expect(status).toBe(200);
        sent++;
      }
      expect(sent).toBe(100);
      const [row] = await engine.sql`select day_used, waiting from ledger where workspace_id = ${ws.id}`;
      expect(row).toEqual({ day_used: 100, waiting: 40 });
    });

    test("an automation writes to its contact", async () => {
      const ws = await engine.workspace();
      const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "Shop" });
      const document = {
        name: "Welcome",
        audience_id: audience.id,
        event: "signup",
        entry: "every",
        status: "enabled",
        steps: [{ send: { from: "shop@example.com", subject: "Welcome", html: "<p>Hello</p>" } }],
      };
      const made = await ws.client.post<{ id: string }>("/automations", document);
      expect(made.status, JSON.stringify(made.body)).toBe(201);
      await ws.client.post(`/audiences/${audience.id}/contacts`, { email: "ann@example.net" });
      const event = { audience_id: audience.id, email: "ann@example.net", name: "signup" };
      expect((await ws.client.post("/events", event)).status).toBe(202);
      await sink.ledger.received(1, ({ to }) => to.includes("ann@example.net"));
    });

    test("a revoked key is refused at once, and doctor knows the cluster", async () => {
      const ws = await engine.workspace();
      const key = await ws.key(["full"]);
      expect((await key.client.post("/emails", mail())).status).toBe(200);
      await engine.keyring.revokeKey(key.id, "owner");
      expect((await key.client.post("/emails", mail())).status).toBe(401);
      const { out } = await commandLine(options).postrider("doctor");
      expect(out).toContain("3 masters, 3 replicas");
      expect((await fetch(`${engine.url}/readyz`)).status).toBe(200);
      expect(engine.complaints).toEqual([]);
    });

    test("a master that is full keeps nobody from the others, and doctor names it", async () => {
      for (const slot of [0, 6_000, 12_000]) {
        const { port, client } = await cluster.masterOf(slot);
        await client.config("SET", "maxmemory", "1mb");
        expect(await readiness(engine)).toEqual([200, expect.objectContaining({ redis: "ok" })]);
        const { out } = await commandLine(options).postrider("doctor");
        expect(out).toMatch(
          new RegExp(`fail +Redis accepts writes +127.0.0.1:${port}: .* maxmemory is used up`),
        );
        await client.config("SET", "maxmemory", "0");
      }
    });

    test("a master that stands still keeps nobody from the others", async () => {
      const api = await startEngine(["api"], { ...options, settings: { STORE_TIMEOUT_MS: "2000" } });
      const master = await cluster.masterOf(0);
      process.kill(master.pid(), "SIGSTOP");
      try {
        expect(await readiness(api)).toEqual([200, expect.objectContaining({ redis: "ok" })]);
      } finally {
        process.kill(master.pid(), "SIGCONT");
        await api.stop();
      }
    });
  });

async function readiness({ url }: Engine): Promise<[number, Record<string, string>]> {
  const response = await fetch(`${url}/readyz`);
  return [response.status, ((await response.json()) as { checks: Record<string, string> }).checks];
}
