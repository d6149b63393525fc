/**
 * Inside the network namespace of a mail server that delivers to MX hosts on port 25 only: DNS that knows a host for the
 * bounce domain and one for every other domain, and both hosts, whose connections leave through unix sockets; the mail
 * server itself is reached through another. Arguments: folder, bounce domain, address and port of the mail server.
 */
import { createSocket } from "node:dgram";
import { connect, createServer } from "node:net";

const [folder, bounceDomain, ownHost, ownPort] = process.argv.slice(2);
const HOSTS = { "sink.mta.test": "127.0.0.2", "inbound.mta.test": "127.0.0.3" };
const TYPE_A = 1;
const TYPE_MX = 15;
const NO_NAME = 3;

function pass(to) {
  return createServer((from) => {
    const on = connect(to);
    from.pipe(on).pipe(from);
    for (const one of [from, on])
      one.on("error", () => {
        from.destroy();
        on.destroy();
      });
  });
}

pass(`${folder}/sink.sock`).listen(25, HOSTS["sink.mta.test"]);
pass(`${folder}/inbound.sock`).listen(25, HOSTS["inbound.mta.test"]);
pass({ host: ownHost, port: Number(ownPort) }).listen(`${folder}/own.sock`);

const dns = createSocket("udp4");
dns.on("message", (question, { port, address }) => dns.send(answerTo(question), port, address));
dns.bind(53, "127.0.0.1");

function answerTo(question) {
  const labels = [];
  let at = 12;
  for (; question[at] > 0; at += 1 + question[at])
    labels.push(question.toString("latin1", at + 1, at + 1 + question[at]));
  const name = labels.join(".").toLowerCase();
  const type = question.readUInt16BE(at + 1);
  const data = dataOf(name, type);
  const head = Buffer.alloc(12);
  question.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8580 | (data || name in HOSTS ? 0 : NO_NAME), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data ? 1 : 0, 6);
  const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data?.length ?? 0]);
  return Buffer.concat([head, question.subarray(12, at + 5), ...(data ? [record, data] : [])]);
}

function dataOf(name, type) {
  if (type === TYPE_A && name in HOSTS) return Buffer.from(HOSTS[name].split(".").map(Number));
  if (type !== TYPE_MX || name.startsWith("_")) return null;
  const host = name === bounceDomain ? "inbound.mta.test" : "sink.mta.test";
  const labels = host.split(".").map((one) => Buffer.from([one.length, ...Buffer.from(one)]));
  return Buffer.concat([Buffer.from([0, 10]), ...labels, Buffer.alloc(1)]);
}
