/**
 * The reading of reports against whatever anybody may send: generated trees of parts, and samples with bytes
 * changed, cut, repeated and moved. It never throws, its time grows with the size alone, and it keeps
 * nothing. REPORT_MUTATIONS says how many mutated samples are read: 20,000 unless it says otherwise,
 * 1,000,000 for a full run.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { randomOf } from "../../src/capacity/random.ts";
import { partsOf } from "../../src/inbound/mime.ts";
import { readReport } from "../../src/inbound/report.ts";
import { sampleMessages } from "../rig/flufl.ts";
import { costOf } from "../rig/held.ts";
import { arf, dsn } from "../rig/reports.ts";

const MUTATIONS = Number(process.env.REPORT_MUTATIONS ?? 20_000);
const HEAP_BYTES_MAX = 32 * 1024 * 1024;
/** Of one message of 128 KB, and of a sample. */
const READ_MS_MAX = 250;

type Tree =
  | { kind: "leaf"; type: string; text: string }
  | { kind: "message"; inner: Tree }
  | { kind: "parts"; all: Tree[] };

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5 },
    fc.record({
      kind: fc.constant("leaf" as const),
      type: fc.constantFrom("text/plain", "text/html", "message/delivery-status", "image/png", ""),
      text: fc.string({ maxLength: 60 }).map((text) => text.replace(/[^ -~]|^-+/g, "")),
    }),
    fc.record({ kind: fc.constant("message" as const), inner: tie("tree") }),
    fc.record({
      kind: fc.constant("parts" as const),
      all: fc.array(tie("tree"), { minLength: 1, maxLength: 4 }),
    }),
  ),
}));

let boundaries = 0;
function written(one: Tree): string {
  if (one.kind === "leaf") return `${one.type === "" ? "" : `Content-Type: ${one.type}\r\n`}\r\n${one.text}`;
  if (one.kind === "message") return `Content-Type: message/rfc822\r\n\r\n${written(one.inner)}`;
  const boundary = `b${boundaries++}`;
  const parts = one.all.map((part) => `--${boundary}\r\n${written(part)}\r\n`).join("");
  return `Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n${parts}--${boundary}--`;
}

function leavesOf(one: Tree): string[] {
  if (one.kind === "leaf") return [one.text];
  return one.kind === "message" ? leavesOf(one.inner) : one.all.flatMap(leavesOf);
}

test("a tree of parts is read back with every leaf, in order", () => {
  fc.assert(
    fc.property(tree, (one) => {
      const leaves = leavesOf(one);
      const parts = partsOf(Buffer.from(written(one)));
      const read = parts.filter(({ type }) => !type.startsWith("multipart/") && type !== "message/rfc822");
      if (parts.length < 50)
        expect(read.map(({ body }) => body.trimEnd())).toEqual(leaves.map((text) => text.trimEnd()));
      readReport(Buffer.from(written(one)), "feedback address");
    }),
    { numRuns: 500 },
  );
});

const BOMBS: [name: string, message: string][] = [
  ["boundaries", `Content-Type: multipart/mixed; boundary=x\n\n${"--x\n".repeat(32_000)}`],
  [
    "nested parts",
    Array.from(
      { length: 1_500 },
      (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`,
    ).join(""),
  ],
  ["nested messages", "Content-Type: message/rfc822\n\n".repeat(4_000)],
  ["boundaries that begin alike", `Content-Type: multipart/mixed; boundary=x\n\n${"--xx\n".repeat(25_000)}`],
  ["fields", `${"A: b\n".repeat(25_000)}\n`],
  ["a folded field", `Subject: a\n${" b\n".repeat(40_000)}`],
  ["parameters", `Content-Type: multipart/mixed${"; boundary".repeat(12_000)}\n\n`],
  ["semicolons", `Content-Type: multipart/mixed${";".repeat(125_000)}\n\n`],
  [
    "recipients",
    dsn({ recipient: "a@x.example" }).replace(
      "--r1\r\nContent-Type: message/rfc822",
      "Final-Recipient: rfc822;a@x.example\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n".repeat(1_500),
    ),
  ],
  ["empty groups", `Content-Type: message/delivery-status\n\n${"\n".repeat(125_000)}`],
  [
    "addresses",
    `From: mailer-daemon@x\nSubject: failure notice\n\nUser unknown\n${"a@b.cc ".repeat(17_000)}`,
  ],
  ["at signs", `From: mailer-daemon@x\nSubject: failure notice\n\nUser unknown\n${"@".repeat(120_000)}`],
  ["dots", `From: mailer-daemon@x\nSubject: failure notice\n\nUser unknown\n${"a@b.".repeat(30_000)}`],
  ["numbers", `From: mailer-daemon@x\n\ndelivery failed\n${"550 5.1.1 ".repeat(12_000)}`],
  ["words", `From: mailer-daemon@x\n\n${"delivery user ".repeat(9_000)}`],
  ["words abroad", `From: kim@x\nReturn-Path: <>\n\n${"nie można a b c d ".repeat(6_000)}`],
  ["lines that cite", `From: postmaster@x\n\n${">\n".repeat(60_000)}`],
  [
    "failed recipients",
    `From: mailer-daemon@x\nX-Failed-Recipients: ${"a@b.cc,".repeat(500)}\n\nfailed\n${"a b c 550 \n".repeat(11_000)}`,
  ],
  [
    "recipients in words",
    `From: mailer-daemon@x\n\nfailed\n${Array.from({ length: 900 }, (_, n) => `<a${n}@b.cc>: 550 user unknown ${"x ".repeat(50)}\n`).join("")}`,
  ],
  ["boundaries that no header names", `Content-Type: multipart/mixed\n\n${"--x\ncontent-a".repeat(10_000)}`],
  ["comments", `Content-Type: ${"(".repeat(60_000)}\nContent-Transfer-Encoding: ${"(".repeat(60_000)}\n\n`],
  ["spaces", `From: mailer-daemon@x\n\ndelivery failed\n${" ".repeat(120_000)}`],
  ["tags", `From: mailer-daemon@x\nContent-Type: text/html\n\ndelivery failed${"<p".repeat(60_000)}`],
  [
    "escapes",
    `Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n${"=\n".repeat(60_000)}`,
  ],
  ["letters of return paths", arf({ header: [`Return-Path: ${"a".repeat(120_000)}`] })],
];

test.each(BOMBS)("a bomb of %s is read in its time", (_, message) => {
  const bytes = Buffer.from(message).subarray(0, 128 * 1024);
  for (const source of ["return path", "feedback address"] as const)
    expect(costOf(() => readReport(bytes, source), READ_MS_MAX)).toBeLessThan(READ_MS_MAX);
});

test(`${MUTATIONS} mutated samples: nothing throws, nothing hangs, the heap does not grow`, () => {
  const seed = Date.now() % 1_000_000;
  const random = randomOf(seed);
  const samples = [
    ...sampleMessages(),
    Buffer.from(dsn({ recipient: "a@x.example" })),
    Buffer.from(arf({ recipient: "a@x.example", header: ["Message-ID: <a@b>", "Return-Path: <c@d>"] })),
  ];
  const upTo = (count: number) => Math.floor(random() * count);
  const read = (n: number) => {
    const message = mutated(samples[n % samples.length] as Buffer, upTo);
    const ms = costOf(
      () => readReport(message, n % 2 === 0 ? "return path" : "feedback address"),
      READ_MS_MAX,
    );
    if (ms > READ_MS_MAX)
      throw new Error(`${ms} ms for ${JSON.stringify(message.toString("latin1"))}, seed ${seed}`);
  };
  for (let n = 0; n < Math.min(2_000, MUTATIONS); n++) read(n);
  const before = heapUsed();
  for (let n = 0; n < MUTATIONS; n++) read(n);
  expect(heapUsed() - before).toBeLessThan(HEAP_BYTES_MAX);
}, 3_600_000);

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** What is still there when nothing is left to be collected. */
function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** A few changes of the kinds that break parsers. */
function mutated(sample: Buffer, upTo: (count: number) => number): Buffer {
  let bytes = Buffer.from(sample);
  for (let change = 1 + upTo(4); change > 0; change--) {
    const at = upTo(bytes.length);
    const length = upTo(Math.min(400, bytes.length - at));
    const piece = bytes.subarray(at, at + length);
    switch (upTo(6)) {
      case 0:
        bytes[at] = upTo(256);
        break;
      case 1: // cut out
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
        break;
      case 2: // said twice
        bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
        break;
      case 3: // moved
        bytes = Buffer.concat([piece, bytes.subarray(0, at), bytes.subarray(at + length)]);
        break;
      case 4: // broken off
        bytes = Buffer.from(bytes.subarray(0, Math.max(1, at)));
        break;
      default:
        bytes = Buffer.concat([
          bytes.subarray(0, at),
          Buffer.from(ODD[upTo(ODD.length)] as string, "latin1"),
          bytes.subarray(at),
        ]);
    }
  }
  return bytes;
}

const ODD = [
  "\r\n",
  "\n\n",
  "\0",
  "--",
  "--r1\r\n",
  ":",
  ";",
  "\xff\xfe",
  "=?utf-8?B?",
  "boundary=",
  "Content-Type: message/rfc822\r\n\r\n",
  "@",
  "<",
  '"',
];
