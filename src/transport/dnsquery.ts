/**
 * Questions to one validating resolver, for what node's own client does not tell: TLSA records, and whether
 * an answer was proved by DNSSEC (the AD bit, RFC 6840, 5.7).
 *
 * Promises: an answer within the timeout times the tries; nothing throws. What answers is not believed to be
 * the resolver until it repeats the id and the question, from the resolver's address; over UDP anything else
 * is not heard. Names are read with a bound on jumps, which only go backwards; a malformed message is a
 * failure.
 */
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect, isIP } from "node:net";
import { whenLate } from "../clock.ts";

const DNS_TYPE = { A: 1, CNAME: 5, SOA: 6, MX: 15, AAAA: 28, TLSA: 52 } as const;
export type DnsType = keyof typeof DNS_TYPE;

export type AnswerRecord = { data: Buffer /** Of an MX record, in lower case. */; host: string };

export type DnsAnswer =
  /** What the name, or the one that it stands for (`owner`), has of this type: also nothing. */
  | { kind: "found"; isSecure: boolean; owner: string; records: AnswerRecord[] }
  | { kind: "missing"; isSecure: boolean }
  /** `isRefused`: the resolver itself says that it cannot answer, as where a signature is wrong. */
  | { kind: "failed"; isRefused: boolean; why: string };

export type DnsServerAt = { address: string; port: number };

const TIMEOUT_MS = 2_000;
const TRIES = 2;
const HEADER_BYTES = 12;
/** What passes most networks in one piece. */
const UDP_BYTES_MAX = 1_232;
const RECORDS_MAX = 200;
const NAME_CHARS_MAX = 255;
const LABELS_MAX = 128;
const ALIASES_MAX = 8;
const TYPE_OPT = 41;
const CLASS_IN = 1;
const RESPONSE = 0x8000;
const OPCODE = 0x7800;
const TRUNCATED = 0x0200;
const RECURSION_DESIRED = 0x0100;
const AUTHENTIC = 0x0020;
const RCODE = 0x000f;
const NO_ERROR = 0;
const NO_NAME = 3;

export class DnsClient {
  readonly #server: DnsServerAt;
  readonly #timeoutMs: number;

  constructor(server: DnsServerAt, timeoutMs = TIMEOUT_MS) {
    this.#server = server;
    this.#timeoutMs = timeoutMs;
  }

  async ask(name: string, type: DnsType): Promise<DnsAnswer> {
    for (let left = TRIES; left > 0; left--) {
      const question = questionOf(name, type);
      if (question === null) return failed(`${JSON.stringify(name.slice(0, 80))} is no name`);
      const overUdp = await this.#overUdp(question);
      if (overUdp === null) continue;
      if ((overUdp.readUInt16BE(2) & TRUNCATED) === 0) return answerIn(overUdp, question);
      const overTcp = await this.#overTcp(question);
      if (overTcp !== null) return answerIn(overTcp, question);
    }
    return failed(`the resolver gave no answer about ${name}`);
  }

  #overUdp(question: Buffer): Promise<Buffer | null> {
    const { address, port } = this.#server;
    return new Promise((resolve) => {
      const socket = createSocket(isIP(address) === 6 ? "udp6" : "udp4");
      let isOver = false;
      const end = (answer: Buffer | null) => {
        if (isOver) return;
        isOver = true;
        cancel();
        socket.close();
        resolve(answer);
      };
      const cancel = whenLate(this.#timeoutMs, () => end(null));
      socket.on("error", () => end(null));
      socket.on("message", (message) => {
        if (isAnswerTo(message, question)) end(message);
      });
      // with a listener and no callback, what keeps it from connecting is an error event
      socket.on("connect", () => {
        if (!isOver) socket.send(question);
      });
      // connected: the system hears nobody else
      socket.connect(port, address);
    });
  }

  #overTcp(question: Buffer): Promise<Buffer | null> {
    const { address, port } = this.#server;
    return new Promise((resolve) => {
      let heard = Buffer.alloc(0);
      const socket = connect({ host: address, port });
      const end = (answer: Buffer | null) => {
        cancel();
        socket.destroy();
        resolve(answer);
      };
      const cancel = whenLate(this.#timeoutMs, () => end(null));
      socket.on("error", () => end(null));
      socket.on("end", () => end(null));
      socket.on("data", (chunk: Buffer) => {
        heard = Buffer.concat([heard, chunk]);
        if (heard.length < 2 || heard.length < 2 + heard.readUInt16BE()) return;
        const message = heard.subarray(2, 2 + heard.readUInt16BE());
        end(isAnswerTo(message, question) ? message : null);
      });
      const length = Buffer.alloc(2);
      length.writeUInt16BE(question.length);
      socket.write(Buffer.concat([length, question]));
    });
  }
}

function failed(why: string, isRefused = false): DnsAnswer {
  return { kind: "failed", isRefused, why };
}

function questionOf(name: string, type: DnsType): Buffer | null {
  const written = writtenName(name);
  if (written === null) return null;
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt16BE(randomInt(0x10000));
  head.writeUInt16BE(RECURSION_DESIRED | AUTHENTIC, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(1, 10);
  const tail = Buffer.alloc(4);
  tail.writeUInt16BE(DNS_TYPE[type]);
  tail.writeUInt16BE(CLASS_IN, 2);
  const options = Buffer.alloc(11); // the root's name, and no options
  options.writeUInt16BE(TYPE_OPT, 1);
  options.writeUInt16BE(UDP_BYTES_MAX, 3);
  return Buffer.concat([head, written, tail, options]);
}

function writtenName(name: string): Buffer | null {
  const labels = name === "" || name === "." ? [] : name.toLowerCase().split(".");
  if (name.length >= NAME_CHARS_MAX || labels.some((one) => !/^[a-z0-9_-]{1,63}$/.test(one))) return null;
  const pieces = labels.map((one) => Buffer.concat([Buffer.from([one.length]), Buffer.from(one)]));
  return Buffer.concat([...pieces, Buffer.from([0])]);
}

/** Where the question's own section ends. */
function endOfQuestion(question: Buffer): number {
  return question.indexOf(0, HEADER_BYTES) + 5;
}

function isAnswerTo(message: Buffer, question: Buffer): boolean {
  const end = endOfQuestion(question);
  if (message.length < end || message.readUInt16BE() !== question.readUInt16BE()) return false;
  const flags = message.readUInt16BE(2);
  if ((flags & RESPONSE) === 0 || (flags & OPCODE) !== 0 || message.readUInt16BE(4) !== 1) return false;
  const asked = message.toString("latin1", HEADER_BYTES, end - 4).toLowerCase();
  const isSameName = asked === question.toString("latin1", HEADER_BYTES, end - 4);
  return isSameName && message.subarray(end - 4, end).equals(question.subarray(end - 4, end));
}

function answerIn(message: Buffer, question: Buffer): DnsAnswer {
  const flags = message.readUInt16BE(2);
  const isSecure = (flags & AUTHENTIC) !== 0;
  const code = flags & RCODE;
  if (code === NO_NAME) return { kind: "missing", isSecure };
  if (code !== NO_ERROR) return failed(`the resolver answers with the code ${code}`, true);
  if ((flags & TRUNCATED) !== 0) return failed("the answer is cut off");
  try {
    return { kind: "found", isSecure, ...recordsIn(message, question) };
  } catch (error) {
    return failed(error instanceof MalformedAnswer ? error.message : "the answer is malformed");
  }
}

class MalformedAnswer extends Error {}

type Resource = { owner: string; type: number; dataAt: number; data: Buffer };

/** Of the name that is asked for, or of the one at the end of its aliases. */
function recordsIn(message: Buffer, question: Buffer): { owner: string; records: AnswerRecord[] } {
  const end = endOfQuestion(question);
  const wanted = question.readUInt16BE(end - 4);
  const resources = resourcesIn(message, end);
  let owner = nameAt(question, HEADER_BYTES).name;
  for (let aliases = 0; wanted !== DNS_TYPE.CNAME; aliases++) {
    const alias = resources.find((one) => one.type === DNS_TYPE.CNAME && one.owner === owner);
    if (!alias) break;
    if (aliases === ALIASES_MAX) throw new MalformedAnswer("the name has too many aliases");
    owner = nameAt(message, alias.dataAt).name;
  }
  const records = resources
    .filter((one) => one.type === wanted && one.owner === owner)
    .map(({ type, data, dataAt }) => ({
      data,
      host: type === DNS_TYPE.MX ? nameAt(message, dataAt + 2).name : "",
    }));
  return { owner, records };
}

function resourcesIn(message: Buffer, from: number): Resource[] {
  const count = message.readUInt16BE(6);
  if (count > RECORDS_MAX) throw new MalformedAnswer(`the answer has more than ${RECORDS_MAX} records`);
  const resources: Resource[] = [];
  let at = from;
  for (let n = 0; n < count; n++) {
    const { name: owner, end } = nameAt(message, at);
    const type = message.readUInt16BE(end);
    const dataAt = end + 10;
    const next = dataAt + message.readUInt16BE(end + 8);
    if (next > message.length) throw new MalformedAnswer("the answer is cut off");
    if (message.readUInt16BE(end + 2) === CLASS_IN)
      resources.push({ owner, type, dataAt, data: message.subarray(dataAt, next) });
    at = next;
  }
  return resources;
}

/**
 * In lower case; and where it ends in the message. Jumps go backwards, so that none is a loop; between two
 * labels one is enough.
 */
function nameAt(message: Buffer, from: number): { name: string; end: number } {
  const labels: string[] = [];
  let end: number | null = null;
  let at = from;
  let before = from;
  let jumps = 0;
  for (let chars = 0; ; ) {
    const length = message.readUInt8(at);
    if (length === 0) return { name: labels.join(".").toLowerCase(), end: end ?? at + 1 };
    if (length >= 0xc0) {
      const target = message.readUInt16BE(at) & 0x3fff;
      if (target >= before) throw new MalformedAnswer("a name points forwards");
      if (++jumps > LABELS_MAX) throw new MalformedAnswer("a name jumps too often");
      end ??= at + 2;
      at = target;
      before = target;
      continue;
    }
    chars += length + 1;
    if (
      length > 63 ||
      chars > NAME_CHARS_MAX ||
      labels.length >= LABELS_MAX ||
      at + 1 + length > message.length
    )
      throw new MalformedAnswer("a name is malformed");
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
}
