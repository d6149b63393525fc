/**
 * The listener for reports against whoever wants something else of it: relaying, smuggling, floods, bombs,
 * silence. Each is refused within its bounds, and reports go on being taken meanwhile.
 */
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { ReportListener, type ReportListenerParts } from "../../src/inbound/listener.ts";
import type { NewReport } from "../../src/record/mail/reports.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { selfSigned } from "../../src/smtp/certificate.ts";
import { MovableClock } from "../rig/clock.ts";
import { eventually } from "../rig/eventually.ts";
import { dsn, handIn, SmtpClient } from "../rig/reports.ts";

const SECRET = "a secret of the tests, long enough";
const DOMAIN = "bounces.postrider.test";
const FEEDBACK = `fbl@${DOMAIN}`;
const FOREIGN = "550 5.7.1 only reports about our own mail are accepted here";

const key = new ReturnPathKey(SECRET);
const certificate = selfSigned(DOMAIN, Date.now());
let clock: MovableClock;
let kept: NewReport[];
let busy: string | null;
let port: number;
const clients: SmtpClient[] = [];

const listeners: ReportListener[] = [];
beforeEach(async () => {
  clock = new MovableClock();
  kept = [];
  busy = null;
  port = await listening();
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await Promise.all(listeners.splice(0).map((listener) => listener.stop()));
});

/** The port of one more. */
function listening(more: Partial<ReportListenerParts> = {}): Promise<number> {
  const listener = new ReportListener({
    host: "127.0.0.1",
    port: 0,
    name: DOMAIN,
    certificate,
    feedbackAddresses: [FEEDBACK],
    tlsReportAddresses: [],
    paths: key,
    clock,
    busy: () => busy,
    keep: async (reports) => void kept.push(...reports),
    onFault: (error) => {
      throw error;
    },
    limits: { messageBytesMax: 1_000_000, messagesMax: 3 },
    ...more,
  });
  listeners.push(listener);
  return listener.listen();
}

function somePath(): string {
  const copy = { handle: "abcdEFG1", emailId: newId(clock.now()), place: 0 };
  return `${key.write(copy, clock.now())}@${DOMAIN}`;
}

async function opened(at = port): Promise<SmtpClient> {
  const client = await SmtpClient.open(at);
  clients.push(client);
  return client;
}

/** In a transaction, right before the message. */
async function atData(): Promise<SmtpClient> {
  const client = await opened();
  await client.say("EHLO a.example");
  await client.say("MAIL FROM:<>");
  await client.say(`RCPT TO:<${somePath()}>`);
  await client.say("DATA");
  return client;
}

test("nothing is relayed, however the recipient is written", async () => {
  const probes = [
    "victim@example.org",
    `victim%example.org@${DOMAIN}`,
    `example.org!victim@${DOMAIN}`,
    `"victim@example.org"@${DOMAIN}`,
    `@${DOMAIN}:victim@example.org`,
    "victim@[127.0.0.1]",
    `postmaster@${DOMAIN}`,
    `${FEEDBACK}@example.org`,
    "victim",
  ];
  for (const probe of probes) {
    const client = await opened();
    await client.say("EHLO a.example");
    await client.say("MAIL FROM:<spammer@example.com>");
    expect((await client.say(`RCPT TO:<${probe}>`)).slice(0, 3), probe).toMatch(/^5/);
    expect(await client.say("DATA")).toMatch(/^503/);
    expect(await client.say("AUTH LOGIN")).toMatch(/^502/);
    client.destroy();
  }
  expect(kept).toEqual([]);
});

test("a bare line feed around a dot ends no message, and smuggles none in", async () => {
  const smuggled = `MAIL FROM:<>\r\nRCPT TO:<${somePath()}>\r\nDATA\r\nsmuggled\r\n.\r\n`;
  for (const end of ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r\n.\r", "\r.\r\n", "\n\n.\r\n"]) {
    const client = await atData();
    client.write(`Subject: one${end}${smuggled}\r\n.\r\n`);
    expect(await client.answer(), JSON.stringify(end)).toMatch(/^554 5\.6\.0/);
    expect(await client.answer()).toBe("");
    client.destroy();
  }
  expect(kept).toEqual([]);
});

test("a message is the same however it is cut into pieces, with its dots undone", async () => {
  const message = "Subject: one\r\n\r\n..leading\r\n.. \r\nlast\r\n.\r\n";
  for (let cut = 1; cut < message.length; cut++) {
    const client = await atData();
    client.write(message.slice(0, cut));
    await new Promise((resolve) => setImmediate(resolve));
    client.write(message.slice(cut));
    expect(await client.answer()).toBe("250 2.0.0 kept");
    expect(String(kept.pop()?.raw)).toBe("Subject: one\r\n\r\n.leading\r\n. \r\nlast\r\n");
    client.destroy();
  }
});

test("a command that ends with a line feed alone, or is endless, ends the connection", async () => {
  for (const bytes of ["NOOP\nNOOP\r\n", `NOOP ${"x".repeat(5_000)}`, "\n", "\r\r\n"]) {
    const client = await opened();
    client.write(bytes);
    expect(await client.answer()).toMatch(/^500/);
    expect(await client.answer()).toBe("");
  }
});

test("who waits for an answer gets it, also when the session has lasted too long meanwhile", async () => {
  let brief = 0;
  const keep = async () => {
    const later = await opened(brief);
    expect(await later.answer()).toBe("421 4.4.2 the session took too long");
  };
  brief = await listening({ keep, limits: { sessionMsMax: 300 } });
  // on a busy machine a session may be over before its message has come
  await eventually(async () => {
    const answers = await handIn(brief, somePath(), dsn({ recipient: "a@example.net" }));
    expect(answers.at(-1)).toBe("250 2.0.0 kept");
  });
});

test("what was said before the TLS handshake is not obeyed after it", async () => {
  const client = await opened();
  await client.say("EHLO a.example");
  client.write("STARTTLS\r\nMAIL FROM:<>\r\n");
  expect(await client.answer()).toMatch(/^501/);
  expect(await client.answer()).toBe("");
});

test("a command that takes no parameter is not obeyed with one", async () => {
  const client = await opened();
  await client.say("EHLO a.example");
  await client.say("MAIL FROM:<>");
  for (const command of ["STARTTLS now", "DATA now", "RSET now", "QUIT now"])
    expect(await client.say(command)).toMatch(/^501 5\.5\.4 /);
  expect(await client.say("STARTTLS ")).toMatch(/^220 /);
});

test("STARTTLS works with the certificate that was made", async () => {
  const client = await opened();
  expect(await client.say("EHLO a.example")).toContain("STARTTLS");
  await client.say("STARTTLS");
  const secured = connectTls({ socket: client.detach(), rejectUnauthorized: false });
  const talk = SmtpClient.over(secured);
  clients.push(talk);
  expect(await talk.say("EHLO a.example")).not.toContain("STARTTLS");
  await talk.say("MAIL FROM:<>");
  await talk.say(`RCPT TO:<${somePath()}>`);
  await talk.say("DATA");
  expect(await talk.say("Subject: one\r\n\r\nsecret\r\n.")).toBe("250 2.0.0 kept");
  expect(kept).toHaveLength(1);
});

test("of a large message the beginning is kept, and one beyond the bound is refused", async () => {
  const path = somePath();
  expect(await handIn(port, path, `Subject: one\r\n\r\n${"x".repeat(900)}\r\n`.repeat(500))).toEqual([
    "250 2.1.5 ok",
    "250 2.0.0 kept",
  ]);
  expect(kept[0]?.raw).toHaveLength(128 * 1024);
  const client = await atData();
  for (let n = 0; n < 40 && !client.isClosed; n++) client.write(`${"y".repeat(900)}\r\n`.repeat(30));
  expect(await client.answer()).toMatch(/^552/);
  const endless = await atData();
  endless.write("z".repeat(200_000));
  expect(await endless.answer()).toMatch(/^500/);
  const declared = await opened();
  await declared.say("EHLO a.example");
  expect(await declared.say("MAIL FROM:<> SIZE=1000001")).toMatch(/^552/);
});

test("a mail bomb to one return path is let in for twenty reports an hour", async () => {
  const path = somePath();
  const answers: string[] = [];
  for (let n = 0; n < 25; n++)
    answers.push(...(await handIn(port, path, dsn({ recipient: "a@example.net" }))));
  expect(answers.filter((answer) => answer.endsWith("kept"))).toHaveLength(20);
  expect(answers.filter((answer) => answer.startsWith("450 4.7.1"))).toHaveLength(5);
  expect((await handIn(port, somePath(), "Subject: one\r\n")).at(-1)).toBe("250 2.0.0 kept");
  clock.advance(3_600_000);
  expect((await handIn(port, path, "Subject: one\r\n")).at(-1)).toBe("250 2.0.0 kept");
});

test("a flood of complaints is put off, and return paths go on being heard", async () => {
  let taken = 0;
  let putOff = 0;
  for (let n = 0; n < 62; n++) {
    const client = await opened();
    await client.say("EHLO a.example");
    await client.say("MAIL FROM:<>");
    const answers = await Promise.all(Array.from({ length: 10 }, () => client.say(`RCPT TO:<${FEEDBACK}>`)));
    taken += answers.filter((answer) => answer.startsWith("250")).length;
    putOff += answers.filter((answer) => answer.startsWith("451 4.7.1")).length;
    client.destroy();
  }
  expect([taken, putOff]).toEqual([600, 20]);
  expect((await handIn(port, somePath(), "Subject: one\r\n")).at(-1)).toBe("250 2.0.0 kept");
});

test("who guesses return paths is hung up on", async () => {
  const client = await opened();
  await client.say("EHLO a.example");
  await client.say("MAIL FROM:<>");
  const answers: string[] = [];
  for (let n = 0; n < 11; n++) answers.push(await client.say(`RCPT TO:<guess${n}@${DOMAIN}>`));
  expect(answers).toEqual([...Array(10).fill(FOREIGN), "421 4.7.0 too many commands were refused"]);
});

test("connections of one address are bounded", async () => {
  await Promise.all(Array.from({ length: 50 }, () => opened()));
  expect(await SmtpClient.greeting(port)).toBe("421 4.7.0 too many connections");
});

test("silent connections are ended, and leave room to others", async () => {
  const brief = await listening({ limits: { silenceMsMax: 300 } });
  const silent = await Promise.all(Array.from({ length: 50 }, () => opened(brief)));
  const goodbyes = await Promise.all(silent.map((client) => client.answer()));
  expect(new Set(goodbyes)).toEqual(new Set(["421 4.4.2 no command came for too long"]));
  expect(await SmtpClient.greeting(brief)).toMatch(/^220 /);
});

test("when nothing can be written, whoever comes is asked to come again", async () => {
  busy = "only 3 MB of disk are free";
  const client = await opened();
  await client.say("EHLO a.example");
  expect(await client.say("MAIL FROM:<>")).toBe("452 4.3.1 only 3 MB of disk are free");
});

test("a connection brings so many messages, and the next is asked to come anew", async () => {
  const client = await opened();
  await client.say("EHLO a.example");
  for (let n = 0; n < 3; n++) {
    await client.say("MAIL FROM:<>");
    await client.say(`RCPT TO:<${somePath()}>`);
    await client.say("DATA");
    expect(await client.say("Subject: one\r\n.")).toBe("250 2.0.0 kept");
  }
  expect(await client.say("MAIL FROM:<>")).toMatch(/^421/);
});

test("what was not offered is refused: a binary message would be cut at its first dot", async () => {
  const client = await opened();
  await client.say("EHLO a.example");
  for (const parameters of ["BODY=BINARYMIME", "SIZE=10 BODY=BINARYMIME", "BODY", "SIZE=x", "HOLDFOR=10"])
    expect(await client.say(`MAIL FROM:<> ${parameters}`)).toMatch(/^555 5\.5\.4/);
  expect(await client.say("MAIL FROM:<> size=10 BODY=8BITMIME SMTPUTF8 AUTH=<>")).toMatch(/^250/);
});
