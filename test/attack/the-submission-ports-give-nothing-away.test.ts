/**
 * The submission ports against whoever wants more of them than to send mail with a key: logins in the clear,
 * guesses, smuggling, bombs, floods, silence, other people's templates and domains. Each is refused within
 * its bounds, and mail goes on being taken meanwhile.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Caller } from "../../src/admission/admit.ts";
import { loadConfig } from "../../src/config.ts";
import type { SubmittedMail } from "../../src/submission/mail.ts";
import { openSubmission, type SubmissionRole } from "../../src/submission/submission.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { eventually } from "../rig/eventually.ts";
import { SmtpClient } from "../rig/reports.ts";
import { loggedIn, plainLogin, secured, submit } from "../rig/submitting.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const SETTINGS = { SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" };
const HEAD = "From: orders@example.com\nTo: one@example.net\nSubject: Order\n";

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api", "submission"], { settings: SETTINGS });
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

/** Ports of their own, before an API that takes everything, for what only the protocol is about. */
const clock = new MovableClock();
const opened: SubmissionRole[] = [];
const clients: SmtpClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await Promise.all(opened.splice(0).map((role) => role.stop()));
});

async function ports(limits = {}): Promise<{ port: number; tlsPort: number; mails: SubmittedMail[] }> {
  const mails: SubmittedMail[] = [];
  const caller = {} as Caller;
  const role = await openSubmission(loadConfig(SETTINGS), {
    door: {
      readKey: (key) => (key === KEY ? { handle: "abcdEFG1", hash: "" } : null),
      admit: async () => ({ kind: "admitted", caller }),
      send: async (_, mail) => ({ kind: "sent", id: String(mails.push(mail)) }),
    },
    room: { take: () => true, give: () => {} },
    clock,
    onFault: (error) => {
      throw error;
    },
    limits,
  });
  opened.push(role);
  return { port: role.port as number, tlsPort: role.tlsPort as number, mails };
}
const KEY = "a key";

function kept(client: SmtpClient): SmtpClient {
  clients.push(client);
  return client;
}

async function atData(tlsPort: number): Promise<SmtpClient> {
  const client = kept(await loggedIn(tlsPort, KEY));
  for (const line of ["MAIL FROM:<>", "RCPT TO:<one@example.net>", "DATA"]) await client.say(line);
  return client;
}

async function answered(message: string, key = workspace.client.key): Promise<string> {
  return submit(kept(await loggedIn(engine.submissionTlsPort, key)), "one@example.net", message);
}

async function count(): Promise<number> {
  const { body } = await workspace.client.get<{ data: unknown[] }>("/emails?limit=100");
  return body.data.length;
}

test("a key is neither asked for nor taken in the clear, and without a login nothing is", async () => {
  const { port, tlsPort, mails } = await ports();
  const open = kept(await SmtpClient.open(port));
  const offered = await open.say("EHLO a.example");
  expect(offered).toContain("STARTTLS");
  expect(offered).not.toContain("AUTH");
  for (const login of [plainLogin(KEY), "AUTH PLAIN", "AUTH LOGIN", "auth login YQ=="])
    expect(await open.say(login)).toMatch(/^538 5\.7\.11/);
  expect(await open.say("MAIL FROM:<a@example.com>")).toMatch(/^530 5\.7\.0 say STARTTLS first, then log in/);
  expect(await open.say("RCPT TO:<a@example.com>")).toMatch(/^503/);
  expect(await open.say("DATA")).toMatch(/^503/);
  const safe = kept(await secured(tlsPort));
  expect(await safe.say("EHLO a.example")).toContain("AUTH PLAIN LOGIN");
  expect(await safe.say("MAIL FROM:<a@example.com>")).toMatch(/^530 5\.7\.0 log in first/);
  expect(mails).toEqual([]);
});

test("what was said before the TLS handshake is not obeyed after it", async () => {
  const { port } = await ports();
  const client = kept(await SmtpClient.open(port));
  await client.say("EHLO a.example");
  client.write(`STARTTLS\r\nEHLO a.example\r\n${plainLogin(KEY)}\r\n`);
  expect(await client.answer()).toMatch(/^501/);
  expect(await client.answer()).toBe("");
});

test("who guesses keys is hung up on, on any connection, and for a while", async () => {
  const { tlsPort } = await ports();
  const answers: string[] = [];
  for (let n = 0; n < 7; n++) {
    const client = kept(await secured(tlsPort));
    for (let m = 0; m < 3; m++) answers.push((await client.say(plainLogin(`guess ${n} ${m}`))).slice(0, 9));
  }
  expect(answers).toEqual([...Array(20).fill("535 5.7.8"), "421 4.7.0"]);
  const owner = kept(await secured(tlsPort));
  expect(await owner.say(plainLogin(KEY))).toMatch(/^421 4\.7\.0/);
  clock.advance(300_000);
  const later = kept(await secured(tlsPort));
  expect(await later.say(plainLogin(KEY))).toMatch(/^235/);
});

test("odd logins are refused, and nothing else is taken for one", async () => {
  const { tlsPort } = await ports();
  const client = kept(await secured(tlsPort));
  expect(await client.say("AUTH CRAM-MD5")).toMatch(/^504/);
  expect(await client.say("AUTH LOGIN")).toBe("334 VXNlcm5hbWU6");
  expect(await client.say("*")).toMatch(/^501/);
  expect(await client.say("AUTH LOGIN")).toBe("334 VXNlcm5hbWU6");
  expect(await client.say("MAIL FROM:<a@example.com>")).toBe("501 5.5.2 this is not base64");
  expect(await client.say("AUTH LOGIN")).toBe("334 VXNlcm5hbWU6");
  expect(await client.say("")).toBe("334 UGFzc3dvcmQ6");
  expect(await client.say("*")).toMatch(/^501/);
  expect(await client.say("AUTH PLAIN")).toMatch(/^334/);
  expect(await client.say("%%%")).toBe("501 5.5.2 this is not base64");
  expect(await client.say(`AUTH PLAIN ${Buffer.from(KEY).toString("base64")}`)).toMatch(/^535/);
  expect(await client.say(plainLogin(KEY))).toMatch(/^235/);
  expect(await client.say(plainLogin(KEY))).toMatch(/^503/);
  const long = kept(await secured(tlsPort));
  await long.say("AUTH PLAIN");
  long.write("A".repeat(20_000));
  expect(await long.answer()).toMatch(/^500/);
});

test("an answer that is no base64 is told from a wrong key, and is no guess", async () => {
  const { tlsPort } = await ports();
  const odd = ["!!!", "A", "AAAAA", "AA=A", "====", KEY];
  for (const answer of odd.flatMap((one) => [`AUTH PLAIN ${one}`, `AUTH LOGIN ${one}`])) {
    const client = kept(await secured(tlsPort));
    expect(await client.say(answer), answer).toBe("501 5.5.2 this is not base64");
  }
  const client = kept(await secured(tlsPort));
  expect(await client.say("AUTH PLAIN =")).toMatch(/^535/);
  expect(await client.say("AUTH LOGIN =")).toBe("334 UGFzc3dvcmQ6");
  expect(await client.say("pr_live")).toMatch(/^501/);
  expect(await client.say(plainLogin(KEY).replace(/=+$/, ""))).toMatch(/^235/);
});

test("a bare line end around a dot ends no message, and smuggles none in", async () => {
  const { tlsPort, mails } = await ports();
  const smuggled =
    "MAIL FROM:<>\r\nRCPT TO:<two@example.net>\r\nDATA\r\nFrom: ceo@example.com\r\n\r\nx\r\n.\r\n";
  for (const end of [
    "\n.\n",
    "\n.\r\n",
    "\r\n.\n",
    "\r.\r",
    "\r\n.\r",
    "\r.\r\n",
    "\n\n.\r\n",
    "\r\n\r.\r\n",
  ]) {
    const client = await atData(tlsPort);
    client.write(`From: a@example.com\r\n\r\none${end}${smuggled}\r\n.\r\n`);
    expect(await client.answer(), JSON.stringify(end)).toMatch(/^554 5\.6\.0/);
    expect(await client.answer()).toBe("");
  }
  expect(mails).toEqual([]);
});

test("a message is the same however it is cut into pieces, with its dots undone", async () => {
  const { tlsPort, mails } = await ports();
  const message = "Subject: one\r\n\r\n..leading\r\n.. \r\n..\r\nlast\r\n.\r\n";
  for (let cut = 1; cut < message.length; cut++) {
    const client = await atData(tlsPort);
    client.write(message.slice(0, cut));
    await new Promise((resolve) => setImmediate(resolve));
    client.write(message.slice(cut));
    expect(await client.answer()).toMatch(/^250/);
    expect(mails.pop()?.body.text).toBe(".leading\n. \n.\nlast\n");
    client.destroy();
  }
});

test("encoded words put no field into the mail", async () => {
  const before = await count();
  const broken = "=?utf-8?q?a=0D=0ABcc=3A_victim=40example.org?=";
  for (const field of [
    `Subject: ${broken}`,
    `Subject: ${Buffer.from("a\rb")
      .toString("base64")
      .replace(/^(.*)$/, "=?utf-8?b?$1?=")}`,
  ])
    expect(await answered(`From: orders@example.com\nTo: one@example.net\n${field}\n\nx`), field).toMatch(
      /^554 5\.6\.0 The `subject` field must not contain line breaks/,
    );
  expect(
    await answered(`From: ${broken} <orders@example.com>\nTo: one@example.net\nSubject: x\n\nx`),
  ).toMatch(/^55/);
  expect(
    await answered(`From: orders@example.com\nTo: ${broken} <one@example.net>\nSubject: x\n\nx`),
  ).toMatch(/^55/);
  expect(
    await answered(
      `${HEAD}Content-Type: text/plain; name="=?utf-8?q?a=0D=0Ab?="\nContent-Disposition: attachment\n\nx`,
    ),
  ).toMatch(/^554/);
  expect(
    await answered(`From: a@example.com\nTo: one@example.net\nSubject: =?utf-8?q?=E2=80=AEgpj?=\n\nx`),
  ).toMatch(/^554 5\.6\.0 The `subject` field must not contain characters that change the direction/);
  expect(await count()).toBe(before);
});

test("what is repeated in a refusal does not become a reply of its own", async () => {
  const answer = await answered(
    `${HEAD}X-Postrider-Template: =?utf-8?q?a=0D=0A250_2=2E0=2E0_Ok:_queued=C3=A4?=\n\n`,
  );
  expect(answer).toMatch(/^55\d[ -]/);
  expect(answer).not.toMatch(/^250/m);
  expect(answer).toMatch(/^[\x20-\x7e\r\n]*$/);
});

test("bombs of parts, depths, fields and boundaries are refused or read, and hold up nobody", async () => {
  const nested = (depth: number) =>
    Array.from(
      { length: depth },
      (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`,
    ).join("");
  const bombs: [string, string, RegExp][] = [
    ["depth", `${HEAD}${nested(13)}\nx`, /levels|deep/],
    ["very deep", `${HEAD}${nested(1_000)}\nx`, /levels|deep/],
    [
      "parts",
      `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${"--b\n\n\n".repeat(300)}--b--`,
      /200 parts/,
    ],
    [
      "empty containers",
      `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${"--b\nContent-Type: multipart/mixed; boundary=c\n\n".repeat(300)}`,
      /200 parts/,
    ],
    ["many fields", `${HEAD}${"X-A: 1\n".repeat(600)}\nx`, /500 fields/],
    ["a header without an end", `${HEAD}X-A: ${`${"a".repeat(900)}\n `.repeat(200)}\n\nx`, /bytes/],
    ["no boundary", `${HEAD}Content-Type: multipart/mixed\n\nx`, /boundary/],
    ["no such encoding", `${HEAD}Content-Transfer-Encoding: x-bomb\n\nx`, /Content-Transfer-Encoding/],
    ["no header", "just text\nand more\n", /no field/],
  ];
  for (const [what, message, why] of bombs) {
    const answer = await answered(message);
    expect(answer, what).toMatch(/^554 5\.6\.0/);
    expect(answer, what).toMatch(why);
  }
  const read: [string, string][] = [
    ["base64 of nothing", `${HEAD}Content-Transfer-Encoding: base64\n\n${"====\n".repeat(10_000)}`],
    ["an unterminated boundary", `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx`],
    [
      "a boundary in every line",
      `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${"--bb\n".repeat(50_000)}`,
    ],
    ["quotes without an end", `${HEAD}Content-Type: text/plain; charset="${"\\".repeat(10_000)}\n\nx`],
    ["comments without an end", `${HEAD.replace("one@", `${"(".repeat(5_000)}`)}\nx`],
  ];
  for (const [what, message] of read) expect(await answered(message), what).toMatch(/^(250|55)/);
});

test("a large message is refused by its size, announced or not, and the next one is taken", async () => {
  const { tlsPort, mails } = await ports({ messageBytesMax: 1_000_000, excessBytesMax: 1_000_000 });
  const client = kept(await loggedIn(tlsPort, KEY));
  expect(await client.say("EHLO a.example")).toContain("SIZE 1000000");
  expect(await client.say("MAIL FROM:<> SIZE=1000001")).toMatch(/^552 5\.3\.4/);
  expect(await submit(client, "one@example.net", `${HEAD}\n${`${"x".repeat(900)}\n`.repeat(1_500)}`)).toMatch(
    /^552 5\.3\.4/,
  );
  expect(await submit(client, "one@example.net", `${HEAD}\nx`)).toMatch(/^250/);
  expect(mails).toHaveLength(1);
  const endless = await atData(tlsPort);
  for (let n = 0; n < 60 && !endless.isClosed; n++) endless.write(`${"y".repeat(900)}\r\n`.repeat(50));
  expect(await endless.answer()).toMatch(/^552/);
  const line = await atData(tlsPort);
  for (let n = 0; n < 40 && !line.isClosed; n++) line.write("z".repeat(50_000));
  expect(await line.answer()).toMatch(/^5[05][02]/);
});

test("who is silent, slow or idle is ended", async () => {
  const quiet = await ports({ silenceMsMax: 300 });
  const silent = kept(await SmtpClient.open(quiet.port));
  expect(await silent.answer()).toMatch(/^421 4\.4\.2 no command came/);
  const busy = await ports({ idleCommandsMax: 10 });
  const idle = kept(await secured(busy.tlsPort));
  const answers: string[] = [];
  for (let n = 0; n < 10; n++) answers.push(await idle.say("NOOP"));
  expect(answers.at(-1)).toMatch(/^421 4\.7\.0 too many commands/);
  const slow = await ports({ messageMsMax: 400, sessionMsMax: 60_000 });
  const dripping = await atData(slow.tlsPort);
  const drip = setInterval(() => dripping.write("x"), 50);
  expect(await dripping.answer()).toMatch(/^421 4\.4\.2 the message took too long/);
  clearInterval(drip);
  const anonymous = await ports({ sessionMsMax: 300 });
  // on a busy machine a login may take longer than that
  const member = kept(await eventually(() => loggedIn(anonymous.tlsPort, KEY)));
  const waiting = kept(await SmtpClient.open(anonymous.port));
  expect(await waiting.answer()).toMatch(/^421 4\.4\.2 the session took too long/);
  expect(await submit(member, "one@example.net", `${HEAD}\nx`)).toMatch(/^250/);
});

test("connections of one address are bounded, over both ports", async () => {
  const { port, tlsPort } = await ports();
  for (let n = 0; n < 100; n++) kept(n % 2 ? await SmtpClient.open(port) : await secured(tlsPort));
  expect(await SmtpClient.greeting(port)).toMatch(/^421 4\.7\.0 too many connections/);
});

test("a key that may not send, a revoked one and a suspended workspace are refused", async () => {
  const reader = await workspace.key(["templates:read"]);
  const mute = kept(await secured(engine.submissionTlsPort));
  expect(await mute.say(plainLogin(reader.client.key))).toBe(
    "535 5.7.8 This API key lacks the `emails:send` permission.",
  );
  const other = await engine.workspace();
  const { id, client } = await other.key(["emails:send"]);
  const session = kept(await loggedIn(engine.submissionTlsPort, client.key));
  expect(await submit(session, "one@example.net", `${HEAD}\nx`)).toMatch(/^250/);
  await engine.keyring.revokeKey(id, "operator");
  expect(await submit(session, "one@example.net", `${HEAD}\nx`)).toMatch(/^550 5\.7\.8 API key is invalid/);
  await engine.keyring.suspend(other.id, "spam");
  const suspended = kept(await secured(engine.submissionTlsPort));
  expect(await suspended.say(plainLogin(other.client.key))).toMatch(
    /^535 5\.7\.8 This workspace is suspended/,
  );
});

test("other workspaces' templates are not there, and their domains not theirs to write from", async () => {
  const other = await engine.workspace();
  await other.client.call("PUT", "/templates/secret", { subject: "x", html: "<p>secret</p>" });
  expect(await answered(`${HEAD}X-Postrider-Template: secret\n\n`)).toMatch(
    /^554 5\.6\.0 The template `secret` does not exist/,
  );
  const strict = await startEngine(["submission"], {
    settings: { ...SETTINGS, REQUIRE_VERIFIED_DOMAINS: "true" },
  });
  const client = kept(await loggedIn(strict.submissionTlsPort, workspace.client.key));
  expect(await submit(client, "one@example.net", `${HEAD}\nx`)).toMatch(
    /^550[ -]5\.7\.1 The domain `example\.com` is not verified for this workspace/,
  );
  client.destroy();
  await strict.stop();
});
