/**
 * Whoever has as many connections to an SMTP port as one address may have is refused more of them, and costs
 * nothing by what it sends all the same.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { createSecureContext } from "node:tls";
import { expect, test } from "vitest";
import { SmtpListener } from "../../src/smtp/listener.ts";

test("of a connection that is refused nothing is left, whatever it has sent", async () => {
  const listener = new SmtpListener({
    limits: { connectionsMax: 0, connectionsEachMax: 0 },
    secureContext: () => createSecureContext(),
    onFault(error) {
      throw error;
    },
  });
  const port = await listener.listen("127.0.0.1", 0, () => {
    throw new Error("no session may begin");
  });
  const client = connect(port, "127.0.0.1").setEncoding("latin1");
  client.write("EHLO client.example\r\n".repeat(1_000));
  const [heard] = await once(client, "data");
  expect(heard).toBe("421 4.7.0 too many connections\r\n");
  // resolves when no connection is open
  await listener.stop();
});
