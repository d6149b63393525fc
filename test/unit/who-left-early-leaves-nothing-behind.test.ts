/** A browser may leave while its session is looked up. No event tells of that later, so it is asked for. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { Live } from "../../src/console/live.ts";
import { ConsoleRequest } from "../../src/console/request.ts";
import type { Sql } from "../../src/record/db/connect.ts";

const server = createServer();
afterEach(() => server.close());

/** A request of which half the body has come, and whose sender is gone. */
async function abandoned(): Promise<{ message: IncomingMessage; response: ServerResponse }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const asked = new Promise<{ message: IncomingMessage; response: ServerResponse }>((resolve) =>
    server.once("request", (message, response) => resolve({ message, response })),
  );
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.write("POST /console/call/live HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{");
  const { message, response } = await asked;
  const left = new Promise((resolve) => response.once("close", resolve));
  socket.destroy();
  await left;
  return { message, response };
}

test("a body that will not come is not waited for", async () => {
  const { message } = await abandoned();
  const room = { take: () => true, give: () => {} };
  const request = new ConsoleRequest(message, { room, trustProxy: false });
  expect(await request.body(100)).toEqual({ kind: "gone" });
});

test("a tab that was closed takes no stream of its account", async () => {
  const { response } = await abandoned();
  const live = new Live({
    lists: () => (() => Promise.reject(new Error("not asked"))) as unknown as Sql,
    now: Date.now,
    onFault() {},
  });
  const listener = { accountId: "a", workspaceId: "w", mayListen: async () => true };
  const open = () => live.open(listener, response);
  for (let n = 0; n < 20; n++) expect(open).not.toThrow();
});
