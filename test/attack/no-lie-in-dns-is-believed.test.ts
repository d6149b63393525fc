/**
 * Whatever answers a question for TLSA records: what does not repeat id and question is not heard, what is
 * malformed is a failure and never an empty answer, and nothing takes longer than the timeouts or holds the
 * event loop.
 */
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DnsClient } from "../../src/transport/dnsquery.ts";
import { heldBy } from "../rig/held.ts";
import { listenOn } from "../rig/port.ts";

/** The resolver is in this process: where that stands still, an answer is late. */
const PATIENCE_MS = 10_000;
/** Where no answer comes. */
const TIMEOUT_MS = 300;
const TRIES = 2;
const QUESTION_AT = 12;
const NAME = "_25._tcp.mx.a.test";
const DATA = Buffer.from(`030101${"ab".repeat(32)}`, "hex");

let udp: Socket;
let tcp: Server;
let port: number;
let overUdp: (question: Buffer) => Buffer[];
let overTcp: (question: Buffer) => Buffer | null;
beforeEach(async () => {
  overTcp = () => null;
  tcp = createServer((stream) => {
    stream.on("error", () => {});
    stream.once("data", (chunk) => {
      const answer = overTcp(chunk.subarray(2));
      if (!answer) return stream.destroy();
      const length = Buffer.alloc(2);
      length.writeUInt16BE(answer.length);
      stream.write(Buffer.concat([length, answer]));
    });
  });
  port = await listenOn(tcp);
  udp = createSocket("udp4");
  udp.on("message", (question: Buffer, { port: to, address }: RemoteInfo) => {
    for (const answer of overUdp(question)) udp.send(answer, to, address);
  });
  udp.bind(port, "127.0.0.1");
  await once(udp, "listening");
});
afterEach(async () => {
  udp.close();
  await new Promise((resolve) => tcp.close(resolve));
});

const ask = (timeoutMs = PATIENCE_MS) =>
  new DnsClient({ address: "127.0.0.1", port }, timeoutMs).ask(NAME, "TLSA");

function bytes16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function questionPart(question: Buffer): Buffer {
  return question.subarray(QUESTION_AT, question.indexOf(0, QUESTION_AT) + 5);
}

const OWNER = bytes16(0xc000 | QUESTION_AT);
function record(data: Buffer, { owner = OWNER, type = 52, length = data.length } = {}): Buffer {
  return Buffer.concat([owner, bytes16(type), bytes16(1), Buffer.alloc(4), bytes16(length), data]);
}

const AD = 0x0020;
function answer(
  question: Buffer,
  records: readonly Buffer[],
  {
    flags = 0x8180 | AD,
    count = records.length,
    id = question.readUInt16BE(),
    asked = questionPart(question),
  } = {},
): Buffer {
  const head = Buffer.concat([bytes16(id), bytes16(flags), bytes16(1), bytes16(count), Buffer.alloc(4)]);
  return Buffer.concat([head, asked, ...records]);
}

const HONEST = { kind: "found", isSecure: true, owner: NAME, records: [{ data: DATA, host: "" }] };

test("an honest answer is heard", async () => {
  overUdp = (question) => [answer(question, [record(DATA)])];
  expect(await ask()).toEqual(HONEST);
});

const renamed = (question: Buffer) => {
  const asked = Buffer.from(questionPart(question));
  asked.write("_26", 1);
  return asked;
};
const LIES: readonly (readonly [string, (question: Buffer) => Buffer])[] = [
  ["another id", (q) => answer(q, [], { id: q.readUInt16BE() ^ 1 })],
  ["another name", (q) => answer(q, [], { asked: renamed(q) })],
  [
    "another type",
    (q) =>
      answer(q, [], { asked: Buffer.concat([questionPart(q).subarray(0, -4), Buffer.from([0, 1, 0, 1])]) }),
  ],
  ["a question", (q) => answer(q, [], { flags: 0x0100 })],
  ["another operation", (q) => answer(q, [], { flags: 0xa980 })],
  ["three bytes", (q) => q.subarray(0, 3)],
  ["nothing", () => Buffer.alloc(0)],
];

test.each(LIES)("one with %s is not heard, and the honest one after it is", async (_, lie) => {
  overUdp = (question) => [lie(question), answer(question, [record(DATA)])];
  expect(await ask()).toEqual(HONEST);
  let asked = 0;
  overUdp = (question) => {
    asked++;
    return [lie(question)];
  };
  expect(await ask(TIMEOUT_MS)).toMatchObject({ kind: "failed", isRefused: false });
  expect(asked).toBeLessThanOrEqual(TRIES);
});

test("lies without end take no longer than silence", async () => {
  overUdp = () => [];
  let isOver = false;
  udp.on("message", (question: Buffer, { port: to, address }: RemoteInfo) => {
    const repeat = () => {
      if (isOver) return;
      udp.send(answer(question, [], { id: question.readUInt16BE() ^ 1 }), to, address);
      setImmediate(repeat);
    };
    repeat();
  });
  expect(await ask(TIMEOUT_MS)).toMatchObject({ kind: "failed", isRefused: false });
  isOver = true;
});

const alias = (from: Buffer, to: Buffer) => record(to, { owner: from, type: 5 });
const label = (text: string) =>
  Buffer.concat([Buffer.from([text.length]), Buffer.from(text), Buffer.alloc(1)]);
const endOf = (q: Buffer) => QUESTION_AT + questionPart(q).length;
const MALFORMED: readonly (readonly [string, (question: Buffer) => Buffer])[] = [
  [
    "has a name that points at itself",
    (q) => answer(q, [record(DATA, { owner: bytes16(0xc000 | endOf(q)) })]),
  ],
  ["has a name that points forwards", (q) => answer(q, [record(DATA, { owner: bytes16(0xffff) })])],
  [
    "has a label of 64 bytes",
    (q) => answer(q, [record(DATA, { owner: Buffer.concat([Buffer.from([64]), Buffer.alloc(65, 97)]) })]),
  ],
  [
    "has a name of 300 bytes",
    (q) =>
      answer(q, [
        record(DATA, {
          owner: Buffer.concat([
            ...Array(5).fill(Buffer.concat([Buffer.from([60]), Buffer.alloc(60, 97)])),
            Buffer.alloc(1),
          ]),
        }),
      ]),
  ],
  [
    "has a name that jumps a thousand times",
    (q) => {
      const at = endOf(q) + 12;
      const jump = (n: number) => bytes16(0xc000 | (n === 0 ? QUESTION_AT : at + 2 * (n - 1)));
      const jumps = Buffer.concat(Array.from({ length: 1_000 }, (_, n) => jump(n)));
      return answer(q, [record(jumps, { type: 16 }), record(DATA, { owner: jump(1_000) })]);
    },
  ],
  ["promises more records than it has", (q) => answer(q, [record(DATA)], { count: 2 })],
  ["promises more data than it has", (q) => answer(q, [record(DATA, { length: 5_000 })])],
  ["promises 60,000 records", (q) => answer(q, [record(DATA)], { count: 60_000 })],
  ["is an alias for itself", (q) => answer(q, [alias(OWNER, OWNER)])],
  ["is a ring of aliases", (q) => answer(q, [alias(OWNER, label("b")), alias(label("b"), OWNER)])],
  ["is cut off without saying so", (q) => answer(q, [record(DATA)]).subarray(0, -10)],
];

test.each(MALFORMED)("one that %s is a failure", async (_, lie) => {
  overUdp = (question) => [lie(question)];
  expect(await ask()).toMatchObject({ kind: "failed" });
});

test("records of another name are not the host's", async () => {
  overUdp = (question) => [answer(question, [record(DATA, { owner: label("evil") })])];
  expect(await ask()).toEqual({ ...HONEST, records: [] });
});

test("an alias is followed", async () => {
  overUdp = (question) => [answer(question, [alias(OWNER, label("b")), record(DATA, { owner: label("b") })])];
  expect(await ask()).toEqual({ ...HONEST, owner: "b" });
});

test("one that was not proved says so, and so does a name that does not exist", async () => {
  overUdp = (question) => [answer(question, [record(DATA)], { flags: 0x8180 })];
  expect(await ask()).toEqual({ ...HONEST, isSecure: false });
  overUdp = (question) => [answer(question, [], { flags: 0x8183 | AD })];
  expect(await ask()).toEqual({ kind: "missing", isSecure: true });
  overUdp = (question) => [answer(question, [], { flags: 0x8182 })];
  expect(await ask()).toMatchObject({ kind: "failed", isRefused: true });
});

test("what is truncated is asked for over TCP, and fails when that fails", async () => {
  overUdp = (question) => [answer(question, [], { flags: 0x8380 | AD })];
  expect(await ask()).toMatchObject({ kind: "failed" });
  overTcp = (question) => answer(question, [record(DATA)], { id: question.readUInt16BE() ^ 1 });
  expect(await ask()).toMatchObject({ kind: "failed" });
  overTcp = (question) => answer(question, [record(DATA)], { flags: 0x8380 | AD });
  expect(await ask()).toMatchObject({ kind: "failed" });
  overTcp = (question) => answer(question, [record(DATA)]);
  expect(await ask()).toEqual(HONEST);
});

test("a resolver that is not there is a failure", async () => {
  const idle = createServer(); // nobody listens on this port over UDP
  const gone = new DnsClient({ address: "127.0.0.1", port: await listenOn(idle) }, TIMEOUT_MS);
  expect(await gone.ask(NAME, "TLSA")).toMatchObject({ kind: "failed", isRefused: false });
  await new Promise((resolve) => idle.close(resolve));
});

test("a resolver that nothing can be sent to is a failure", async () => {
  const barred = new DnsClient({ address: "255.255.255.255", port }, TIMEOUT_MS);
  expect(await barred.ask(NAME, "TLSA")).toMatchObject({ kind: "failed", isRefused: false });
});

test("the largest answer holds the loop for less than 50 ms", async () => {
  overUdp = (question) => [answer(question, [], { flags: 0x8380 | AD })];
  const long = Buffer.concat([
    ...Array(4).fill(Buffer.concat([Buffer.from([60]), Buffer.alloc(60, 97)])),
    Buffer.alloc(1),
  ]);
  overTcp = (question) => answer(question, Array(200).fill(record(DATA, { owner: long })));
  expect(await heldBy(() => ask(), 50)).toBeLessThan(50);
});
