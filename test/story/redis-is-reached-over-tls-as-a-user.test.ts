import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Daemon } from "../../src/embedded/daemon.ts";
import { freePort } from "../../src/embedded/port.ts";
import { openAuthority } from "../rig/authority.ts";
import { commandLine } from "../rig/command.ts";
import { startProcess } from "../rig/process.ts";
import { missingRedis, startRedisServer } from "../rig/redisserver.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { Client, mail } from "../rig/workspace.ts";

const PASSWORD = "p:a/s@s,word";
/** As docs/operating.md has it. */
const MAY = "~* &* +@all -@admin -@dangerous +info";

describe.skipIf(missingRedis)(missingRedis ?? "with TLS and users", () => {
  let tlsPort: number;
  let clusterPort: number;
  let sentinelPort: number;
  let servers: Daemon[];
  let database: OwnDatabase;
  let sink: Sink;
  let authorityFile: string;
  beforeAll(async () => {
    const folder = join(services().folder, `tls-${randomUUID().slice(0, 8)}`);
    mkdirSync(folder);
    const authority = openAuthority();
    const { cert, key } = authority.certify("localhost");
    authorityFile = join(folder, "authority.pem");
    const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    for (const [file, content] of [
      [authorityFile, authority.certificate],
      [certFile, cert],
      [keyFile, key],
    ] as const)
      writeFileSync(file, content);
    const certificates = [
      ...[`tls-cert-file ${certFile}`, `tls-key-file ${keyFile}`, `tls-ca-cert-file ${authorityFile}`],
      "tls-auth-clients no",
    ];
    const secured = [
      ...[...certificates, 'save ""', "user default off"],
      `user postrider on ">${PASSWORD}" ${MAY}`,
    ];
    [tlsPort, clusterPort, sentinelPort] = [await freePort(), await freePort(), await freePort()];
    const [adminPort, busPort] = [await freePort(), await freePort()];
    servers = await Promise.all([
      startRedisServer(join(folder, "one"), [
        ...["port 0", `tls-port ${tlsPort}`, ...secured],
        `user sentinel on ">${PASSWORD}" ~* &* +@all`,
      ]),
      startRedisServer(join(folder, "cluster"), [
        ...[`port ${adminPort}`, `tls-port ${clusterPort}`, `cluster-port ${busPort}`],
        ...["cluster-enabled yes", "tls-cluster yes", "cluster-announce-hostname localhost"],
        ...[`cluster-announce-tls-port ${clusterPort}`, "cluster-preferred-endpoint-type hostname"],
        ...[...secured, "user admin on nopass ~* &* +@all"],
      ]),
    ]);
    // the first server, by the name that certificates have
    const sentinel = await startRedisServer(
      join(folder, "sentinel"),
      [
        ...["port 0", `tls-port ${sentinelPort}`, "tls-replication yes", ...certificates],
        ...["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"],
        ...[`requirepass "${PASSWORD}"`, `sentinel monitor shop localhost ${tlsPort} 1`],
        ...["sentinel auth-user shop sentinel", `sentinel auth-pass shop "${PASSWORD}"`],
      ],
      { isSentinel: true },
    );
    servers.push(sentinel);
    const admin = new Redis({ port: adminPort, username: "admin", password: "any" });
    await admin.call("CLUSTER", "ADDSLOTSRANGE", 0, 16_383);
    admin.disconnect();
    [database, sink] = await Promise.all([ownDatabase(), openSink()]);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await Promise.all([sink.close(), database.drop()]);
  });

  test.each([
    ["one server", () => `rediss://postrider:${encodeURIComponent(PASSWORD)}@localhost:${tlsPort}`],
    [
      "a cluster",
      () => `rediss-cluster://postrider:${encodeURIComponent(PASSWORD)}@localhost:${clusterPort}`,
    ],
    [
      "a master that Sentinel names",
      () => {
        const password = encodeURIComponent(PASSWORD);
        return `rediss+sentinel://postrider:${password}@localhost:${sentinelPort}/shop?sentinel_password=${password}`;
      },
    ],
  ])(
    "mail is sent through %s",
    async (what, redisUrl) => {
      const options = {
        databaseUrl: database.url,
        redisUrl: redisUrl(),
        smtpUrl: sink.url,
        settings: { NODE_EXTRA_CA_CERTS: authorityFile },
      };
      const shell = commandLine(options);
      const engine = await startProcess(["api", "deliver", "keeper"], options);
      try {
        const { id } = await shell.json<{ id: string }>(
          "workspace",
          "create",
          "--name",
          what,
          "--plan",
          "pro",
        );
        const { key } = await shell.json<{ key: string }>(
          ...["key", "create", "--workspace", id, "--preset", "full"],
        );
        const before = sink.ledger.mails.length;
        const sent = await new Client(`http://127.0.0.1:${engine.port}`, key).post("/emails", mail());
        expect(sent.status).toBe(200);
        await sink.ledger.received(before + 1);
        const { out } = await shell.postrider("doctor");
        expect(out).toMatch(/^ok +Redis accepts writes/m);
        const stranger = await commandLine({ ...options, settings: {} }).postrider("doctor");
        expect(stranger.out).toMatch(/^fail +Redis +.*(certificate|closed the connection|cannot be used)/m);
      } finally {
        await engine.stop();
      }
    },
    120_000,
  );
});
