/** Bodies of sends that are cheap to write and dear to parse, to keep or to hand over. */
import { mail } from "./workspace.ts";

const MB = 1024 * 1024;
const BODY_BYTES = 38 * MB;

const fill = (unit: string, bytes = BODY_BYTES) => unit.repeat(Math.floor(bytes / unit.length));
const ignored = (bomb: string) => `${JSON.stringify(mail()).slice(0, -1)},"junk":${bomb}}`;
const numbered = (bytes: number, name: (n: number) => string) => {
  const parts: string[] = [];
  for (let size = 0; size < bytes; size += name(parts.length).length + 1) parts.push(name(parts.length));
  return parts.join();
};
const attached = (content: string) => JSON.stringify(mail({ attachments: [{ filename: "a.bin", content }] }));

export type Bomb = [status: number, body: () => string];

/** Each with what it is answered; most of them are in a field that nobody reads. */
export const BOMBS: Readonly<Record<string, Bomb>> = {
  "empty objects": [422, () => ignored(`[${fill("{},")}{}]`)],
  "empty arrays": [422, () => ignored(`[${fill("[],")}[]]`)],
  "numbers of one digit": [422, () => ignored(`[${fill("1,")}1]`)],
  "strings of one letter": [422, () => ignored(`[${fill('"a",')}""]`)],
  "keys that differ": [422, () => ignored(`{${numbered(BODY_BYTES, (n) => `"k${n}":0`)}}`)],
  "numbers as keys": [422, () => ignored(`{${numbered(5 * MB, (n) => `"${(n * 7919) % 4294967291}":0`)}}`)],
  "one key again and again": [422, () => ignored(`{${fill('"a":1,')}"a":1}`)],
  "objects of their own shape": [422, () => ignored(`[${numbered(20 * MB, (n) => `{"k${n}":0}`)}]`)],
  "arrays in arrays": [422, () => ignored(`${fill("[", BODY_BYTES / 2)}${fill("]", BODY_BYTES / 2)}`)],
  "objects in objects": [422, () => ignored(`${fill('{"a":', 30 * MB)}1${fill("}", 6 * MB)}`)],
  "arrays that never end": [422, () => fill("[", 5 * MB)],
  "objects just below the size that is parsed aside": [422, () => `[${fill("{},", 127 * 1024)}{}]`],
  "keys just below that size": [422, () => `[{${numbered(127 * 1024, (n) => `"${n.toString(36)}":0`)}}]`],
  "wrong recipients, just below that size": [
    422,
    () => JSON.stringify(mail({ to: Array(62 * 1024).fill(1) })),
  ],
  "wrong headers, just below that size": [
    422,
    () => `{"headers":{${numbered(127 * 1024, (n) => `"${n.toString(36)}":0`)}}}`,
  ],
  "deep, just below that size": [422, () => ignored(fill("[", 60 * 1024) + fill("]", 60 * 1024))],
  "as many values as may be, unread": [200, () => ignored(`[${fill('{"a":[]},', 9 * 60_000)}1]`)],
  "one long number": [200, () => ignored(fill("9"))],
  "many long numbers": [200, () => ignored(`[${fill(`${"9".repeat(900)},`)}1]`)],
  "one long key": [200, () => ignored(`{"${fill("k")}":1}`)],
  "letters as escapes": [200, () => ignored(`"${fill("\\u0041")}"`)],
  "quotes as escapes": [200, () => ignored(`"${fill('\\"')}"`)],
  blanks: [200, () => ignored(`${fill(" ")}1`)],
  "no end of a string": [400, () => `{"junk":"${fill("a")}`],
  "more than an e-mail can hold, in fields that are read": [
    422,
    () =>
      JSON.stringify(
        mail({ headers: Object.fromEntries(Array.from({ length: 150_000 }, (_, n) => [`X-${n}`, "a"])) }),
      ),
  ],
  "a million recipients": [422, () => JSON.stringify(mail({ to: Array(1_000_000).fill("a@b.example") }))],
  "a hundred thousand e-mails": [422, () => `[${fill('{"to":"a@b.example"},', 100_000 * 21)}{}]`],
  "a hundred of everything": [
    200,
    () => {
      const to = Array.from({ length: 50 }, (_, n) => `${"x".repeat(40)}${n}@example.net`);
      const tags = Array.from({ length: 50 }, (_, n) => ({ name: `name${n}`, value: "value" }));
      return JSON.stringify(Array.from({ length: 100 }, () => mail({ to, tags })));
    },
  ],
  "what is not base64, at its end": [422, () => attached(`${fill("QUJD")}!`)],
  "base64 with a blank after each letter": [422, () => attached(`${fill("Q ")}!`)],
  "bytes that are too many": [
    422,
    () => JSON.stringify(mail({ attachments: [{ filename: "a", content: Array(5 * MB + 1).fill(7) }] })),
  ],
};

/** Where it is posted. */
export function pathOf(what: string): "/emails" | "/emails/batch" {
  const isBatch = /e-mails$|hundred of|that size|never end/.test(what) && !/^(deep|wrong)/.test(what);
  return isBatch ? "/emails/batch" : "/emails";
}
