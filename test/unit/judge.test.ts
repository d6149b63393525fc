/** What a report comes to for the copy of a mail that its return path stands for. */
import { expect, test } from "vitest";
import { judge } from "../../src/inbound/judge.ts";
import type { DueReport } from "../../src/record/mail/reports.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { arf, dsn } from "../rig/reports.ts";

function report(raw: string, more: Partial<DueReport> = {}): DueReport {
  return {
    id: "01234567-89ab-7def-8123-456789abcde0",
    source: "return_path",
    workspaceId: "01234567-89ab-7def-8123-456789abcde1",
    emailId: "01234567-89ab-7def-8123-456789abcde2",
    place: 0,
    network: null,
    raw: Buffer.from(raw),
    tries: 0,
    receivedAt: new Date(0),
    ...more,
  };
}

const CATEGORIES: [status: string, diagnostic: string, category: string][] = [
  ["5.1.1", "smtp; 550 5.1.1 no such user", "hard"],
  ["5.2.2", "smtp; 552 5.2.2 mailbox full", "soft"],
  ["5.7.1", "smtp; 550 5.7.1 blocked", "block"],
  // nobody tries again, and the address may be fine
  ["4.4.7", "smtp; 451 4.4.1 delivery time expired", "soft"],
  ["4.7.0", "smtp; 421 4.7.0 try later", "soft"],
  // of whoever relays for us, not of the recipient
  ["5.7.1", "smtp; 554 5.7.1 relaying denied", "block"],
];

test.each(CATEGORIES)("a failure with %s and %s counts as %s", (status, diagnostic, category) => {
  const judged = judge(report(dsn({ recipient: "a@example.net", status, diagnostic })));
  expect(judged).toMatchObject({ kind: "told", told: { what: { kind: "bounced", category }, place: 0 } });
});

test.each([false, true])(
  "a full mailbox beside a missing one suppresses nobody, in either order: %s",
  (isTurned) => {
    const groups = [
      ["gone@example.net", "5.1.1", "smtp; 550 5.1.1 no such user"],
      ["full@example.net", "5.2.2", "smtp; 552 5.2.2 mailbox full"],
    ] as [string, string, string][];
    const [[recipient, status, diagnostic], [other, statusOfOther, diagnosticOfOther]] = (
      isTurned ? groups.reverse() : groups
    ) as [[string, string, string], [string, string, string]];
    const raw = dsn({ recipient, status, diagnostic }).replace(
      "--r1\r\nContent-Type: message/rfc822",
      `Final-Recipient: rfc822; ${other}\r\nAction: failed\r\nStatus: ${statusOfOther}\r\nDiagnostic-Code: ${diagnosticOfOther}\r\n\r\n--r1\r\nContent-Type: message/rfc822`,
    );
    expect(judge(report(raw))).toMatchObject({
      told: {
        what: { category: "soft" },
        detail: expect.stringContaining("mailbox full"),
        onlyFor: [recipient, other],
      },
    });
  },
);

test("a delay is no bounce, and a success is nothing", () => {
  const delay = judge(report(dsn({ recipient: "a@example.net", action: "delayed", status: "4.4.1" })));
  expect(delay).toMatchObject({ told: { what: { kind: "delayed" } } });
  for (const action of ["delivered", "relayed", "expanded"])
    expect(judge(report(dsn({ recipient: "a@example.net", action, status: "2.0.0" })))).toEqual({
      kind: "ignored",
      reason: "it reports no failure",
    });
});

function passedOn(header: string): string {
  const inner = dsn({ recipient: "a@example.net", original: `${header}\r\nSubject: Order 1\r\n\r\nThanks` });
  return `From: Anna <anna@example.net>\nSubject: Fwd: Undelivered Mail\nContent-Type: multipart/mixed; boundary=o\n\n--o\n\nWhat is this?\n--o\nContent-Type: message/rfc822\n\n${inner}\n--o--\n`;
}

test("a report that somebody passes on counts only when it shows this e-mail", () => {
  const { emailId } = report("");
  const foreign = { kind: "ignored", reason: "it was passed on and does not show this e-mail" };
  expect(judge(report(passedOn("Message-ID: <other@shop.example>")))).toEqual(foreign);
  expect(judge(report(passedOn("X-Note: nothing")))).toEqual(foreign);
  expect(judge(report(passedOn(`Message-ID: <${emailId}@shop.example>`)))).toMatchObject({
    told: { what: { kind: "bounced", category: "hard" } },
  });
  const path = new ReturnPathKey("secret").write({ handle: "aaaaaaaa", emailId: emailId ?? "", place: 0 }, 0);
  expect(judge(report(passedOn(`Return-Path: <${path}@bounces.example>`)))).toMatchObject({ kind: "told" });
  // Outlook attaches the parts of the report to the answer itself
  const flat = dsn({ recipient: "a@example.net" })
    .replace(/^From: .*/m, "From: Anna <anna@example.net>")
    .replace("Auto-Submitted: auto-replied\r\n", "")
    .replace(/^Subject: .*/m, "Subject: WG: Unzustellbar");
  expect(judge(report(flat))).toEqual(foreign);
});

test("a complaint that somebody passes on counts only when it shows this e-mail", () => {
  const { emailId } = report("");
  const inner = (id: string) => arf({ header: [`Message-ID: <${id}@shop.example>`] });
  const outer = (id: string) =>
    `From: anna@example.net\nSubject: Fwd: abuse\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: message/rfc822\n\n${inner(id)}\n--o--\n`;
  expect(judge(report(outer("other")))).toMatchObject({ kind: "ignored" });
  expect(judge(report(outer(emailId ?? "")))).toMatchObject({ told: { what: { kind: "complained" } } });
});

test("a return path of a workspace that is gone is nothing", () => {
  expect(judge(report(dsn({ recipient: "a@example.net" }), { workspaceId: null }))).toEqual({
    kind: "ignored",
    reason: "there is no such workspace",
  });
});

test("a feedback address takes no delivery reports", () => {
  for (const raw of [
    dsn({ recipient: "a@example.net" }),
    "From: mailer-daemon@x\nSubject: failure notice\n\nUser unknown\n",
  ])
    expect(judge(report(raw, { source: "feedback_address" }))).toEqual({
      kind: "ignored",
      reason: "a feedback address takes complaints, and this is a delivery report",
    });
});

const FEEDBACK: [said: object, what: object][] = [
  [{ type: "bounce" }, { kind: "bounced", category: "hard" }],
  [
    { type: "bounce", category: "block" },
    { kind: "bounced", category: "block" },
  ],
  [
    { type: "bounce", detail: "552 5.2.2 mailbox full" },
    { kind: "bounced", category: "soft" },
  ],
  [{ type: "complaint", category: "hard" }, { kind: "complained" }],
];

test.each(FEEDBACK)("feedback %j", (said, what) => {
  const raw = JSON.stringify({ recipient: "a@example.net", category: null, detail: null, at: null, ...said });
  expect(judge(report(raw, { source: "api", place: null }))).toMatchObject({
    told: { what, recipient: "a@example.net" },
  });
});
