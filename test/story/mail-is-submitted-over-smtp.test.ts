/**
 * Whoever has SMTP settings and an API key sends as with POST /emails: the same e-mail is stored, and what
 * the API refuses is refused in the API's words.
 */
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { idIn, loggedIn, submit } from "../rig/submitting.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let stage: Stage;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  engine = await startEngine(["api", "submission", "deliver", "keeper"], {
    ...stage,
    settings: { SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
  });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

type Shown = Record<string, unknown> & { id: string };

function transport(key = workspace.client.key, isSecure = false) {
  return createTransport({
    host: "127.0.0.1",
    port: isSecure ? engine.submissionTlsPort : engine.submissionPort,
    secure: isSecure,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: "anybody", pass: key },
  });
}

async function stored(response: string): Promise<Shown> {
  const { status, body } = await workspace.client.get<Shown>(`/emails/${idIn(response)}`);
  expect(status, response).toBe(200);
  return body;
}

/** What is answered to a message of these lines. */
async function answered(to: string | string[], message: string, key = workspace.client.key): Promise<string> {
  const client = await loggedIn(engine.submissionTlsPort, key);
  try {
    return await submit(client, to, message);
  } finally {
    client.destroy();
  }
}

async function delivered(id: string) {
  await expect
    .poll(() => stage.sink.ledger.mails.filter(({ messageId }) => messageId.startsWith(id)).length)
    .toBeGreaterThan(0);
  const [mail] = stage.sink.ledger.mails.filter(({ messageId }) => messageId.startsWith(id));
  return { to: mail?.to, text: String(mail?.raw) };
}

const MAIL = {
  from: '"Acme, Inc." <orders@example.com>',
  to: "one@example.net",
  subject: "Grüße",
  text: "Thanks",
  html: "<p>Thänks</p>",
};
const HEAD = "From: orders@example.com\nTo: one@example.net\nSubject: Order\n";

test.each([false, true])(
  "a mail is stored as it was sent, with TLS from the first byte: %s",
  async (isSecure) => {
    const { response } = await transport(undefined, isSecure).sendMail({
      ...MAIL,
      cc: ["Two <two@example.net>"],
      bcc: ["three@example.net"],
      replyTo: "help@example.com",
      headers: { "X-Entity-Ref-ID": "12" },
    });
    const email = await stored(response);
    expect(email).toMatchObject({
      from: '"Acme, Inc." <orders@example.com>',
      to: ["one@example.net"],
      cc: ["Two <two@example.net>"],
      bcc: ["three@example.net"],
      reply_to: ["help@example.com"],
      subject: "Grüße",
      html: "<p>Thänks</p>",
      text: "Thanks",
      headers: { "X-Entity-Ref-ID": "12" },
    });
    const { text } = await delivered(email.id);
    expect(text).not.toContain("three@example.net");
    expect(text).toContain(`Message-ID: <${email.id}@example.com>`);
  },
);

test("images, files and attached messages arrive as they were attached", async () => {
  const image = Buffer.from("not really an image");
  const large = Buffer.alloc(3_000_000, "0123456789abcdef");
  const attached = `${HEAD}\nan older mail`;
  const { response } = await transport().sendMail({
    ...MAIL,
    html: '<img src="cid:logo@acme">',
    attachments: [
      { filename: "логотип.png", content: image, cid: "logo@acme" },
      { filename: `${"long ".repeat(20)}name.bin`, content: large },
      { contentType: "message/rfc822", content: attached, filename: false },
    ],
  });
  const { id } = await stored(response);
  const [row] = await engine.sql<{ extra: { attachments: Record<string, unknown>[] } }[]>`
    select extra from body where id = ${id}`;
  expect(row?.extra.attachments).toMatchObject([
    { filename: "логотип.png", bytes: image.length, content_type: "image/png", content_id: "logo@acme" },
    { filename: `${"long ".repeat(20)}name.bin`, bytes: large.length },
    { filename: "attachment-3.eml", content_type: "message/rfc822" },
  ]);
  const { text } = await delivered(id);
  expect(text).toContain("Content-ID: <logo@acme>");
  expect(text).toContain(large.toString("base64").slice(0, 76));
});

test("a template, its variables, tags and a time are given in headers, and stay out of the mail", async () => {
  await workspace.client.call("PUT", "/templates/welcome", {
    subject: "Welcome, {{name}}",
    html: "<p>Hello {{name}}</p>",
  });
  const message =
    "From: orders@example.com\nTo: one@example.net\nSubject:\nX-Postrider-Template: welcome\n" +
    'X-Postrider-Variables: {"name":\n "=?utf-8?q?J=C3=BCrgen?="}\nX-Postrider-Tag: kind=welcome\n' +
    "X-Postrider-Tag: team=7\nX-Postrider-Scheduled-At: in 5 minutes\n\n\n";
  const email = await stored(await answered("one@example.net", message));
  expect(email).toMatchObject({
    subject: "Welcome, Jürgen",
    html: "<p>Hello Jürgen</p>",
    tags: [
      { name: "kind", value: "welcome" },
      { name: "team", value: "7" },
    ],
    status: "scheduled",
    headers: null,
  });
});

test("sent again under its key it is sent once, although the client makes it anew", async () => {
  const key = { "Resend-Idempotency-Key": "order-1042" };
  const first = await transport().sendMail({ ...MAIL, headers: key });
  const second = await transport().sendMail({ ...MAIL, headers: key });
  expect(second.messageId).not.toBe(first.messageId);
  expect(idIn(second.response)).toBe(idIn(first.response));
  await expect(transport().sendMail({ ...MAIL, subject: "Other", headers: key })).rejects.toMatchObject({
    responseCode: 554,
    response: expect.stringContaining("was used before with a different request"),
  });
  const without = [await transport().sendMail(MAIL), await transport().sendMail(MAIL)];
  expect(new Set(without.map(({ response }) => idIn(response))).size).toBe(2);
});

test("the envelope decides who gets mail, and the header what is shown", async () => {
  const message =
    "From: orders@example.com\nTo: Team <team@example.net>, one@example.net\nCc: shown@example.org\n" +
    "Bcc: hidden@example.org, nobody@example.org\nSubject: Order\n\nThanks";
  const email = await stored(await answered(["one@example.net", "hidden@example.org"], message));
  expect(email).toMatchObject({ to: ["one@example.net"], cc: [], bcc: ["hidden@example.org"] });
  const { to, text } = await delivered(email.id);
  expect(to).toEqual(expect.arrayContaining(["one@example.net"]));
  expect(stage.sink.ledger.mails.flatMap((mail) => mail.to)).not.toContain("team@example.net");
  expect(text).toContain("To: Team <team@example.net>, one@example.net\r\nCc: shown@example.org\r\n");
  expect(text).not.toContain("hidden@example.org");
});

test("where To names no recipient every recipient counts, and none is shown", async () => {
  const message = "From: orders@example.com\nTo: undisclosed-recipients:;\nSubject: Order\n\nThanks";
  const email = await stored(await answered(["a@example.net", "b@example.net"], message));
  expect(email).toMatchObject({ to: ["a@example.net", "b@example.net"], cc: [], bcc: [] });
  const { text } = await delivered(email.id);
  expect(text).toContain("To: undisclosed-recipients:;\r\n");
  expect(text).not.toContain("a@example.net");
});

test("a person who is erased is shown in no mail that is still to go", async () => {
  const audience = await workspace.client.post<{ id: string }>("/audiences", { name: "All" });
  const contacts = `/audiences/${audience.body.id}/contacts`;
  await workspace.client.post(contacts, { email: "forget@example.org" });
  const message =
    "From: orders@example.com\nTo: one@example.net, forget@example.org\nSubject: Order\n" +
    "X-Postrider-Scheduled-At: in 2 days\n\nThanks";
  const email = await stored(await answered("one@example.net", message));
  await workspace.client.call("DELETE", `${contacts}/forget@example.org?mode=erase`);
  const head = async () => (await engine.sql`select head from email where id = ${email.id}`)[0]?.head;
  await expect.poll(head).toMatchObject({
    to: ["one@example.net"],
    shown: { to: ["one@example.net", "erased-2@erased.invalid"] },
  });
});

test("the client's Message-ID is kept beside that of the engine", async () => {
  const email = await stored(await answered("one@example.net", `${HEAD}Message-ID: <a1@app>\n\nThanks`));
  expect(email).toMatchObject({
    message_id: `<${email.id}@example.com>`,
    headers: { "X-Original-Message-ID": "<a1@app>" },
  });
});

test("commands to the service that was used before are removed", async () => {
  const fields =
    "X-SES-Configuration-Set: main\nX-MS-Exchange-Organization-SCL: -1\nX-SES-Message-Tags: a=b\n";
  const email = await stored(await answered("one@example.net", `${HEAD}${fields}\nThanks`));
  expect(email).toMatchObject({ headers: { "X-SES-Message-Tags": "a=b" } });
});

test("what the API refuses is refused in its words", async () => {
  const refusals: [string, string, string][] = [
    [
      "two senders",
      "From: a@example.com, b@example.com\nTo: one@example.net\nSubject: x\n\nx",
      "must name exactly one address",
    ],
    ["no sender", "To: one@example.net\nSubject: x\n\nx", "Missing `from` field."],
    ["no subject", "From: a@example.com\nTo: one@example.net\n\nx", "Missing `subject` field."],
    [
      "a header that nobody may set",
      `${HEAD}X-SMTPAPI: {}\n\nx`,
      "`headers.X-SMTPAPI` field cannot be given",
    ],
    ["an unknown field of ours", `${HEAD}X-Postrider-Templet: x\n\nx`, "is not known"],
    ["a tag that is none", `${HEAD}X-Postrider-Tag: a b=c\n\nx`, "`tags[0].name` field must be"],
    ["a time that is none", `${HEAD}X-Postrider-Scheduled-At: soon\n\nx`, "`scheduled_at` field must be"],
    ["an unknown template", `${HEAD}X-Postrider-Template: none\n\n`, "The template `none` does not exist"],
    ["text beside a template", `${HEAD}X-Postrider-Template: none\n\nx`, "cannot be given together with"],
    [
      "a text too large",
      `${HEAD}\n${"x".repeat(900)}\n${"y\n".repeat(1_100_000)}`,
      "must have at most 2097152",
    ],
    ["U+0000", `${HEAD}\na\0b`, "The `text` field must not contain U+0000"],
    [
      "a key of the wrong length",
      `${HEAD}Resend-Idempotency-Key:\n\nx`,
      "`Resend-Idempotency-Key` header must",
    ],
    ["an encrypted message", `${HEAD}Content-Type: multipart/encrypted; boundary=b\n\n--b--`, "encrypted"],
  ];
  for (const [what, message, words] of refusals) {
    const answer = await answered("one@example.net", message);
    expect(answer, what).toMatch(/^55[0-9]/);
    expect(answer.replace(/\r\n\d{3}[- ]\S+ /g, " "), what).toContain(words);
  }
});

test("a quota that is used up, and a rate, ask the client to come later", async () => {
  const { key } = (await engine.workspace("pro", { emails_per_month: 1 })).client;
  expect(await answered("one@example.net", `${HEAD}\nx`, key)).toMatch(/^250/);
  expect(await answered("one@example.net", `${HEAD}\nx`, key)).toMatch(
    /^452 4\.5\.3 This request would exceed the monthly quota: 1 of 1 used/,
  );
  const often = await engine.workspace("pro", { requests_per_second: 3, requests_per_minute: 3 });
  const client = await loggedIn(engine.submissionTlsPort, often.client.key);
  const answers: string[] = [];
  // as many again when a minute turns in between
  for (let n = 0; n < 10 && !answers.at(-1)?.startsWith("450"); n++)
    answers.push(await submit(client, "one@example.net", `${HEAD}\nx`));
  expect(answers.at(-1)).toMatch(/^450 4\.7\.1 Too many requests: at most 3 a (second|minute) are allowed\./);
  client.destroy();
});

test("a suppressed recipient is suppressed as with the API", async () => {
  await workspace.client.post("/suppressions", { email: "gone@example.net" });
  const message = HEAD.replace("one@", "gone@");
  const email = await stored(await answered("gone@example.net", `${message}\nx`));
  expect(email.status).toBe("suppressed");
});

test("a recipient may be quoted, and has no parameters", async () => {
  const client = await loggedIn(engine.submissionTlsPort, workspace.client.key);
  expect(await client.say("MAIL FROM:<orders@example.com>")).toMatch(/^250/);
  // none is offered: who asks for no report would believe that none is sent
  for (const parameters of [" NOTIFY=NEVER", " ORCPT=rfc822;one@example.net", "one"])
    expect(await client.say(`RCPT TO:<one@example.net>${parameters}`)).toMatch(/^555 5\.5\.4 /);
  expect(await client.say('RCPT TO:<"one > two"@example.net>')).toMatch(/^553 5\.1\.3 /);
  expect(await client.say('RCPT TO:<"one two"@example.net>')).toMatch(/^250/);
  expect(await client.say("RCPT TO:<three@example.net> ")).toMatch(/^250/);
  await client.say("DATA");
  const email = await stored(await client.say("From: orders@example.com\r\nSubject: Order\r\n\r\nx\r\n."));
  client.destroy();
  expect(email.to).toEqual(['"one two"@example.net', "three@example.net"]);
});
