/**
 * A process that was held up finds an answer and the end of the time for it at once. What has come is read
 * first: a report whose answer is not read is posted again, a policy is taken for one that cannot be had.
 */
import { once } from "node:events";
import { createSecureContext } from "node:tls";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { DnsClient } from "../../src/transport/dnsquery.ts";
import { Web } from "../../src/transport/web.ts";
import { openAuthority } from "../rig/authority.ts";

const HOST = "policy.example.test";
const DEADLINE_MS = 10_000;

/**
 * A web host and a resolver on a thread of their own. They say when they are asked, answer when they are
 * told to, and note that in memory that this thread can wait for while nothing else runs on it.
 */
const OTHERS = `
  const { createServer } = require("node:https");
  const { createSocket } = require("node:dgram");
  const { createServer: createTcp } = require("node:net");
  const { parentPort, workerData: { answered, certificate } } = require("node:worker_threads");
  const note = () => {
    Atomics.store(answered, 0, 1);
    Atomics.notify(answered, 0);
  };
  const held = (answer) => {
    parentPort.once("message", answer);
    parentPort.postMessage("asked");
  };
  const answerTo = (question, flags) => {
    const answer = Buffer.from(question);
    answer.writeUInt16BE(flags, 2);
    return answer;
  };
  const web = createServer(certificate, (request, response) =>
    held(() => {
      response.end("ok");
      response.socket.write("", note);
    }),
  );
  const udp = createSocket("udp4");
  let isTruncated = false;
  udp.on("message", (question, from) => {
    // as many bytes as the question has no answers: a name without such records
    if (isTruncated) udp.send(answerTo(question, 0x8380), from.port, from.address);
    else held(() => udp.send(answerTo(question, 0x8180), from.port, from.address, note));
  });
  const tcp = createTcp((socket) => {
    socket.on("error", () => {});
    socket.once("data", (asked) =>
      held(() => {
        const answer = answerTo(asked.subarray(2), 0x8180);
        socket.write(Buffer.concat([asked.subarray(0, 2), answer]), note);
      }),
    );
  });
  parentPort.on("message", (told) => { if (told === "over TCP") isTruncated = true; });
  web.listen(0, "127.0.0.1", () =>
    tcp.listen(0, "127.0.0.1", () =>
      udp.bind(tcp.address().port, "127.0.0.1", () =>
        parentPort.postMessage({ web: web.address().port, dns: tcp.address().port }),
      ),
    ),
  );`;

const answered = new Int32Array(new SharedArrayBuffer(4));
const timerOfNode = setTimeout;
const authority = openAuthority();
let others: Worker;
let ports: { web: number; dns: number };
beforeAll(async () => {
  others = new Worker(OTHERS, {
    eval: true,
    workerData: { answered, certificate: { ...authority.certify(HOST) } },
  });
  [ports] = (await once(others, "message")) as [typeof ports];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterAll(async () => {
  vi.useRealTimers();
  await others.terminate();
});

/** The answer comes, and the time is over, while nothing else runs on this thread. */
async function holdUp(): Promise<void> {
  await once(others, "message");
  // timers have their turn before what arrives
  timerOfNode(() => {
    Atomics.store(answered, 0, 0);
    others.postMessage("answer");
    Atomics.wait(answered, 0, 0);
    vi.advanceTimersByTime(DEADLINE_MS);
  });
}

test("an answer of a web host counts", async () => {
  const web = new Web({
    dns: { resolve4: async () => ["127.0.0.1"], resolve6: async () => [] },
    families: [4],
    mayCarryTo: () => true,
    port: ports.web,
    secureContext: createSecureContext({ ca: authority.certificate }),
  });
  const asked = web.ask({ host: HOST, path: "/", answerBytesMax: 100, deadlineMs: DEADLINE_MS });
  await holdUp();
  expect(await asked).toMatchObject({ kind: "answer", status: 200 });
});

test.each(["over UDP", "over TCP"])("an answer of the resolver counts (%s)", async (way) => {
  others.postMessage(way);
  const dns = new DnsClient({ address: "127.0.0.1", port: ports.dns }, DEADLINE_MS);
  const asked = dns.ask("example.test", "TLSA");
  await holdUp();
  expect(await asked).toMatchObject({ kind: "found", records: [] });
});
