/**
 * A process that was held up finds what a client said and the end of its time at once. What has come is
 * answered first: the client kept to its time.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ok, type SessionLimits, SmtpSession } from "../../src/smtp/session.ts";

/**
 * A client on a thread of its own. It says what it is told to, and notes that in memory that this thread can
 * wait for while nothing else runs on it.
 */
const CLIENT = `
  const { connect } = require("node:net");
  const { parentPort, workerData } = require("node:worker_threads");
  const socket = connect(workerData.port, "127.0.0.1");
  let heard = "";
  socket.setEncoding("latin1");
  socket.on("error", () => {});
  socket.on("data", (text) => { heard += text; });
  socket.on("close", () => parentPort.postMessage(heard));
  parentPort.on("message", (text) =>
    socket.write(text, () => {
      Atomics.add(workerData.said, 0, 1);
      Atomics.notify(workerData.said, 0);
    }),
  );`;

const TIME_MS = 5;
const LIMITS: SessionLimits = {
  messageBytesMax: 10_000,
  excessBytesMax: 10_000,
  lineBytesMax: 1_000,
  silenceMsMax: 60_000,
  sessionMsMax: 600_000,
  messageMsMax: 60_000,
  messagesMax: 10,
  recipientsMax: 10,
  idleCommandsMax: 10,
  faultsMax: 10,
};
const said = new Int32Array(new SharedArrayBuffer(4));
let server: Server;
beforeAll(async () => {
  server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterAll(() => {
  server.close();
});

/** Nothing else runs on this thread until the client has said this and the time is over. */
function holdUntilSaid(client: Worker, text: string): void {
  const before = Atomics.load(said, 0);
  client.postMessage(text);
  Atomics.wait(said, 0, before);
  const until = performance.now() + TIME_MS + 2;
  while (performance.now() < until);
}

/** All that the client heard. */
async function talk(limits: Partial<SessionLimits>, first: string, inMessage = ""): Promise<string> {
  const { port } = server.address() as AddressInfo;
  const connected = once(server, "connection");
  const client = new Worker(CLIENT, { eval: true, workerData: { port, said } });
  const heard = once(client, "message");
  server.once("connection", (socket) => {
    new SmtpSession(
      socket,
      {
        name: "mail.test",
        secure: () => {},
        isSecure: false,
        limits: { ...LIMITS, ...limits },
        onFault: () => {},
        onEnd: () => {},
      },
      () => ({
        extensions: () => [],
        mail: () => null,
        rcpt: () => null,
        data: () => {
          holdUntilSaid(client, inMessage);
          return { take: () => {}, complete: async () => ok("250 2.0.0 taken"), abandon: () => {} };
        },
        command: () => null,
        reset: () => {},
      }),
    );
    holdUntilSaid(client, first);
  });
  await connected;
  const [text] = await heard;
  await client.terminate();
  return text as string;
}

test.each(["silenceMsMax", "sessionMsMax"] as const)(
  "a command that came in time is answered (%s)",
  async (limit) => {
    expect(await talk({ [limit]: TIME_MS }, "NOOP\r\n")).toMatch(
      /^220 .*\r\n250 2\.0\.0 ok\r\n421 4\.4\.2 .*\r\n$/,
    );
  },
);

test("a message that came in time is taken", async () => {
  const envelope = "EHLO a.test\r\nMAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n";
  const heard = await talk({ messageMsMax: TIME_MS }, envelope, "Subject: a\r\n\r\nb\r\n.\r\nQUIT\r\n");
  expect(heard).toMatch(/354 go ahead\r\n250 2\.0\.0 taken\r\n221 2\.0\.0 bye\r\n$/);
});
