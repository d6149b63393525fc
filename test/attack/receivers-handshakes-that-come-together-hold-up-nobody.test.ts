/**
 * A client checks signatures in each handshake of TLS, which takes milliseconds with a large key. The hosts
 * of many domains, and of their policies, hold back what it waits for until all of them have it, and let it
 * come at once.
 */
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type Server as TlsServer } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { listenOn } from "../rig/port.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const DOMAINS = 20;
const WORKED_MS_MAX = 50;
const WAITED_MS_MAX = 20_000;
const POLICY_FRONT = "127.2.0.1";
const PEER = "127.2.0.2";
const OPEN = "127.2.0.3";
const SILENT = "127.2.0.4";
/** Of the dearest that our clients take. */
const CURVE = "P-521";
/** A server's answer to a hello it cannot use is shorter, its part of the handshake longer. */
const SHORT_BYTES_MAX = 400;

let stage: Stage;
let world: World;
let engine: Engine;
let worker: EngineProcess;
let ws: TestWorkspace;
let policies: TlsServer;
let policyFront: Front;
let domains = 0;
let arrived = 0;
let secured = 0;

/**
 * Stands before a server, and holds back the long part of each handshake until `DOMAINS` of them are there.
 */
class Front {
  readonly #held: (() => void)[] = [];
  readonly #target: { port: number; host: string };
  readonly #sockets = new Set<Socket>();
  /** How often all came at once. */
  poured = 0;

  constructor(target: { port: number; host: string }) {
    this.#target = target;
  }

  async listen(port: number, host: string): Promise<void> {
    const server = createServer((client) => this.#join(client));
    await listenOn(server, port, host);
    ends.push(async () => {
      for (const socket of this.#sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
  }

  #join(client: Socket): void {
    const peer = connect(this.#target);
    let hasShaken = false;
    for (const [socket, other] of [
      [client, peer],
      [peer, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => other.destroy());
    }
    client.pipe(peer);
    peer.on("data", (chunk) => {
      if (hasShaken || chunk.length <= SHORT_BYTES_MAX) {
        client.write(chunk);
        return;
      }
      hasShaken = true;
      this.#held.push(() => client.write(chunk));
      if (this.#held.length < DOMAINS) return;
      this.poured++;
      for (const pour of this.#held.splice(0)) pour();
    });
  }
}

const ends: (() => Promise<void>)[] = [];
beforeAll(async () => {
  [stage, world] = await Promise.all([openStage(), openWorld()]);
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: CURVE });
  const certificate = world.authority.certify("receiver.test", { keys: { privateKey, publicKey } });
  const tls = { ...certificate, ecdhCurve: CURVE };
  await world.peerAt(PEER, async (talk) => {
    await talk.offerTls();
    talk.say("220 go on");
    talk.secure(tls);
    await talk.hear("EHLO ");
    secured++;
    talk.say("250-peer.test", "250 PIPELINING");
    await talk.takeMail();
    arrived++;
    await talk.gone();
  });
  policies = createTlsServer(tls, (socket) => {
    secured++;
    socket.on("error", () => {});
    socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  });
  policies.on("tlsClientError", () => {});
  policies.listen(0, "127.0.0.1");
  await once(policies, "listening");
  policyFront = new Front({ port: (policies.address() as AddressInfo).port, host: "127.0.0.1" });
  await policyFront.listen(world.httpsPort, POLICY_FRONT);
  const common = { ...stage, smtpUrl: "", settings: world.settings };
  engine = await startEngine(["api"], common);
  worker = await startProcess(["deliver"], { ...common, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  for (const end of ends.splice(0)) await end();
  policies?.close();
  await world?.end();
  await stage?.close();
});

/** Domains that nobody has met, each with a host of its own at this address. */
function freshDomains(address: () => string): string[] {
  return Array.from({ length: DOMAINS }, () => {
    const domain = `r${++domains}.test`;
    world.name({ [domain]: { mx: [[10, `mx.${domain}`]] }, [`mx.${domain}`]: { addresses: [address()] } });
    return domain;
  });
}

async function arrivedAt(receivers: readonly string[]): Promise<void> {
  const before = arrived;
  const mails = receivers.map((domain) => mail({ to: `one@${domain}` }));
  expect((await ws.client.post("/emails/batch", mails)).status).toBe(200);
  await expect.poll(() => arrived, { timeout: WAITED_MS_MAX }).toBe(before + receivers.length);
}

let fronts = 0;
test("those of many receivers take turns", async () => {
  const sendAll = async () => {
    const front = new Front({ port: world.port, host: PEER });
    const before = secured;
    const addresses = Array.from({ length: DOMAINS }, () => `127.3.${++fronts >> 8}.${fronts & 255}`);
    for (const address of addresses) await front.listen(world.port, address);
    await arrivedAt(freshDomains(() => addresses.pop() as string));
    expect(secured).toBe(before + DOMAINS);
    expect(front.poured).toBe(1);
  };
  expect(await workedBy(worker, sendAll, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("receivers that say nothing in them hold up no other", async () => {
  let silent = 0;
  await world.peerAt(SILENT, async (talk) => {
    await talk.offerTls();
    talk.say("220 go on");
    silent++;
    await talk.gone();
  });
  const mails = freshDomains(() => SILENT).map((domain) => mail({ to: `one@${domain}` }));
  expect((await ws.client.post("/emails/batch", mails)).status).toBe(200);
  await expect.poll(() => silent, { timeout: WAITED_MS_MAX }).toBe(DOMAINS);
  const before = secured;
  await arrivedAt(freshDomains(() => PEER));
  expect(secured).toBe(before + DOMAINS);
  expect(silent).toBe(DOMAINS);
});

test("those of the hosts of many policies take turns", async () => {
  await world.peerAt(OPEN, async (talk) => {
    await talk.hello("PIPELINING");
    await talk.takeMail();
    arrived++;
    await talk.gone();
  });
  const sendAll = async () => {
    const poured = policyFront.poured;
    const receivers = freshDomains(() => OPEN);
    for (const domain of receivers)
      world.name({
        [`_mta-sts.${domain}`]: { txt: ["v=STSv1; id=1;"] },
        [`mta-sts.${domain}`]: { addresses: [POLICY_FRONT] },
      });
    await arrivedAt(receivers);
    expect(policyFront.poured).toBe(poured + 1);
  };
  expect(await workedBy(worker, sendAll, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
