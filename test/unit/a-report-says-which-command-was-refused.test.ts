/**
 * A refusal of MAIL FROM, or before it, is about us whatever it says; each system has its own words for when
 * it came.
 */
import { describe, expect, test } from "vitest";
import { judge } from "../../src/inbound/judge.ts";
import { classify } from "../../src/outcome/classify.ts";
import type { DueReport } from "../../src/record/mail/reports.ts";
import { replyOf } from "../../src/smtp/reply.ts";
import { costOf } from "../rig/held.ts";

type Group = { recipient: string; status: string; diagnostic?: string; more?: string };

function categoryOf(raw: string, source: DueReport["source"] = "return_path"): string {
  const judged = judge({
    id: "01234567-89ab-7def-8123-456789abcde0",
    source,
    workspaceId: "01234567-89ab-7def-8123-456789abcde1",
    emailId: "01234567-89ab-7def-8123-456789abcde2",
    place: 0,
    network: null,
    raw: Buffer.from(raw.replaceAll("\n", "\r\n")),
    tries: 0,
    receivedAt: new Date(0),
  });
  if (judged.kind !== "told") return judged.kind;
  return judged.told.what.kind === "bounced" ? judged.told.what.category : judged.told.what.kind;
}

/** RFC 3464, with the words for people of any system. */
function report(words: string, ...groups: Group[]): string {
  const fields = groups.map(
    ({ recipient, status, diagnostic, more }) =>
      `\nFinal-Recipient: rfc822; ${recipient}\nAction: failed\nStatus: ${status}\n${diagnostic === undefined ? "" : `Diagnostic-Code: smtp; ${diagnostic}\n`}${more ?? ""}`,
  );
  return `From: MAILER-DAEMON@relay.test (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

${words}

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; relay.test
${fields.join("")}
--b--
`;
}

const SAID: [status: string, reply: string][] = [
  ["5.1.2", "550 5.1.2 Domain not found"],
  ["5.1.1", "550 5.1.1 User unknown"],
  ["5.0.0", "550 Unrouteable address"],
  ["5.0.0", "550 No such user"],
  ["5.0.0", "550 Invalid address"],
  ["5.1.2", "553 5.1.2 Host unknown"],
  ["5.0.0", "550 Domain does not exist"],
  ["5.1.1", "550 5.1.1 <us@shop.test> does not exist"],
];

/** How each says that it was MAIL FROM, and the same of RCPT TO; `REPLY` is what the receiver said. */
const WRITERS: [name: string, atMail: string, atRcpt: string][] = [
  [
    "Postfix",
    "<bob@x.test>: host mx.x.test[192.0.2.1] said: REPLY (in reply to MAIL\n    FROM command)",
    "<bob@x.test>: host mx.x.test[192.0.2.1] said: REPLY (in reply to RCPT\n    TO command)",
  ],
  [
    "Postfix, on one line",
    "<bob@x.test>: host mx.x.test said: REPLY (in reply to MAIL FROM command)",
    "<bob@x.test>: host mx.x.test said: REPLY (in reply to RCPT TO command)",
  ],
  [
    "Exim",
    "A message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  bob@x.test\n    host mx.x.test [192.0.2.1]\n    SMTP error from remote mail server after MAIL FROM:<us@shop.test> SIZE=1234:\n    REPLY",
    "A message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  bob@x.test\n    host mx.x.test [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<bob@x.test>:\n    REPLY",
  ],
  [
    "Exim, pipelined",
    "A message that you sent could not be delivered to one or more of its recipients. The following address(es) failed:\n\n  bob@x.test\n    SMTP error from remote mail server after pipelined MAIL FROM:<us@shop.test>:\n    REPLY",
    "A message that you sent could not be delivered to one or more of its recipients. The following address(es) failed:\n\n  bob@x.test\n    SMTP error from remote mail server after pipelined RCPT TO:<bob@x.test>:\n    REPLY",
  ],
  [
    "Sendmail",
    "   ----- The following addresses had permanent fatal errors -----\n<bob@x.test>\n    (reason: REPLY)\n\n   ----- Transcript of session follows -----\n... while talking to mx.x.test.:\n>>> MAIL From:<us@shop.test> SIZE=1234\n<<< REPLY\n501 5.6.0 Data format error",
    "   ----- The following addresses had permanent fatal errors -----\n<bob@x.test>\n    (reason: REPLY)\n\n   ----- Transcript of session follows -----\n... while talking to mx.x.test.:\n>>> RCPT To:<bob@x.test>\n<<< REPLY\n550 5.1.1 <bob@x.test>... User unknown",
  ],
  [
    "Courier",
    "UNDELIVERABLE MAIL\n\n<bob@x.test>:\n     mx.x.test [192.0.2.1]:\n     >>> MAIL FROM:<us@shop.test> BODY=7BIT\n     <<< REPLY",
    "UNDELIVERABLE MAIL\n\n<bob@x.test>:\n     mx.x.test [192.0.2.1]:\n     >>> RCPT TO:<bob@x.test>\n     <<< REPLY",
  ],
  [
    "qmail",
    "Hi. This is the qmail-send program at relay.test.\n\n<bob@x.test>:\nConnected to 192.0.2.1 but sender was rejected.\nRemote host said: REPLY",
    "Hi. This is the qmail-send program at relay.test.\n\n<bob@x.test>:\n192.0.2.1 does not like recipient.\nRemote host said: REPLY\nGiving up on 192.0.2.1.",
  ],
  [
    "GMX, kundenserver",
    "The following address failed:\n\nbob@x.test:\nSMTP error from remote server for MAIL FROM command, host: mx.x.test (192.0.2.1) reason: REPLY",
    "The following address failed:\n\nbob@x.test:\nSMTP error from remote server for RCPT TO command, host: mx.x.test (192.0.2.1) reason: REPLY",
  ],
  [
    "DragonFly Mail Agent",
    "This is the DragonFly Mail Agent v0.13 at relay.test.\n\nThere was an error delivering your mail to <bob@x.test>.\n\nmx.x.test [192.0.2.1] did not like our MAIL FROM:\nREPLY\n\nMessage headers follow.",
    "This is the DragonFly Mail Agent v0.13 at relay.test.\n\nThere was an error delivering your mail to <bob@x.test>.\n\nmx.x.test [192.0.2.1] did not like our RCPT TO:\nREPLY\n\nMessage headers follow.",
  ],
  [
    "MDaemon",
    "The attached message had PERMANENT fatal delivery errors!\n\nFailed address: bob@x.test\n\n--- Session Transcript ---\n Sat 2026-11-21 12:00:00: <-- 220 mx.x.test ESMTP\n Sat 2026-11-21 12:00:01: --> MAIL From:<us@shop.test> SIZE=1234\n Sat 2026-11-21 12:00:01: <-- REPLY\n--- End Transcript ---",
    "The attached message had PERMANENT fatal delivery errors!\n\nFailed address: bob@x.test\n\n--- Session Transcript ---\n Sat 2026-11-21 12:00:00: --> MAIL From:<us@shop.test>\n Sat 2026-11-21 12:00:00: <-- 250 ok\n Sat 2026-11-21 12:00:01: --> RCPT To:<bob@x.test>\n Sat 2026-11-21 12:00:01: <-- REPLY\n--- End Transcript ---",
  ],
  [
    "hMailServer",
    "Your message did not reach some or all of the intended recipients.\n\n   bob@x.test\n   Error Type: SMTP\n   Remote server (192.0.2.1) issued an error.\n   hMailServer sent: MAIL FROM:<us@shop.test>\n   Remote server replied: REPLY",
    "Your message did not reach some or all of the intended recipients.\n\n   bob@x.test\n   Error Type: SMTP\n   Remote server (192.0.2.1) issued an error.\n   hMailServer sent: RCPT TO:<bob@x.test>\n   Remote server replied: REPLY",
  ],
];

describe.each(WRITERS)("%s", (_, atMail, atRcpt) => {
  test.each(SAID)("%s, %s", (status, reply) => {
    const said = { recipient: "bob@x.test", status, diagnostic: reply };
    expect(categoryOf(report(atMail.replaceAll("REPLY", reply), said))).toBe("block");
    expect(categoryOf(report(atRcpt.replaceAll("REPLY", reply), said))).toBe("hard");
  });

  test("without a Diagnostic-Code, and without a report of RFC 3464", () => {
    const reply = "550 5.1.1 User unknown";
    const group = { recipient: "bob@x.test", status: "5.1.1" };
    const bare = (words: string) =>
      `From: MAILER-DAEMON@relay.test\nSubject: Undelivered Mail Returned to Sender\n\n${words.replaceAll("REPLY", reply)}\n`;
    expect(categoryOf(report(atMail.replaceAll("REPLY", reply), group))).toBe("block");
    expect(categoryOf(bare(atMail))).toBe("block");
    expect(categoryOf(report(atRcpt.replaceAll("REPLY", reply), group))).toBe("hard");
    expect(categoryOf(bare(atRcpt))).toBe("hard");
  });
});

test.each([
  "host mx.x.test refused to talk to me: 550 No such user",
  "host mx.x.test said: 550 Host unknown (in reply to EHLO command)",
  "SMTP error from remote mail server after HELO relay.test: 550 Host unknown",
  "SMTP error from remote mail server after initial connection: 550 Domain does not exist",
  "Connected to 192.0.2.1 but my name was rejected.\nRemote host said: 550 Host unknown",
])("before MAIL FROM it is about us as well: %s", (words) => {
  const diagnostic = /550.*/.exec(words)?.[0]?.replace(/ \(.*/, "") ?? "";
  const raw = report(`<bob@x.test>: ${words}`, { recipient: "bob@x.test", status: "5.1.2", diagnostic });
  expect(categoryOf(raw)).toBe("block");
});

test("the command may stand in a field of the report", () => {
  const said = { recipient: "bob@x.test", status: "5.0.0", diagnostic: "550 Unrouteable address" };
  const more =
    "X-Exim-Diagnostic: X-str; SMTP error from remote mail server after MAIL FROM:<us@shop.test>\n";
  expect(categoryOf(report("It failed.", said))).toBe("hard");
  expect(categoryOf(report("It failed.", { ...said, more }))).toBe("block");
});

test("of several recipients each has the command of its own words", () => {
  const gone = { recipient: "gone@y.test", status: "5.1.1", diagnostic: "550 5.1.1 no such user" };
  const bob = { recipient: "bob@x.test", status: "5.1.2", diagnostic: "550 5.1.2 Domain not found" };
  const words = [
    "<gone@y.test>: host mx.y.test said: 550 5.1.1 no such user (in reply to RCPT TO\n    command)",
    "<bob@x.test>: host mx.x.test said: 550 5.1.2 Domain not found (in reply to MAIL FROM\n    command)",
  ];
  // the mildest counts, since either may be ours
  expect(categoryOf(report(words.join("\n\n"), gone, bob))).toBe("block");
  const both = words.map((one) => one.replace("MAIL FROM", "RCPT TO"));
  expect(categoryOf(report(both.join("\n\n"), gone, bob))).toBe("hard");
});

test("of several recipients in a transcript each has the command that got its reply", () => {
  const gone = { recipient: "gone@y.test", status: "5.1.1", diagnostic: "550 5.1.1 no such user" };
  const other = { recipient: "other@y.test", status: "5.1.1", diagnostic: "550 5.1.1 no such user" };
  const words = (command: string) =>
    `   ----- The following addresses had permanent fatal errors -----\n<gone@y.test>\n<other@y.test>\n\n   ----- Transcript of session follows -----\n... while talking to mx.y.test.:\n>>> ${command}:<a@y.test>\n<<< 550 5.1.1 no such user\n550 5.1.1 <gone@y.test>... User unknown`;
  expect(categoryOf(report(words("RCPT To"), gone, other))).toBe("hard");
  expect(categoryOf(report(words("MAIL From"), gone, other))).toBe("block");
});

test("feedback of a smarthost that quotes the command", () => {
  const said = (detail: string) =>
    JSON.stringify({ type: "bounce", recipient: "bob@x.test", category: null, detail, at: null });
  expect(categoryOf(said("550 5.1.1 User unknown (in reply to MAIL FROM command)"), "api")).toBe("block");
  expect(categoryOf(said("550 5.1.1 User unknown (in reply to RCPT TO command)"), "api")).toBe("hard");
});

test("in our own conversation a refusal of MAIL is never hard, whatever its code", () => {
  for (const said of [
    "550 5.1.1 no such user",
    "552 no such user",
    "550 5.1.7 unknown user",
    "552 5.1.2 Domain not found",
  ]) {
    const outcome = classify(replyOf("mail", Number(said.slice(0, 3)), said), false, "receivers");
    expect(outcome.kind === "bounced" ? outcome.category : outcome.kind).not.toBe("hard");
  }
});

test("a hostile report takes no time", () => {
  for (const one of [
    ">>> MAIL FROM ",
    "in reply to ",
    "<<< 5",
    ">>> MAIL F\n",
    "for MAIL ",
    "after\n",
    "sent: DATA\n<<< 5\n",
  ]) {
    const raw = report(one.repeat(60_000), {
      recipient: "bob@x.test",
      status: "5.1.1",
      diagnostic: "550 no",
    });
    expect(costOf(() => categoryOf(raw), 300)).toBeLessThan(300);
  }
});
