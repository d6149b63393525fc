import { expect, test } from "vitest";
import { type ReadReport, readReport } from "../../src/inbound/report.ts";
import { samples, samplesMissing } from "../rig/flufl.ts";
import { arf, dsn } from "../rig/reports.ts";

const read = (message: string, to: "return path" | "feedback address" = "return path"): ReadReport =>
  readReport(Buffer.from(message.replace(/\r?\n/g, "\r\n")), to);

function fatesOf(report: ReadReport) {
  if (report.kind !== "delivery") throw new Error(JSON.stringify(report));
  return report.fates;
}

test("a report of RFC 3464 says whom, what, why and who said so", () => {
  expect(fatesOf(read(dsn({ recipient: "Gone@Example.net" })))).toEqual([
    {
      recipient: "gone@example.net",
      action: "failed",
      status: "5.1.1",
      code: 550,
      text: "550 5.1.1 no such user",
      remote: "store.example.net",
    },
  ]);
});

test.each([
  ["smtp; <info250@example.com>: 550 5.1.1 User unknown", 550, "5.1.1"],
  ["smtp; <a+450@example.com>: 550-5.1.1 no such user", 550, "5.1.1"],
  ["smtp; host mx450.example.net said: 552 5.2.2 full", 552, "5.2.2"],
  ["smtp; <250@example.com>: no such user", null, "5.0.0"],
])("digits of an address or a host are no code: %s", (diagnostic, code, status) => {
  const fates = fatesOf(read(dsn({ recipient: "a@example.com", status: "5.0.0", diagnostic })));
  expect(fates).toMatchObject([{ code, status }]);
});

test("several recipients, each with an action of its own, and fields of any case and folding", () => {
  const report = dsn({ recipient: "a@example.net" }).replace(
    "--r1\r\nContent-Type: message/rfc822",
    [
      "FINAL-RECIPIENT: RFC822;b@example.net",
      "ACTION: Delayed (will retry)",
      "STATUS: 4.4.1 (no answer from host)",
      "DIAGNOSTIC-CODE: X-Postfix;",
      "\tconnect to mx2.example.net[192.0.2.1]:25:",
      "  Connection timed out",
      "",
      "Final-Recipient: rfc822; c@example.net",
      "Action: relayed",
      "Status: 2.1.9",
      "",
      "Original-Recipient: rfc822;d@example.net",
      "Final-Recipient: rfc822;d@store.example.net",
      "Action: expanded",
      "Status: 2.0.0",
      "",
      "--r1",
      "Content-Type: message/rfc822",
    ].join("\r\n"),
  );
  const fates = fatesOf(read(report));
  expect(fates.map(({ recipient, action, status }) => [recipient, action, status])).toEqual([
    ["a@example.net", "failed", "5.1.1"],
    ["b@example.net", "delayed", "4.4.1"],
    ["c@example.net", "relayed", "2.1.9"],
    ["d@example.net", "expanded", "2.0.0"],
  ]);
  expect(fates[1]?.text).toBe("connect to mx2.example.net[192.0.2.1]:25: Connection timed out");
});

test("a general status gives way to the reply that is quoted", () => {
  const [fate] = fatesOf(
    read(dsn({ recipient: "a@x.example", status: "5.0.0", diagnostic: "smtp; 550 5.2.1 disabled" })),
  );
  expect(fate).toMatchObject({ status: "5.2.1", code: 550 });
});

test("a report within a forwarded message is read, one that our own mail quotes is not", () => {
  const inner = dsn({ recipient: "inner@example.net" });
  const forwarded = `Subject: Fwd\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="outer"\n\n--outer\n\nsee below\n--outer\nContent-Type: message/rfc822\n\n${inner}\n--outer--\n`;
  expect(fatesOf(read(forwarded))[0]?.recipient).toBe("inner@example.net");
  const quoting = dsn({ recipient: "outer@example.net", original: inner.replaceAll("r1", "r2") });
  expect(fatesOf(read(quoting)).map(({ recipient }) => recipient)).toEqual(["outer@example.net"]);
});

test("a status part in base64 is read", () => {
  const status = Buffer.from(
    "Reporting-MTA: dns; a.example\r\n\r\nFinal-Recipient: rfc822; b@x.example\r\nStatus: 5.1.1\r\n",
  );
  const message = `Content-Type: multipart/report; boundary=q\n\n--q\nContent-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\n${status.toString("base64")}\n--q--\n`;
  expect(fatesOf(read(message))).toMatchObject([
    { recipient: "b@x.example", action: "failed", status: "5.1.1" },
  ]);
});

test.each([
  ["as 7-bit text (RFC 6533)", "utf-8; j\\x{F8}ran@b\\x{FC}cher.example", "jøran@bücher.example"],
  [
    "with an escape of no character",
    "utf-8; j\\x{110000}\\x{D800}@x.example",
    "j\\x{110000}\\x{d800}@x.example",
  ],
  ["with an escape of what ends it", "utf-8; j\\x{3E}\\x{A}@x.example", "j\\x{3e}\\x{a}@x.example"],
  ["with an escape of its plus sign", "utf-8; j\\x{2B}\\x{F8}@x.example", "j+ø@x.example"],
  ["of ASCII that looks like an escape", "rfc822; j\\x{F8}ran@x.example", "j\\x{f8}ran@x.example"],
])("an address %s is read", (_, given, recipient) => {
  const report = dsn({ recipient: "a@x.example" }).replace(/-Recipient: rfc822;.*/g, `-Recipient: ${given}`);
  expect(fatesOf(read(report))).toMatchObject([{ recipient, code: 550 }]);
});

test.each([
  ["as in RCPT", "bob+2Btag+3D1@x.example", "", "bob+tag=1@x.example"],
  ["as in RCPT, with what looks like another escape", "bob+2B3D@x.example", "", "bob+3d@x.example"],
  ["as in RCPT, beside the one that failed", "bob+2Btag@x.example", "bob+tag@x.example", "bob+tag@x.example"],
  ["with a tag that looks so, beside the same", "bob+2B@x.example", "bob+2B@x.example", "bob+2b@x.example"],
  ["with another tag", "bob+2026@x.example", "", "bob+2026@x.example"],
  ["with a tag in lower case", "bob+2b@x.example", "", "bob+2b@x.example"],
])("an original recipient %s is read", (_, original, final, recipient) => {
  const shown = final === "" ? "X-Nothing: here" : `Final-Recipient: rfc822;${final}`;
  const report = dsn({ recipient: "a@x.example" })
    .replace(/Final-Recipient: rfc822;.*/, shown)
    .replace(/Original-Recipient: rfc822;.*/, `Original-Recipient: rfc822;${original}`);
  const [fate] = fatesOf(read(report));
  expect(fate).toMatchObject({ recipient, code: 550 });
  expect(fate).not.toHaveProperty("behind");
});

test("a comment beside an encoding or a type is no part of it", () => {
  const status = Buffer.from("Final-Recipient: rfc822; b@x.example\r\nStatus: 5.1.1\r\n").toString("base64");
  const message = `Content-Type: (first) multipart/report (of RFC 6522); boundary=q\n\n--q\nContent-Type: message/delivery-status (RFC 3464)\nContent-Transfer-Encoding: Base64 (RFC 2045)\n\n${status}\n--q--\n`;
  expect(fatesOf(read(message))).toMatchObject([{ recipient: "b@x.example", status: "5.1.1" }]);
});

test.each([
  ["another boundary", "boundary=other"],
  ["no boundary", "charset=utf-8"],
])("a header with %s is read by the boundary in the body", (_, parameter) => {
  const message = dsn({ recipient: "a@x.example" }).replace('boundary="r1"', parameter);
  expect(fatesOf(read(message))).toMatchObject([{ recipient: "a@x.example", code: 550 }]);
});

test("lines that end with a carriage return alone are lines", () => {
  const message = dsn({ recipient: "a@x.example" }).replace(/\r?\n/g, "\r");
  expect(fatesOf(readReport(Buffer.from(message), "return path"))).toMatchObject([
    { recipient: "a@x.example", code: 550 },
  ]);
});

test.each([
  [
    "in a field of Exchange's",
    'X-Supplementary-Info: <192.0.2.1 #5.0.0 smtp; 550 "Unknown user">',
    '550 "Unknown user"',
  ],
  [
    "in several fields",
    "Diagnostic-Code: x-local; failed\nDiagnostic-Code: smtp; 552 5.2.2 full",
    "failed 552 5.2.2 full",
  ],
])("what was said is read %s", (_, said, text) => {
  const status = `Final-Recipient: rfc822; a@x.example\nAction: failed\nStatus: 5.0.0\n${said}\n`;
  const message = `Content-Type: multipart/report; boundary=q\n\n--q\nContent-Type: message/delivery-status\n\n${status}\n--q--\n`;
  expect(fatesOf(read(message))).toMatchObject([{ recipient: "a@x.example", text }]);
});

test("the address that led to one that failed is nobody's fate", () => {
  const words =
    "  ----- The following addresses had permanent fatal errors -----\n<a@x.example>\n    (reason: 550 5.1.1 User unknown)\n    (expanded from: <list@x.example>)\n";
  const message = `From: MAILER-DAEMON@x.example\nSubject: Returned mail\n\n${words}`;
  expect(fatesOf(read(message)).map(({ recipient }) => recipient)).toEqual(["a@x.example"]);
});

test("words are read in the charset that they are in", () => {
  const words = Buffer.from("<a@x.example>: 宛先不明", "utf8").toString("latin1");
  const japanese = "<a@x.example>: \u001b$B08@hITL@\u001b(B";
  const header = "From: MAILER-DAEMON@x.example\nSubject: failure\n";
  for (const [charset, text] of [
    ["iso-8859-1", words],
    ["iso-2022-jp", japanese],
  ] as const) {
    const message = `${header}Content-Type: text/plain; charset=${charset}\n\nDelivery failed\n${text}\n`;
    const [fate] = fatesOf(readReport(Buffer.from(message, "latin1"), "return path"));
    expect(fate?.text).toContain("宛先不明");
  }
});

const WORDS: [
  writer: string,
  message: string,
  recipient: string | null,
  action: string,
  code: number | null,
][] = [
  [
    "qmail",
    "From: MAILER-DAEMON@mx.example\nSubject: failure notice\n\nHi. This is the qmail-send program at mx.example.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n<gone@x.example>:\n192.0.2.7 does not like recipient.\nRemote host said: 550 5.1.1 no mailbox here\nGiving up on 192.0.2.7.\n\n--- Below this line is a copy of the message.\n\nTo: other@y.example\n",
    "gone@x.example",
    "failed",
    550,
  ],
  [
    "Exim",
    "From: Mail Delivery System <Mailer-Daemon@mx.example>\nX-Failed-Recipients: gone@x.example\nAuto-Submitted: auto-replied\nSubject: Mail delivery failed: returning message to sender\n\nThis message was created automatically by mail delivery software.\n\nA message that you sent could not be delivered to one or more of its\nrecipients. The following address(es) failed:\n\n  gone@x.example\n    host mx.x.example [192.0.2.9]\n    SMTP error from remote mail server after RCPT TO:<gone@x.example>:\n    550 Unrouteable address\n\n------ This is a copy of the message, including all the headers. ------\n\nTo: other@y.example\n",
    "gone@x.example",
    "failed",
    550,
  ],
  [
    "Exim, while it tries",
    "From: Mail Delivery System <Mailer-Daemon@mx.example>\nAuto-Submitted: auto-replied\nSubject: Warning: message delayed 24 hours\n\nA message that you sent has not yet been delivered to one or more of its\nrecipients after more than 24 hours on the queue.\n\nThe address to which the message has not yet been delivered is:\n\n  slow@x.example\n\nNo action is required on your part.\n",
    "slow@x.example",
    "delayed",
    null,
  ],
  [
    "Postfix, its words alone",
    "From: MAILER-DAEMON@mx.example (Mail Delivery System)\nSubject: Undelivered Mail Returned to Sender\n\nThis is the mail system at host mx.example.\n\n<gone@x.example>: host mx.x.example[192.0.2.1] said: 552 5.2.2 mailbox full (in\n    reply to RCPT TO command)\n",
    "gone@x.example",
    "failed",
    552,
  ],
  [
    "Yahoo of old",
    "From: MAILER-DAEMON@yahoo.com\nSubject: Delivery failure\n\nMessage from yahoo.com.\nUnable to deliver message to the following address(es).\n\n<gone@yahoo.com>:\nThis user doesn't have a yahoo.com account (gone@yahoo.com)\n\n--- Original message follows.\n\nTo: other@y.example\n",
    "gone@yahoo.com",
    "failed",
    null,
  ],
  [
    "AOL of old",
    "From: Mail Delivery Subsystem <MAILER-DAEMON@aol.com>\nSubject: Returned mail: User unknown\n\n   ----- The following addresses had permanent fatal errors -----\n<gone@aol.com>\n\n   ----- Transcript of session follows -----\n... while talking to air-xx.mail.aol.com.:\n>>> RCPT To:<gone@aol.com>\n<<< 550 MAILBOX NOT FOUND\n",
    "gone@aol.com",
    "failed",
    550,
  ],
  [
    "old Exchange",
    "From: System Administrator <postmaster@x.example>\nSubject: Undeliverable: Order 1\n\nYour message\n\n  To:      Somebody\n  Subject: Order 1\n\ndid not reach the following recipient(s):\n\ngone@x.example on Mon, 2 Nov 2026 10:00:00\n    The recipient name is not recognized\n",
    "gone@x.example",
    "failed",
    null,
  ],
  [
    "one that names nobody",
    "From: <MAILER-DAEMON@x.example>\nSubject: failure notice\n\nUser unknown.\n",
    null,
    "failed",
    null,
  ],
];

test.each(WORDS)("in words: %s", (_, message, recipient, action, code) => {
  expect(fatesOf(read(message))).toMatchObject([{ recipient, action, code }]);
});

const NO_REPORTS: [what: string, message: string][] = [
  [
    "a vacation reply",
    "From: a@x.example\nAuto-Submitted: auto-replied\nSubject: Away\n\nDelivery failed, I am away.\n",
  ],
  ["one by its subject", "From: a@x.example\nSubject: Automatic reply: Order 1\n\nI am out of the office.\n"],
  [
    "somebody who answers",
    "From: a@x.example\nSubject: Re: Order 1\n\nMy order could not be delivered to <b@y.example>!\n",
  ],
  [
    "a mail system that is away",
    "From: postmaster@x.example\nAuto-Submitted: auto-replied\nSubject: Out of office: Order 1\n\nNot delivered to me until Monday.\n",
  ],
  [
    "a receipt",
    "From: a@x.example\nSubject: Not read: Delivery failed\nContent-Type: multipart/report; report-type=disposition-notification; boundary=r\n\n--r\n\nThe delivery failed to be read.\n--r\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; a@x.example\nDisposition: automatic-action/MDN-sent-automatically; deleted\n--r--\n",
  ],
  ["nothing", ""],
  ["a header alone", "Subject: x"],
  [
    "a parcel service",
    "From: Parcel Delivery <service@parcels.example>\nSubject: Delivery failed: your parcel 550 201\n\nThe parcel could not be delivered: address unknown. Your account is full of news.\n",
  ],
  [
    "a person whose name sounds like a mail system",
    "From: Mail Delivery Smith <smith@x.example>\nSubject: delivery problem\n\nMy order failed: it was returned to sender, recipient unknown!\n",
  ],
  [
    "a person who quotes a bounce",
    "From: a@x.example\nSubject: Delivery Status Notification (Failure)\n\nI got this, what is it?\n\n> This is the mail system at host mx.example.\n> <b@y.example>: 550 5.1.1 user unknown\n",
  ],
  [
    "a person who passes a bounce on as text",
    "From: a@x.example\nSubject: Fwd: Undelivered Mail Returned to Sender\n\nThis is the mail system at host mx.example.\n\n<b@y.example>: host mx.y.example said: 550 5.1.1 user unknown\n",
  ],
  [
    "a postmaster who answers",
    "From: Postmaster <postmaster@x.example>\nSubject: Re: Order 1\n\nI am sorry, your order failed.\n",
  ],
  [
    "somebody away, in encoded words",
    "From: postmaster@x.example\nAuto-Submitted: auto-replied\nSubject: =?iso-2022-jp?B?GyRCPCtGMEpWPy4bKEI=?=\n\nMail could not be delivered.\n",
  ],
];

test.each(NO_REPORTS)("no report: %s", (_, message) => {
  expect(read(message).kind).toBe("ignored");
});

test("a success report changes nothing, and is read as one", () => {
  const [fate] = fatesOf(read(dsn({ recipient: "a@x.example", action: "delivered", status: "2.0.0" })));
  expect(fate).toMatchObject({ action: "delivered" });
});

test("complaints: RFC 5965, as Yahoo and Microsoft write them, and with the header alone", () => {
  const path = "a".repeat(56);
  const header = [
    `Return-Path: <${path}@bounces.x.example>`,
    "Message-ID: <id@x.example>",
    "X-Postrider-Mark: abc",
  ];
  expect(read(arf({ recipient: "<Cross@yahoo.com>", header }))).toEqual({
    kind: "complaint",
    complaint: {
      feedbackType: "abuse",
      recipient: "cross@yahoo.com",
      messageId: "<id@x.example>",
      mark: "abc",
      paths: [path],
    },
    passedOn: null,
  });
  const jmrp = `From: staff@hotmail.com\nSubject: complaint about message from 192.0.2.1\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=j\n\n--j\nContent-Type: message/rfc822\n\nX-HmXmrOriginalRecipient: cross@outlook.com\n${header.join("\n")}\n\nhello\n--j--\n`;
  expect(read(jmrp, "feedback address")).toMatchObject({
    kind: "complaint",
    complaint: { recipient: "cross@outlook.com", messageId: "<id@x.example>", paths: [path] },
  });
  expect(read(jmrp, "return path").kind).toBe("ignored");
  const away = jmrp.replace("complaint about message from 192.0.2.1", "Automatic reply: Order 1");
  expect(read(away, "feedback address")).toEqual({ kind: "ignored", reason: "an automatic reply" });
  const commented = arf({ header }).replace(/Feedback-Type:.*/i, "Feedback-Type: auth-failure (dmarc)");
  expect(read(commented)).toEqual({ kind: "ignored", reason: "feedback of the type auth-failure" });
  const headerAlone = arf({ header }).replace(
    "Content-Type: message/rfc822",
    "Content-Type: text/rfc822-headers",
  );
  expect(read(headerAlone)).toMatchObject({ complaint: { messageId: "<id@x.example>", mark: "abc" } });
});

test("of the samples of another project nearly all are read as that reads them", (context) => {
  const missing = samplesMissing();
  if (missing) return context.skip(missing);
  const known = samples().filter(({ recipients }) => recipients.length > 0);
  const isRead = known.filter(({ message }) => readReport(message, "return path").kind === "delivery");
  const isSame = known.filter(({ message, recipients }) => {
    const report = readReport(message, "return path");
    const found = report.kind === "delivery" ? report.fates.map(({ recipient }) => recipient) : [];
    return recipients.every((one) => found.includes(one));
  });
  expect(isRead.length / known.length).toBeGreaterThan(0.96);
  expect(isSame.length / known.length).toBeGreaterThan(0.9);
});
