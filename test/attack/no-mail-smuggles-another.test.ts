/**
 * What a sender writes into a mail ends no message at the receiver and says no command there: one mail goes
 * in, one comes out.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReportLoop } from "../rig/loop.ts";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

const COMMANDS = "MAIL FROM:<a@x.example>\r\nRCPT TO:<smuggled@example.org>\r\nDATA\r\nsmuggled\r\n.\r\n";
const ENDS = [
  "\r\n.\r\n",
  "\n.\n",
  "\n.\r\n",
  "\r\n.\n",
  "\r.\r",
  "\r\n.\r",
  "\r.\r\n",
  "\n\n.\r\n",
  "\u0085.\u0085",
  "\u2028.\u2028",
];

test.each(ENDS)("with %j in text and html", async (end) => {
  const body = `before${end}${COMMANDS}after`;
  const { copies } = await loop.send("whole@example.net", { text: body, html: `<pre>${body}</pre>` });
  const raw = String(copies[0]?.raw);
  expect(raw).not.toMatch(/(?<!\r)\n|\r(?!\n)/);
  expect(loop.sink.ledger.timesNamed("smuggled@example.org")).toBe(0);
  expect(loop.sink.ledger.faults).toEqual([]);
});
