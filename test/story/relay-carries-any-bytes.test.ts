/**
 * Whatever bytes a message has, exactly it arrives: no line of it ends the message, and no bare CR or LF
 * leaves.
 */
import { once } from "node:events";
import fc from "fast-check";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toWire } from "../../src/smtp/dots.ts";
import { unstuffed } from "../rig/conversation.ts";
import { ALWAYS, mailTo, type RelayUnderTest, relayTo } from "../rig/peer.ts";
import { openSink, type Sink } from "../rig/sink.ts";

let sink: Sink;
let under: RelayUnderTest;
let oracle: SMTPConnection;

beforeAll(async () => {
  sink = await openSink({ keepRaw: true });
  under = relayTo(sink.port);
  oracle = new SMTPConnection({ host: "127.0.0.1", port: sink.port });
  oracle.connect();
  await once(oracle, "connect");
});

afterAll(async () => {
  oracle.close();
  await under.relay.close(0);
  await sink.close();
});

const piece = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("\r\n", ".", "\r\n.", "\r\n.\r\n", "\n.\n", "\r.\r", "\n", "\r") },
  { weight: 1, arbitrary: fc.string({ unit: "binary-ascii", maxLength: 5 }) },
  { weight: 1, arbitrary: fc.constantFrom("zoë", "x".repeat(70)) },
);
const message = fc
  .array(piece, { minLength: 1, maxLength: 30 })
  .map((pieces) => Buffer.from(pieces.join("")))
  .filter((bytes) => bytes.length > 0);

/** Every way to end a line becomes the one. */
function asLines(bytes: Buffer): string {
  const text = bytes.toString("latin1").replace(/\r\n|\r|\n/g, "\r\n");
  return text.endsWith("\r\n") ? text : `${text}\r\n`;
}

function lastRaw(): Buffer {
  return sink.ledger.mails.at(-1)?.raw as Buffer;
}

test("what arrives is the message, and the same as nodemailer brings", async () => {
  await fc.assert(
    fc.asyncProperty(message, async (bytes) => {
      const [reply] = await under.relay.send(mailTo("a@b.test"), bytes, ALWAYS);
      expect(reply).toMatchObject({ phase: "dot", code: 250 });
      const ours = lastRaw();
      expect(unstuffed(ours).toString("latin1")).toBe(asLines(bytes));

      await new Promise<void>((resolve, reject) =>
        oracle.send({ from: "sender@a.test", to: ["a@b.test"], use8BitMime: true }, bytes, (error) =>
          error ? reject(error) : resolve(),
        ),
      );
      expect(ours.equals(lastRaw())).toBe(true);
    }),
    { numRuns: 300 },
  );
  expect(sink.ledger.faults).toEqual([]);
});

test("no end of data stands in a message on the wire, wherever it is cut", () => {
  fc.assert(
    fc.property(message, (bytes) => {
      const wire = toWire(bytes).toString("latin1");
      expect(`\r\n${wire}`).not.toMatch(/\r\n\.\r\n|[^\r]\n|\r(?!\n)/);
      expect(wire).toBe(asLines(bytes).replace(/(^|\r\n)\./g, "$1.."));
    }),
    { numRuns: 2_000 },
  );
});

test("a message that is right already is not copied", () => {
  const right = Buffer.from("Subject: x\r\n\r\nhello .\r\n");
  expect(toWire(right)).toBe(right);
});
