/**
 * Clients fold long header fields with a space or a tab (RFC 5322, 2.2.3), and mean white space by both. The
 * API refuses control characters, of which a tab is one.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { idIn, loggedIn, submit } from "../rig/submitting.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api", "submission"], {
    settings: { SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
  });
});
afterAll(() => engine.stop());

test("a header that is folded with tabs is read as if it were folded with spaces", async () => {
  const { client } = await engine.workspace();
  const message = [
    "From: Acme",
    "\tOrders <orders@example.com>",
    "To: one@example.net",
    "Subject: A long subject",
    "\tof two lines,\tand with a tab",
    "References: <1@example.com>",
    "\t<2@example.com>",
    "List-Unsubscribe: <mailto:off@example.com>,",
    "\t<https://example.com/off>",
    "X-Postrider-Scheduled-At: in",
    "\t5 minutes",
    "Content-Type: multipart/mixed;",
    "\tboundary=part",
    "",
    "--part",
    "",
    "a\tb",
    "--part",
    "Content-Type: application/pdf;",
    '\tname="an',
    '\tinvoice.pdf"',
    "",
    "%PDF",
    "--part--",
  ].join("\n");
  const session = await loggedIn(engine.submissionTlsPort, client.key);
  const answer = await submit(session, "one@example.net", message);
  session.destroy();
  const { body } = await client.get(`/emails/${idIn(answer)}`);
  expect(body, answer).toMatchObject({
    from: "Acme Orders <orders@example.com>",
    subject: "A long subject of two lines, and with a tab",
    text: "a\tb",
    headers: {
      References: "<1@example.com> <2@example.com>",
      "List-Unsubscribe": "<mailto:off@example.com>, <https://example.com/off>",
    },
    status: "scheduled",
  });
  const files = await client.get<{ data: unknown[] }>(`/emails/${idIn(answer)}/attachments`);
  expect(files.body.data).toMatchObject([{ filename: "an invoice.pdf" }]);
});
