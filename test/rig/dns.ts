/**
 * A DNS server for tests and the bench: from a table that may change while it serves, over UDP, and over TCP
 * what does not fit. A name that is not in the table does not exist. It answers questions for MX, A, AAAA,
 * TXT and PTR and nothing else, and counts what it was asked.
 */
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { createServer, isIP, type Socket as Stream } from "node:net";
import { listenOn } from "./port.ts";

export type Zone = {
  /** Preference and host; the root (null MX) is an empty name. */
  mx?: readonly (readonly [preference: number, host: string])[];
  /** IPv4 or IPv6. */
  addresses?: readonly string[];
  /** Of a name below in-addr.arpa. */
  ptr?: string;
  txt?: readonly string[];
  /** The name that this one stands for; its addresses are answered too. */
  alias?: string;
};
export type Answer = Zone | "fails" | "is silent";

const TYPE_A = 1;
const TYPE_CNAME = 5;
const TYPE_PTR = 12;
const TYPE_MX = 15;
const TYPE_TXT = 16;
const TYPE_AAAA = 28;
const CLASS_IN = 1;
const HEADER_BYTES = 12;
const RESPONSE = 0x8400;
const TRUNCATED = 0x0200;
const NO_ERROR = 0;
const SERVFAIL = 2;
const NXDOMAIN = 3;
const UDP_BYTES_MAX = 512;
const TCP_BYTES_MAX = 65_535;
const TTL_SECONDS = 60;

export class DnsServer {
  readonly zones = new Map<string, Answer>();
  readonly #asked = new Map<string, number>();
  readonly #socket: Socket = createSocket("udp4");
  readonly #streams = new Set<Stream>();
  readonly #listener = createServer((stream) => this.#serve(stream));

  /** As `dns.setServers` takes it. */
  get address(): string {
    const { address, port } = this.#socket.address();
    return `${address}:${port}`;
  }

  /** How often the name was asked for, whatever the type. */
  asked(name: string): number {
    return this.#asked.get(name) ?? 0;
  }

  async open(): Promise<void> {
    this.#socket.on("message", (question, from) => this.#hear(question, from));
    this.#socket.bind(await listenOn(this.#listener), "127.0.0.1");
    await once(this.#socket, "listening");
  }

  async close(): Promise<void> {
    for (const stream of this.#streams) stream.destroy();
    await new Promise((resolve) => this.#listener.close(resolve));
    await new Promise<void>((resolve) => this.#socket.close(resolve));
  }

  #hear(question: Buffer, { port, address }: RemoteInfo): void {
    const answer = this.#answerTo(question, UDP_BYTES_MAX);
    if (answer) this.#socket.send(answer, port, address);
  }

  /** Questions come one after the other, each after its length. */
  #serve(stream: Stream): void {
    let input = Buffer.alloc(0);
    this.#streams.add(stream);
    stream.on("error", () => stream.destroy());
    stream.on("close", () => this.#streams.delete(stream));
    stream.on("data", (chunk) => {
      input = Buffer.concat([input, chunk]);
      while (input.length >= 2 && input.length >= 2 + input.readUInt16BE()) {
        const end = 2 + input.readUInt16BE();
        const answer = this.#answerTo(input.subarray(2, end), TCP_BYTES_MAX);
        if (answer) stream.write(Buffer.concat([bytesOf16(answer.length), answer]));
        input = input.subarray(end);
      }
    });
  }

  #recordsOf(zone: Zone, type: number): Buffer[] {
    if (zone.alias === undefined) return recordsOf(zone, type);
    const target = this.zones.get(zone.alias);
    const behind = typeof target === "object" ? recordsOf(target, type, writtenName(zone.alias)) : [];
    return [record(TYPE_CNAME, writtenName(zone.alias)), ...behind];
  }

  #answerTo(question: Buffer, bytesMax: number): Buffer | null {
    const { name, end } = readName(question);
    this.#asked.set(name, this.asked(name) + 1);
    const answer = this.zones.get(name);
    if (answer === "is silent") return null;
    const type = question.readUInt16BE(end);
    const records = answer === undefined || answer === "fails" ? [] : this.#recordsOf(answer, type);
    const code = answer === "fails" ? SERVFAIL : answer === undefined ? NXDOMAIN : NO_ERROR;
    return reply(question.subarray(0, end + 4), code, records, bytesMax);
  }
}

export async function openDns(zones: Readonly<Record<string, Answer>> = {}): Promise<DnsServer> {
  const server = new DnsServer();
  for (const [name, zone] of Object.entries(zones)) server.zones.set(name, zone);
  await server.open();
  return server;
}

/** The server is in this process: where that stands still, an answer is late. Silence asks for less. */
const PATIENCE_MS = 10_000;

/**
 * Each question is asked by a client of its own. One that has heard quick answers waits a quarter of a second
 * for the next one, whatever its timeout (c-ares 1.34).
 */
export function dnsOf(
  server: DnsServer,
  timeout = PATIENCE_MS,
): Pick<Resolver, "resolve4" | "resolve6" | "resolveMx" | "resolveTxt"> {
  const client = (): Resolver => {
    const one = new Resolver({ timeout, tries: 1 });
    one.setServers([server.address]);
    return one;
  };
  return {
    resolve4: ((name: string, options: { ttl: true }) =>
      client().resolve4(name, options)) as Resolver["resolve4"],
    resolve6: ((name: string, options: { ttl: true }) =>
      client().resolve6(name, options)) as Resolver["resolve6"],
    resolveMx: (name) => client().resolveMx(name),
    resolveTxt: (name) => client().resolveTxt(name),
  };
}

/** The name that is asked for, and where it ends. */
function readName(message: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = message[at] as number; length > 0; length = message[at] as number) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}

function recordsOf(
  { mx = [], addresses = [], ptr, txt = [] }: Zone,
  type: number,
  owner = QUESTION,
): Buffer[] {
  if (type === TYPE_PTR) return ptr === undefined ? [] : [record(type, writtenName(ptr))];
  if (type === TYPE_TXT) return txt.map((text) => record(type, strings(text)));
  if (type === TYPE_MX)
    return mx.map(([preference, host]) =>
      record(type, Buffer.concat([bytesOf16(preference), writtenName(host)])),
    );
  const family = type === TYPE_A ? 4 : type === TYPE_AAAA ? 6 : 0;
  return addresses.filter((one) => isIP(one) === family).map((one) => record(type, addressBytes(one), owner));
}

/** The name of the question. */
const QUESTION = bytesOf16(0xc000 | HEADER_BYTES);

function record(type: number, data: Buffer, owner = QUESTION): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type);
  head.writeUInt16BE(CLASS_IN, 2);
  head.writeUInt32BE(TTL_SECONDS, 4);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([owner, head, data]);
}

function strings(text: string): Buffer {
  const parts = text.match(/.{1,255}/g) ?? [""];
  return Buffer.concat(parts.map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)])));
}

function bytesOf16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function reply(question: Buffer, code: number, records: readonly Buffer[], bytesMax: number): Buffer {
  const body = Buffer.concat(records);
  const fits = question.length + body.length <= bytesMax;
  const head = Buffer.from(question);
  head.writeUInt16BE(RESPONSE | code | (fits ? 0 : TRUNCATED), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(fits ? records.length : 0, 6);
  head.writeUInt16BE(0, 8);
  head.writeUInt16BE(0, 10); // EDNS is not spoken
  return fits ? Buffer.concat([head, body]) : head;
}

function writtenName(name: string): Buffer {
  const labels = name === "" ? [] : name.split(".");
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")])),
    Buffer.from([0]),
  ]);
}

function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number));
  const [front = "", back] = address.split("::");
  const words = (text: string | undefined) =>
    text ? text.split(":").map((word) => Number.parseInt(word, 16)) : [];
  const [before, after] = [words(front), words(back)];
  const all = [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
  const bytes = Buffer.alloc(16);
  for (const [n, word] of all.entries()) bytes.writeUInt16BE(word, 2 * n);
  return bytes;
}
