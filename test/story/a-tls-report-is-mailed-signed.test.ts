/**
 * A TLS report to an address leaves as mail of the workspace that owns the sender's domain: signed, as RFC
 * 8460 writes it, and once, also when the process died before it could note that.
 */
import { gunzipSync } from "node:zlib";
import PostalMime from "postal-mime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Reservations } from "../../src/admission/reserve.ts";
import { addressHasher } from "../../src/audience/links.ts";
import { makeKey, newSelector, publicPartOf, Sealer } from "../../src/domain/key.ts";
import { mailCommit } from "../../src/record/mail/commit.ts";
import { addTlsSessions } from "../../src/record/transport/tlssessions.ts";
import { insertDomainKey } from "../../src/record/workspaces/domainkeys.ts";
import { giveDomain } from "../../src/record/workspaces/domains.ts";
import { ownSubmitter } from "../../src/submit.ts";
import { ReportSender } from "../../src/transport/reportsender.ts";
import { Web } from "../../src/transport/web.ts";
import { MovableClock } from "../rig/clock.ts";
import { unstuffed } from "../rig/conversation.ts";
import { published, verdictsOn } from "../rig/dkim.ts";
import { type Engine, settingsOf, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const DOMAIN = "tls.sender.example";

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  engine = await startEngine(["deliver", "keeper"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

const real = { now: Date.now, given: () => 0 };
const clock = new MovableClock(Date.now());

function sender(): ReportSender {
  const commits = { connect: () => engine.sql, timeoutMs: 5_000 };
  const nowhere = { resolve4: async () => [], resolve6: async () => [] };
  return new ReportSender({
    sql: engine.sql,
    clock,
    from: `TLS reports <reports@${DOMAIN}>`,
    askTxt: async () => [["v=TLSRPTv1; rua=mailto:taker@receiver.test"]],
    web: new Web({ dns: nowhere, families: [4], mayCarryTo: () => false, port: 443, secureContext: null }),
    submit: ownSubmitter({
      reservations: new Reservations(engine.redis, engine.sql, real),
      commit: mailCommit(commits, () => {}, addressHasher(settingsOf({}).POSTRIDER_SECRET as string)),
      reads: engine.sql,
      clock: real,
      shortage: () => null,
      onLag: () => {},
    }),
    onFault: (error) => {
      throw error;
    },
  });
}

async function signing(ws: TestWorkspace) {
  const made = await makeKey("rsa");
  const name = { workspaceId: ws.id, domain: "sender.example", selector: newSelector() };
  const sealedKey = new Sealer(settingsOf({}).POSTRIDER_SECRET as string).seal(name, made);
  const row = { ...name, algorithm: "rsa" as const, publicKey: publicPartOf(made), sealedKey };
  await insertDomainKey(engine.sql, row, "signing", new Date());
  const now = new Date();
  await giveDomain(engine.sql, "sender.example", { to: ws.id, from: null }, { now, checkAt: now });
  return { ...name, ...made };
}

test("it is signed and reads as a report, and there is one", async () => {
  const ws = await engine.workspace();
  const key = await signing(ws);
  const day = Math.floor(Date.now() / DAY_MS) - 1;
  const counted = { day, domain: "receiver.test", policy: "no-policy-found", mxHost: "mx.receiver.test" };
  await addTlsSessions(engine.sql, [
    { ...counted, result: "", mxIp: "192.0.2.1", sourceIp: "", sessions: 7 },
    { ...counted, result: "starttls-not-supported", mxIp: "192.0.2.2", sourceIp: "", sessions: 2 },
  ]);
  clock.set((day + 1) * DAY_MS + HOUR_MS);
  await sender().work();
  clock.advance(3 * HOUR_MS);
  await sender().work();
  // as if the process had died before it could note that
  await engine.sql`update tls_report_out set sent_to = '{}', due_at = ${new Date(clock.now())}`;
  await sender().work();
  expect(await engine.sql`select result from tls_report_out`).toEqual([{ result: "sent" }]);

  const [taken] = await stage.sink.ledger.received(1, () => true);
  const raw = unstuffed(taken?.raw as Buffer);
  expect((await verdictsOn(raw, [published(key)])).map(({ result }) => result)).toEqual(["pass"]);
  const mail = await PostalMime.parse(raw);
  const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
  const headers = Object.fromEntries(mail.headers.map(({ key, value }) => [key, value]));
  expect(mail.subject).toBe(
    `Report Domain: receiver.test Submitter: ${DOMAIN} Report-ID: <${date}.receiver.test@${DOMAIN}>`,
  );
  expect(headers).toMatchObject({
    "tls-report-domain": "receiver.test",
    "tls-report-submitter": DOMAIN,
    "tls-required": "No",
  });
  expect(headers["content-type"]).toMatch(/^multipart\/report;.*report-type="?tlsrpt"?/s);
  const [attached] = mail.attachments;
  const begin = (day * DAY_MS) / 1_000;
  expect(attached).toMatchObject({
    mimeType: "application/tlsrpt+gzip",
    filename: `${DOMAIN}!receiver.test!${begin}!${begin + 86_399}!${day}.json.gz`,
  });
  expect(JSON.parse(gunzipSync(Buffer.from(attached?.content as ArrayBuffer)).toString())).toMatchObject({
    "contact-info": `reports@${DOMAIN}`,
    policies: [{ summary: { "total-successful-session-count": 7, "total-failure-session-count": 2 } }],
  });
  expect(await engine.sql`select from email`).toHaveLength(1);
});

test("without a workspace that has verified the sender's domain, it waits and says why", async () => {
  await engine.sql`delete from domain`;
  await engine.sql`update tls_report_out set sent_to = '{}', due_at = ${new Date(clock.now())}`;
  await sender().work();
  const [row] = await engine.sql<{ result: string; dueAt: Date }[]>`
    select result, due_at as "dueAt" from tls_report_out`;
  expect(row?.result).toContain(`no workspace has verified ${DOMAIN}`);
  expect(row?.dueAt).toEqual(new Date(clock.now() + HOUR_MS));
});
