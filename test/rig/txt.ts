/** A DNS server on loopback that knows TXT records and nothing else: any other name does not exist. */
import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";

const QUESTION_AT = 12;
const RESPONSE = 0x8580; // authoritative, recursion available
const NO_SUCH_NAME = 3;

export type TxtServer = {
  /** As a resolver takes it: address and port. */
  address: string;
  /** The TXT records at each name; each is cut into strings of 255. */
  records: Map<string, string[]>;
  close(): Promise<void>;
};

export async function openTxtServer(): Promise<TxtServer> {
  const records = new Map<string, string[]>();
  const socket = createSocket("udp4");
  socket.on("message", (query: Buffer, peer: RemoteInfo) =>
    socket.send(answerTo(query, records), peer.port, peer.address),
  );
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    records,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function answerTo(query: Buffer, records: ReadonlyMap<string, string[]>): Buffer {
  const labels: string[] = [];
  let at = QUESTION_AT;
  for (let length = query[at] as number; length > 0; length = query[at] as number) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const question = query.subarray(QUESTION_AT, at + 5);
  const found = records.get(labels.join(".").toLowerCase()) ?? [];
  const head = Buffer.alloc(QUESTION_AT);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(RESPONSE | (found.length === 0 ? NO_SUCH_NAME : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(found.length, 6);
  return Buffer.concat([head, question, ...found.map(answer)]);
}

function answer(text: string): Buffer {
  const strings = (text.match(/.{1,255}/g) ?? []).map((part) =>
    Buffer.concat([Buffer.from([part.length]), Buffer.from(part)]),
  );
  const data = Buffer.concat(strings);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc000 | QUESTION_AT, 0); // the name of the question
  head.writeUInt16BE(16, 2); // TXT
  head.writeUInt16BE(1, 4); // IN
  head.writeUInt32BE(60, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}
