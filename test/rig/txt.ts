/** A DNS server on loopback that knows TXT and MX records and nothing else: any other name does not exist. */
import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";

const QUESTION_AT = 12;
const RESPONSE = 0x8580; // authoritative, recursion available
const NO_SUCH_NAME = 3;
const TYPE_MX = 15;
const TYPE_TXT = 16;

export type TxtServer = {
  /** As a resolver takes it: address and port. */
  address: string;
  /** The TXT records at each name; each is cut into strings of 255. */
  records: Map<string, string[]>;
  /** The host of the MX record at each name. */
  mx: Map<string, string>;
  close(): Promise<void>;
};

export async function openTxtServer(): Promise<TxtServer> {
  const records = new Map<string, string[]>();
  const mx = new Map<string, string>();
  const socket = createSocket("udp4");
  socket.on("message", (query: Buffer, peer: RemoteInfo) =>
    socket.send(answerTo(query, records, mx), peer.port, peer.address),
  );
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    records,
    mx,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function answerTo(
  query: Buffer,
  records: ReadonlyMap<string, string[]>,
  mx: ReadonlyMap<string, string>,
): Buffer {
  const labels: string[] = [];
  let at = QUESTION_AT;
  for (let length = query[at] as number; length > 0; length = query[at] as number) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const question = query.subarray(QUESTION_AT, at + 5);
  const name = labels.join(".").toLowerCase();
  const host = mx.get(name);
  const found =
    query.readUInt16BE(at + 1) === TYPE_MX
      ? host === undefined
        ? []
        : [answer(TYPE_MX, exchange(host))]
      : (records.get(name) ?? []).map((text) => answer(TYPE_TXT, strings(text)));
  const head = Buffer.alloc(QUESTION_AT);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(RESPONSE | (found.length === 0 ? NO_SUCH_NAME : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(found.length, 6);
  return Buffer.concat([head, question, ...found]);
}

/** As TXT records are written, and the names of hosts too. */
function pieces(parts: readonly string[]): Buffer {
  return Buffer.concat(parts.map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)])));
}

function strings(text: string): Buffer {
  return pieces(text.match(/.{1,255}/g) ?? []);
}

function exchange(host: string): Buffer {
  return Buffer.concat([Buffer.from([0, 10]), pieces([...host.split("."), ""])]);
}

function answer(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc000 | QUESTION_AT, 0); // the name of the question
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4); // IN
  head.writeUInt32BE(60, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}
