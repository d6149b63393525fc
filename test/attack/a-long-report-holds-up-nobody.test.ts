/**
 * A report of 128 KB names a hundred recipients, and its words for people are as long as words may be. What
 * they say is looked for once, and not again for every recipient.
 */
import { expect, test } from "vitest";
import { readReport } from "../../src/inbound/report.ts";
import { costOf } from "../rig/held.ts";

const HELD_MS_MAX = 50;
const WORDS_CHARS = 63_000;
const REPORT_BYTES_MAX = 128 * 1024;

const filled = (piece: string) => piece.repeat(Math.ceil(WORDS_CHARS / piece.length)).slice(0, WORDS_CHARS);
const each = (count: number, write: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => write(n));

/** What may say at which command a refusal came, and never does. */
const PIECES = [
  ...[">>>DATA", "-->RCPT T", "sent:EHLO\n", ">>>DATA\n   replied:", `>>> DATA${"x".repeat(590)}\n`],
  ...["to  ", "to the SMTP command ", " to  the  SMTP  command  pipelined  ", "MAIL F", "(expanded from: "],
  ...[
    "generated from ",
    "destinataire x x x ",
    "no se ha podido ser ",
    `<${"a".repeat(64)}@${"b".repeat(200)} `,
  ],
];

/** Words, and a status part of so many recipients. */
function report(words: string): string {
  const recipients = each(100, (n) =>
    [
      `Final-Recipient: rfc822; a${n}@example.net`,
      "Action: failed",
      `Diagnostic-Code: smtp; 550 ${n}`,
      "",
    ].join("\n"),
  );
  const status = ["Reporting-MTA: dns; mx.example.net", "", ...recipients].join("\n");
  return [
    "From: MAILER-DAEMON@example.net",
    "Content-Type: multipart/report; boundary=b",
    "",
    "--b",
    "",
    words,
    "--b",
    "Content-Type: message/delivery-status",
    "",
    status,
    "--b--",
  ].join("\n");
}

/** Words of Exim, which names in the header who failed. */
function namedInHeader(words: string): string {
  const names = each(50, (n) => `a${n}@example.net`).join(",");
  return `From: MAILER-DAEMON@example.net\nX-Failed-Recipients: ${names}\n\n${words}`;
}

/** Words before the first of fifty who are named one after the other. */
function namedAfterwards(words: string): string {
  const names = each(50, (n) => `a${n}@example.net\n`).join("");
  return `From: MAILER-DAEMON@example.net\n\nundeliverable\n550 no\n${words}\n${names}`;
}

/** As long as they may be, and on lines as long as are read. */
const LENGTHS = [
  ["on one line", (words: string) => words],
  ["on long lines", (words: string) => words.replace(/[^\n]{990}/g, "$&\n")],
] as const;

test.each(
  PIECES.flatMap((piece) =>
    LENGTHS.map(([name, lines]) => [JSON.stringify(piece.slice(0, 40)), name, piece, lines] as const),
  ),
)("words full of %s %s", (_, __, piece, lines) => {
  const words = `${lines(filled(piece))}\nin reply to RCPT TO command`;
  for (const message of [report(words), namedInHeader(words), namedAfterwards(words)]) {
    const bytes = Buffer.from(message);
    expect(bytes.length).toBeLessThan(REPORT_BYTES_MAX);
    expect(costOf(() => readReport(bytes, "return path"), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  }
});
