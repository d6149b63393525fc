/** The thread that reads large messages of the submission ports: workspaces in turn. */
import { afterAll, expect, test } from "vitest";
import { MessageBytes } from "../../src/smtp/messagebytes.ts";
import { MailReader } from "../../src/submission/mailreader.ts";
import { Malformed } from "../../src/submission/malformed.ts";

const HEAD = "From: orders@example.com\r\nTo: one@example.net\r\nSubject: Order\r\n";
const LARGE = `${HEAD}\r\n${"Thanks for your order.\r\n".repeat(10_000)}`;

const reader = new MailReader();
afterAll(() => reader.close());

function read(workspaceId: string, text = LARGE) {
  const bytes = new MessageBytes();
  bytes.add(Buffer.from(text));
  return reader.read(workspaceId, bytes, ["one@example.net"]);
}

test("a second workspace waits for one message, not for all of the first", async () => {
  const order: string[] = [];
  const readOne = async (workspaceId: string) => {
    expect((await read(workspaceId)).body).toMatchObject({ subject: "Order", to: ["one@example.net"] });
    order.push(workspaceId);
  };
  await Promise.all([...["one", "one", "one", "one"].map(readOne), readOne("two")]);
  expect(order).toEqual(["one", "one", "two", "one", "one"]);
});

test("one that cannot be read is refused, and the next is read", async () => {
  const [broken, next] = await Promise.allSettled([read("one", `no field\r\n${LARGE}`), read("one")]);
  expect(broken).toMatchObject({ status: "rejected", reason: expect.any(Malformed) });
  expect(next.status).toBe("fulfilled");
});
