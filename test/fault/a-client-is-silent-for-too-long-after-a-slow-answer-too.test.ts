/** Our answer may take longer than a client may be silent. Its silence is bounded afterwards as before. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { SmtpSession } from "../../src/smtp/session.ts";

const LIMITS = {
  messageBytesMax: 10_000,
  excessBytesMax: 10_000,
  lineBytesMax: 1_000,
  silenceMsMax: 50,
  sessionMsMax: 5_000,
  messageMsMax: 5_000,
  messagesMax: 10,
  recipientsMax: 10,
  idleCommandsMax: 10,
  faultsMax: 10,
};

test("a client that says nothing after a slow answer is told to go", async () => {
  const server = createServer((socket) => {
    const slow = once(socket, "timeout").then(() => null);
    const parts = { name: "mail.test", secure: () => {}, isSecure: false, limits: LIMITS };
    new SmtpSession(socket, { ...parts, onFault: () => {}, onEnd: () => {} }, () => ({
      extensions: () => [],
      mail: () => slow,
      rcpt: () => null,
      data: () => ({ take: () => {}, complete: () => Promise.reject(), abandon: () => {} }),
      command: () => null,
      reset: () => {},
    }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1").setEncoding("latin1");
  client.write("EHLO a.test\r\nMAIL FROM:<a@a.test>\r\n");
  let heard = "";
  client.on("data", (text) => {
    heard += text;
  });
  await once(client, "close");
  server.close();
  expect(heard).toMatch(/250 2\.1\.0 ok\r\n421 4\.4\.2 no command came for too long\r\n$/);
});
