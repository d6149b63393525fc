/**
 * Whatever fields and bodies hold, another implementation finds the signature right, and sees when an octet
 * changes.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { makeKey } from "../../src/domain/key.ts";
import { type SigningKey, signed } from "../../src/message/sign.ts";
import { published, verdictsOn } from "../rig/dkim.ts";

const keys: SigningKey[] = [
  { domain: "example.com", selector: "one", ...(await makeKey("rsa")) },
  { domain: "example.com", selector: "two", ...(await makeKey("ed25519")) },
];
const [rsa] = keys as [SigningKey];

const space = fc.string({ unit: fc.constantFrom(" ", "\t"), maxLength: 4 });
/** mailauth takes the octet A0 for white space, so no character here is written with it. */
const word = fc.oneof(
  fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 10 }).map((text) => text.replace(/\s/g, "_")),
  fc.constantFrom("é", "日本語", "=?utf-8?Q?a?=", "b=", "; b=x;", ".", "..", "--", ":", "=", "👩‍👩‍👧"),
);
const text = fc.array(fc.oneof(space, word), { maxLength: 8 }).map((pieces) => pieces.join(""));
const fold = fc.tuple(word, text).map(([first, more]) => `\r\n ${first}${more}`);
const field = fc
  .tuple(
    fc.constantFrom(
      "To",
      "Cc",
      "Subject",
      "SUBJECT",
      "Reply-To",
      "Date",
      "Message-ID",
      "List-Id",
      "Feedback-ID",
      "Content-Type",
      "X-Own",
      "Received",
      "References",
    ),
    fc.constantFrom("", " ", "\t"),
    text,
    fc.array(fold, { maxLength: 3 }),
  )
  .map(([name, gap, value, folds]) => `${name}${gap}:${value}${folds.join("")}\r\n`);
const line = fc.oneof(text, space, fc.constant(""));
const body = fc.array(line, { maxLength: 10 }).map((lines) => lines.map((one) => `${one}\r\n`).join(""));
const message = fc
  .tuple(fc.array(field, { maxLength: 8 }), body)
  .map(([fields, lines]) => Buffer.from(`From: a@example.com\r\n${fields.join("")}\r\n${lines}`));

test("signatures verify", async () => {
  await fc.assert(
    fc.asyncProperty(message, async (octets) => {
      const verdicts = await verdictsOn(await signed(octets, keys), keys.map(published));
      expect(verdicts.map(({ result }) => result)).toEqual(["pass", "pass"]);
    }),
    { numRuns: 400 },
  );
});

test("a letter more in what is signed is seen", async () => {
  await fc.assert(
    fc.asyncProperty(message, fc.nat(), async (octets, at) => {
      const whole = await signed(octets, [rsa]);
      const bodyAt = whole.indexOf("\r\n\r\n") + 4;
      const place = bodyAt + (at % (whole.length - bodyAt + 1));
      const changed = Buffer.concat([whole.subarray(0, place), Buffer.from("z"), whole.subarray(place)]);
      const [verdict] = await verdictsOn(changed, [published(rsa)]);
      expect(verdict?.result).not.toBe("pass");
    }),
    { numRuns: 200 },
  );
});
