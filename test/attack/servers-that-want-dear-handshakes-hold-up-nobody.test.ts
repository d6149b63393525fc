/**
 * In a handshake of TLS the server chooses, and the client has the same work. Hosts of receivers, of their
 * policies and endpoints of webhooks choose what takes a client longest. Each run meets hosts that nobody has
 * met: what failed before is not tried again soon.
 */
import { generateKeyPairSync, getDiffieHellman } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { createServer, type TlsOptions } from "node:tls";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const WAITED_MS_MAX = 20_000;
const POLICY_HOST = "127.2.0.1";
/** RSA, as ciphers with DHE and certificates of today go together. */
const KEYS = generateKeyPairSync("rsa", { modulusLength: 2_048 });

/** A prime of 8,192 bits and the generator 2, as PEM. */
function longParameters(): string {
  const prime = getDiffieHellman("modp18").getPrime();
  const [before, after] = [Buffer.from("308204080282040100", "hex"), Buffer.from("020102", "hex")];
  const text = Buffer.concat([before, prime, after]).toString("base64");
  return `-----BEGIN DH PARAMETERS-----\n${text}\n-----END DH PARAMETERS-----\n`;
}

const DEAR: [string, TlsOptions][] = [
  ["a group of 8,192 bits", { minVersion: "TLSv1.3", ecdhCurve: "ffdhe8192" }],
  [
    "a prime of 8,192 bits",
    { maxVersion: "TLSv1.2", ciphers: "DHE-RSA-AES256-GCM-SHA384", dhparam: longParameters() },
  ],
];

let stage: Stage;
let world: World;
let engine: Engine;
let worker: EngineProcess;
let ws: TestWorkspace;
let hosts = 0;
let arrived = 0;
let handshakes = 0;
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});
beforeAll(async () => {
  [stage, world] = await Promise.all([openStage(), openWorld()]);
  const common = { ...stage, smtpUrl: "", settings: { ...world.settings, ...TO_LOOPBACK } };
  engine = await startEngine(["api"], common);
  worker = await startProcess(["deliver", "webhooks"], { ...common, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  await world?.end();
  await stage?.close();
});

/** A domain with a host of its own at this address, that offers TLS so; undefined: none. */
async function receiver(tls?: TlsOptions): Promise<string> {
  const [domain, address] = [`r${++hosts}.test`, `127.1.${hosts >> 8}.${hosts & 255}`];
  world.name({ [domain]: { mx: [[10, `mx.${domain}`]] }, [`mx.${domain}`]: { addresses: [address] } });
  await world.peerAt(address, async (talk) => {
    await talk.hello("PIPELINING", ...(tls ? ["STARTTLS"] : []));
    if ((await talk.hear("")) === "STARTTLS") {
      handshakes++;
      talk.say("220 go on");
      talk.secure({ ...world.authority.certify(`mx.${domain}`, { keys: KEYS }), ...tls });
      await talk.hear("EHLO ");
      talk.say("250-peer.test", "250 PIPELINING");
      await talk.hear("MAIL FROM:");
    }
    await talk.hear("RCPT TO:");
    await talk.hear("DATA");
    talk.say("250 sender", "250 recipient", "354 go on");
    await talk.hearMessage();
    arrived++;
    talk.say("250 2.0.0 taken");
    await talk.gone();
  });
  return domain;
}

/** Counts who connects. */
async function dearServer(tls: TlsOptions) {
  const server = createServer({ ...world.authority.certify("other.test", { keys: KEYS }), ...tls });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.on("tlsClientError", () => {});
  const listen = async (port: number, host: string) => {
    server.listen(port, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };
  ends.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { sockets, listen };
}

async function arrivedAt(domain: string): Promise<void> {
  const before = arrived;
  expect((await ws.client.post("/emails", mail({ to: `one@${domain}` }))).status).toBe(200);
  await expect.poll(() => arrived, { timeout: WAITED_MS_MAX }).toBe(before + 1);
}

test.each(DEAR)("a receiver wants %s, and gets the mail in the open", async (_, tls) => {
  const sendOne = async () => {
    const before = handshakes;
    await arrivedAt(await receiver(tls));
    expect(handshakes).toBe(before + 1);
  };
  expect(await workedBy(worker, sendOne, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test.each(DEAR)("the host of a policy wants %s, and there is no policy", async (_, tls) => {
  const host = await dearServer(tls);
  await host.listen(world.httpsPort, POLICY_HOST);
  const sendOne = async () => {
    const [before, domain] = [host.sockets.size, await receiver()];
    world.name({
      [`_mta-sts.${domain}`]: { txt: ["v=STSv1; id=1;"] },
      [`mta-sts.${domain}`]: { addresses: [POLICY_HOST] },
    });
    await arrivedAt(domain);
    expect(host.sockets.size).toBeGreaterThan(before);
  };
  expect(await workedBy(worker, sendOne, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test.each(DEAR)("an endpoint wants %s, and is told nothing", async (_, tls) => {
  const tellOne = async () => {
    const endpoint = await dearServer(tls);
    const port = await endpoint.listen(0, "127.0.0.1");
    const { body } = await ws.client.post<{ id: string }>("/webhooks", {
      endpoint: `https://127.0.0.1:${port}/`,
    });
    await arrivedAt(await receiver());
    const failures = async () => {
      const [row] = await engine.sql<{ failures: number }[]>`
        select failures from webhook where id = ${body.id}`;
      return row?.failures;
    };
    await expect.poll(failures, { timeout: WAITED_MS_MAX }).toBeGreaterThan(0);
    expect(endpoint.sockets.size).toBeGreaterThan(0);
    await ws.client.call("DELETE", `/webhooks/${body.id}`);
  };
  expect(await workedBy(worker, tellOne, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
