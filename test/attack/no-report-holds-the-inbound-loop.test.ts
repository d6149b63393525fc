/**
 * Reports that are cheap to write and dear to read, as many as are worked off at once. Whoever takes reports
 * answers others meanwhile: its event loop is asked for the work that it did in one turn.
 */
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { insertReports, type NewReport } from "../../src/record/mail/reports.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { type Engine, SERVER_SECRET, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { BOUNCE_DOMAIN, FEEDBACK } from "../rig/loop.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { SmtpClient } from "../rig/reports.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const KB = 1024;
const MB = 1024 * KB;
const WORKED_MS_MAX = 50;
const TLS_REPORTS = `tls@${BOUNCE_DOMAIN}`;
/** Some of as many as are worked off together; more only take longer. */
const REPORTS = 100;
/** About as much as is kept of a message. */
const KEPT_BYTES = 126 * KB;
/** Of the mail that the reports are about, as many as one may have. */
const RECIPIENTS = 50;

const paths = new ReturnPathKey(SERVER_SECRET);
let stage: Stage;
let engine: Engine;
let process: EngineProcess;
let ws: TestWorkspace;
let emailIds: string[];
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "deliver", "keeper"], { ...stage, settings: { BOUNCE_DOMAIN } });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const to = Array.from({ length: RECIPIENTS }, (_, n) => `a${n}@example.net`);
  emailIds = await ws.client.send(Array.from({ length: REPORTS / RECIPIENTS }, () => mail({ to })));
  await stage.sink.ledger.received(REPORTS, () => true);
  const settings = {
    BOUNCE_DOMAIN,
    INBOUND_PORT: "0",
    FEEDBACK_ADDRESSES: FEEDBACK,
    TLS_REPORTS_TO: TLS_REPORTS,
  };
  process = await startProcess(["inbound"], { ...stage, settings, watchesLoop: true });
});
afterAll(async () => {
  await process?.stop();
  await engine?.stop();
  await stage?.close();
});
beforeEach(async () => {
  await engine.sql`truncate report, tls_report_in`;
});

const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const numbered = (bytes: number, unit: (n: number) => string) => {
  const parts: string[] = [];
  for (let n = 0, size = 0; size < bytes; size += (parts.at(-1) as string).length) parts.push(unit(n++));
  return parts.join("");
};
const somePath = (n: number) =>
  `${paths.write({ handle: ws.handle, emailId: emailIds[n % emailIds.length] as string, place: n % RECIPIENTS }, Date.now())}@${BOUNCE_DOMAIN}`;

const HEAD = "From: MAILER-DAEMON@example.net\nSubject: Undelivered\n";
const multipart = (...parts: string[]) =>
  `${HEAD}Content-Type: multipart/report; boundary=b\n\n${parts.map((part) => `--b\n${part}\n`).join("")}--b--\n`;
const status = (text: string) => `Content-Type: message/delivery-status\n\n${text}`;
const recipient = (n: number) => `Final-Recipient: rfc822; a${n}@example.net\nAction: failed\n\n`;
const recipients = numbered(6 * KB, recipient);

/** Messages to a return path. */
const REPORTS_OF: Record<string, () => string> = {
  "words about a hundred recipients": () =>
    multipart(`\n${fill(">>>DATA\n   replied:", 62 * KB)}\nin reply to RCPT TO command`, status(recipients)),
  "a hundred recipients, each in words of its own": () =>
    multipart(
      status(
        numbered(
          110 * KB,
          (n) =>
            `Final-Recipient: rfc822; a${n}@example.net\nAction: failed\nDiagnostic-Code: smtp; 550 ${n} ${fill("\ufdfa ", 900)}\n\n`,
        ),
      ),
    ),
  "groups without end": () => multipart(status(fill("\n", KEPT_BYTES))),
  "parts without end": () => multipart(fill("--b\n\n\n", KEPT_BYTES)),
  "nearly boundaries": () => multipart(fill("--bb\n", KEPT_BYTES)),
  "messages in messages": () => `${HEAD}${numbered(KEPT_BYTES, () => "Content-Type: message/rfc822\n\n")}`,
  "multiparts in multiparts": () =>
    `${HEAD}${numbered(KEPT_BYTES, (n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`)}`,
  "a header of many fields": () => `${numbered(KEPT_BYTES, (n) => `X-${n}: a@b.example\n`)}\n`,
  "a header of one field": () => `Subject: ${fill("=?utf-8?q?=41?=\n ", KEPT_BYTES)}\n\n`,
  "many parts with long headers": () =>
    multipart(
      ...Array.from(
        { length: 40 },
        () => `Subject: ${fill("(((", 3 * KB)}\nContent-Type: ${fill("(", 40)}\n\n`,
      ),
    ),
  "HTML of tags": () => multipart(`Content-Type: text/html\n\n${fill("<a <br <", KEPT_BYTES)}`),
  entities: () => multipart(`Content-Type: text/html\n\n${fill("&lt;", KEPT_BYTES)}`),
  "quoted-printable": () =>
    multipart(`Content-Transfer-Encoding: quoted-printable\n\n${fill("=41", KEPT_BYTES)}`),
  "a charset of two bytes": () =>
    multipart(`Content-Type: text/plain; charset=iso-2022-jp\n\n${fill("\u001b$B0!\u001b(B", KEPT_BYTES)}`),
  "what may be return paths": () =>
    multipart(
      status(recipients),
      `Content-Type: message/rfc822\n\nX: ${fill(`${"a".repeat(56)}@ `, 4 * KB)}\n`,
    ),
};

async function workedOff(reports: readonly Omit<NewReport, "id">[]): Promise<void> {
  await insertReports(
    engine.sql,
    reports.map((one) => ({ id: newId(Date.now()), ...one })),
  );
  const open = async () =>
    (await engine.sql<{ n: number }[]>`select count(*)::int as n from report where result is null`)[0]?.n;
  await expect.poll(open, { timeout: 60_000, interval: 20 }).toBe(0);
}

const NOBODYS = { handle: null, workspaceId: null, emailId: null, place: null, network: "192.0.2.0/24" };
const about = (n: number) => ({
  ...NOBODYS,
  handle: ws.handle,
  emailId: emailIds[n % emailIds.length] as string,
  place: Math.floor(n / emailIds.length),
});
const each = <T>(make: (n: number) => T) => Array.from({ length: REPORTS }, (_, n) => make(n));

test.each(Object.entries(REPORTS_OF))("many reports to return paths: %s", async (_, write) => {
  const raw = Buffer.from(write(), "latin1").subarray(0, 128 * KB);
  const again = () => workedOff(each((n) => ({ ...about(n), source: "return_path" as const, raw })));
  expect(await workedBy(process, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

const arf = (said: string, header: string) =>
  multipart(
    `Content-Type: message/feedback-report\n\nFeedback-Type: abuse\n${said}`,
    `Content-Type: message/rfc822\n\n${header}`,
  );
const COMPLAINTS: Record<string, (n: number) => string> = {
  "thousands of fields": () =>
    arf(
      numbered(60 * KB, (n) => `X-${n}: a\n`),
      numbered(60 * KB, (n) => `Y-${n}: a\n`),
    ),
  "return paths of others": () => arf(`X: ${fill(`${"a".repeat(56)}@ `, 4 * KB)}\n`, ""),
  "marks that nobody has": (n) => arf("", `Message-ID: <x@y>\nX-Postrider-Mark: ${n}\n`),
  "our own return paths": (n) => arf("", `Return-Path: <${somePath(n)}>\n`),
};

test.each(Object.entries(COMPLAINTS))("many complaints: %s", async (_, write) => {
  const again = () =>
    workedOff(each((n) => ({ ...NOBODYS, source: "feedback_address" as const, raw: Buffer.from(write(n)) })));
  expect(await workedBy(process, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

const tlsReport = (n: number, policies: string) =>
  `{"organization-name":"a${n}","report-id":"${n}","date-range":{"start-datetime":"2026-11-20T00:00:00Z","end-datetime":"2026-11-20T23:59:59Z"},"policies":[${policies}]}`;
const policy = (failures: string) =>
  `{"policy":{"policy-domain":"${BOUNCE_DOMAIN}","policy-type":"sts"},"failure-details":[${failures}]}`;
const TLS: Record<string, (n: number) => string> = {
  "failures without words": (n) =>
    tlsReport(
      n,
      Array(20)
        .fill(policy(Array(100).fill("{}").join()))
        .join(),
    ),
  "failures of long words": (n) =>
    tlsReport(
      n,
      Array(20)
        .fill(
          policy(
            Array(100)
              .fill(`{"result-type":"${"\u200b ".repeat(20)}"}`)
              .join(),
          ),
        )
        .join(),
    ),
  "policies without end": (n) => tlsReport(n, `${fill("{},", 240 * KB)}{}`),
  "arrays in arrays": () => fill("[", 120 * KB) + fill("]", 120 * KB),
  "keys that differ": () => `{${numbered(240 * KB, (n) => `"${n.toString(36)}":0,`)}"a":0}`,
  "twenty domains below ours": (n) =>
    tlsReport(
      n,
      Array(20)
        .fill(policy("").replace(BOUNCE_DOMAIN, `${"a.".repeat(5)}${BOUNCE_DOMAIN}`))
        .join(),
    ),
};

test.each(Object.entries(TLS))("many TLS reports: %s", async (_, write) => {
  const again = () =>
    workedOff(
      each((n) => {
        const zipped = gzipSync(write(n)).toString("base64");
        const raw = Buffer.from(
          multipart(`Content-Type: application/tlsrpt+gzip\nContent-Transfer-Encoding: base64\n\n${zipped}`),
        );
        return { ...NOBODYS, source: "tls_report" as const, raw };
      }),
    );
  expect(await workedBy(process, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

/** Lines as the listener gets them. */
const CONVERSATIONS: Record<string, () => string> = {
  "a large message of short lines": () => fill("a\r\n", 40 * MB),
  "a large message of empty lines": () => fill("\r\n", 40 * MB),
  "a large message of dots": () => fill("..\r\n", 40 * MB),
  "a large message of long lines": () => fill(`${"a".repeat(16_000)}\r\n`, 40 * MB),
  "one long line": () => fill("a", 40 * MB),
  "a long header": () => `Subject: x\r\n${fill(" a\r\n", 40 * MB)}`,
};

test.each(Object.entries(CONVERSATIONS))("handed in: %s", async (_, write) => {
  const message = write();
  const handIn = async () => {
    const client = await SmtpClient.open(process.inboundPort as number);
    await client.say("EHLO mx.example.net");
    await client.say("MAIL FROM:<>");
    expect(await client.say(`RCPT TO:<${FEEDBACK}>`)).toMatch(/^250/);
    await client.say("DATA");
    await client.say(`${message}\r\n.`);
    client.destroy();
  };
  expect(await workedBy(process, handIn, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("commands without end", async () => {
  const pour = async () => {
    const client = await SmtpClient.open(process.inboundPort as number);
    client.write(fill("NOOP\r\n", 10 * MB));
    client.write(fill(`RCPT TO:<${"a".repeat(56)}@${BOUNCE_DOMAIN}>\r\n`, MB));
    while (!client.isClosed) await client.answer();
  };
  expect(await workedBy(process, pour, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

/** Some fewer than one address may have: those of other tests may still be ending. */
const CONNECTIONS = 40;

test("commands of many connections that come together", async () => {
  const commands = `${"EHLO mx.example.net\r\n".repeat(900)}QUIT\r\n`;
  const pour = async () => {
    const clients = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => SmtpClient.open(process.inboundPort as number)),
    );
    for (const client of clients) client.write(commands);
    for (const client of clients) while (!client.isClosed) await client.answer();
  };
  expect(await workedBy(process, pour, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
