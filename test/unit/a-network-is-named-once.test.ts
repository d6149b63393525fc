/** Limits count by network: however an address is written, its network has one name. */
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { ConsoleRequest } from "../../src/console/request.ts";

function visitor(forwarded: string): string {
  const message = { headers: { "x-forwarded-for": forwarded }, once() {}, socket: {} };
  const room = { take: () => true, give: () => {} };
  return new ConsoleRequest(message as unknown as IncomingMessage, { room, trustProxy: true }).visitor;
}

test.each([
  ["2001:db8::a:1", "2001:db8::b:2"],
  ["2001:DB8:0:0:1:2:3:4", "2001:db8::9"],
  ["2001:db8:1::5", "2001:db8:1:0:7:7:7:7"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["192.0.2.1:50000", "192.0.2.1:50001"],
  ["[2001:db8::1]:443", "2001:db8::2"],
])("%s and %s are of one network", (one, other) => {
  expect(visitor(one)).toBe(visitor(other));
});

test("neighbours are others", () => {
  const all = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:1::1", "::1"].map(
    visitor,
  );
  expect(new Set(all).size).toBe(all.length);
});

test("a visitor adds to what the proxy says, and is not believed", () => {
  expect(visitor("198.51.100.1, 192.0.2.1")).toBe(visitor("192.0.2.1"));
});
