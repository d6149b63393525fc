/**
 * The engine with direct delivery: each attempt says how its connection was secured and who required that, a
 * mail that a policy keeps back says why, and `doctor` and `send-test` tell the same.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { Talk } from "../rig/peer.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Attempt = { host: string; tls: string | null; tls_verified: boolean; tls_policy: string; reply: string };
type Read = { status: string; reason: string | null; delivery_attempts: Attempt[] };

let stage: Stage;
let world: World;
let engine: Engine;
let ws: TestWorkspace;
let folder: string;
let settings: Record<string, string | undefined>;
beforeAll(async () => {
  stage = await openStage();
  world = await openWorld();
  folder = mkdtempSync(join(tmpdir(), "authority-"));
  writeFileSync(join(folder, "ca.pem"), world.authority.certificate);
  settings = {
    ...world.settings,
    DIRECT_CA_FILE: join(folder, "ca.pem"),
    TLS_REPORTS_FROM: "tls@sender.example",
    TLS_REPORTS_TO: "tls@bounces.sender.example",
  };
  engine = await startEngine(["api", "deliver", "automate", "keeper"], { ...stage, smtpUrl: "", settings });
  ws = await engine.workspace();
  const open = async (talk: Talk) => {
    await talk.hello("PIPELINING");
    for (;;) await talk.takeMail();
  };
  const secured = (host: string) => (talk: Talk) => talk.takeSecured(world.authority.certify(host));
  const receivers: [string, string, string | null, (talk: Talk) => Promise<void>][] = [
    ["enforced.test", "127.1.0.1", "enforce", secured("mx.enforced.test")],
    ["testing.test", "127.1.0.2", "testing", open],
    ["plain.test", "127.1.0.3", null, open],
    ["broken.test", "127.1.0.4", "enforce", open],
  ];
  for (const [n, [domain, address, mode, script]] of receivers.entries()) {
    world.name({ [domain]: { mx: [[10, `mx.${domain}`]] }, [`mx.${domain}`]: { addresses: [address] } });
    if (mode) await world.policyOf(domain, `127.1.1.${n + 1}`, [`mode: ${mode}`, `mx: mx.${domain}`]);
    await world.peerAt(address, script);
  }
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([world.end(), stage.close()]);
  rmSync(folder, { recursive: true });
});

async function sent(domain: string, status: string): Promise<Read> {
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: `one@${domain}` }));
  await expect
    .poll(async () => (await ws.client.get<Read>(`/emails/${body.id}`)).body.status, { timeout: 20_000 })
    .toBe(status);
  return (await ws.client.get<Read>(`/emails/${body.id}`)).body;
}

test.each([
  ["enforced.test", { tls: "TLSv1.3", tls_verified: true, tls_policy: "sts" }],
  ["testing.test", { tls: null, tls_verified: false, tls_policy: "sts-testing" }],
  ["plain.test", { tls: null, tls_verified: false, tls_policy: "none" }],
])("of a mail to %s", async (domain, expected) => {
  const { delivery_attempts } = await sent(domain, "delivered");
  expect(delivery_attempts).toEqual([expect.objectContaining({ host: `mx.${domain}`, ...expected })]);
});

test("a mail that a policy keeps back says why, and no operator is called", async () => {
  const { reason, delivery_attempts } = await sent("broken.test", "deferred");
  const why = "mx.broken.test does not offer STARTTLS (required by the receiver's MTA-STS policy)";
  expect(delivery_attempts).toEqual([expect.objectContaining({ tls: null, tls_policy: "sts", reply: why })]);
  expect(reason).toContain(why);
  expect(engine.complaints).toEqual([]);
});

test("doctor says what is on", async () => {
  const command = commandLine({ ...stage, smtpUrl: "", settings });
  const findings = JSON.parse((await command.postrider("doctor", "--json")).out) as {
    what: string;
    detail: string;
  }[];
  const detailOf = (what: string) => findings.find((one) => one.what === what)?.detail;
  expect(detailOf("MTA-STS")).toMatch(/^on; \d policies are kept, \d of them enforced$/);
  expect(detailOf("TLS reports")).toBe("sent from tls@sender.example; read at tls@bounces.sender.example");
  expect(detailOf("DANE")).toBe("off (DANE_RESOLVER is not set)");
  const unproven = commandLine({
    ...stage,
    smtpUrl: "",
    settings: { ...settings, DANE_RESOLVER: world.dns.address },
  });
  const told = JSON.parse((await unproven.postrider("doctor", "--json")).out) as typeof findings;
  expect(told.find(({ what }) => what === "DANE")).toMatchObject({
    state: "warn",
    detail: expect.stringMatching(/^off: /),
  });
});

test("a test mail shows the policy", async () => {
  const command = commandLine({ ...stage, smtpUrl: "", settings });
  const run = (domain: string) =>
    command.postrider("send-test", "--to", `one@${domain}`, "--from", "shop@example.com", "--json");
  expect(JSON.parse((await run("enforced.test")).out)).toMatchObject({
    delivered: true,
    tls_verified: true,
    tls_policy: "sts",
  });
  expect(JSON.parse((await run("broken.test")).out)).toMatchObject({ delivered: false, phase: "tls" });
});
