/** The thread for large bodies: workspaces in turn, and nothing for a client that has gone. */
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { findExcess, JSON_VALUES_MAX } from "../../src/api/json.ts";
import { type Body, JsonParser } from "../../src/api/jsonthread.ts";

/** As many e-mails as a batch may hold, each with values that nobody reads. */
const LARGE = Buffer.from(`[${`{"a":"b","c":[${"[1,2.5],".repeat(250)}0]},`.repeat(99)}{}]`);

let parser: JsonParser;
beforeAll(() => {
  parser = new JsonParser();
});
afterAll(() => parser.close());

function bodyOf(workspaceId: string, bytes = LARGE, onGone: Body["onGone"] = () => {}): Body {
  const reading = { fields: ["a"], itemsMax: 100 };
  return { chunks: [Buffer.from(bytes)], size: bytes.length, workspaceId, reading, digestPrefix: "", onGone };
}

test("a second workspace waits for one body, not for all of the first", async () => {
  const order: string[] = [];
  const parse = async (workspaceId: string) => {
    await parser.parse(bodyOf(workspaceId));
    order.push(workspaceId);
  };
  await Promise.all([...["one", "one", "one", "one"].map(parse), parse("two")]);
  expect(order).toEqual(["one", "one", "two", "one", "one"]);
});

test("a body whose client has gone is not parsed", async () => {
  const drops: (() => void)[] = [];
  const first = parser.parse(bodyOf("one"));
  const gone = parser.parse(bodyOf("one", LARGE, (dropped) => drops.push(dropped)));
  const last = parser.parse(bodyOf("one"));
  for (const drop of drops) drop();
  await expect(gone).rejects.toThrow("the client has gone");
  expect(await first).toMatchObject({ kind: "json" });
  expect(await last).toMatchObject({ kind: "json" });
});

test("who leaves while its body is parsed waits for nothing, and the next is parsed", async () => {
  const drops: (() => void)[] = [];
  const gone = parser.parse(bodyOf("one", LARGE, (dropped) => drops.push(dropped)));
  const next = parser.parse(bodyOf("one"));
  for (const drop of drops) drop();
  await expect(gone).rejects.toThrow("the client has gone");
  expect(await next).toMatchObject({ kind: "json" });
});

test("a body that takes too long is refused, and the next is parsed by another thread", async () => {
  const terminate = vi.spyOn(Worker.prototype, "terminate");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    const late = parser.parse(bodyOf("one"));
    vi.advanceTimersByTime(10_000);
    await expect(late).rejects.toThrow("a large body was not parsed in time");
  } finally {
    vi.useRealTimers();
  }
  expect(terminate).toHaveBeenCalledOnce();
  terminate.mockRestore();
  expect(await parser.parse(bodyOf("one"))).toMatchObject({ kind: "json" });
});

test("only what is read comes back, as it was", async () => {
  const parsed = await parser.parse(bodyOf("one"));
  if (parsed.kind !== "json" || !Array.isArray(parsed.value)) throw new Error(parsed.kind);
  expect(parsed.value).toHaveLength(100);
  expect(parsed.value[0]).toEqual({ a: "b" });
  expect(parsed.digest()).toHaveLength(64);
});

test("values are counted in the bytes, wherever they hide", () => {
  const excess = (text: string) => findExcess(Buffer.from(text))?.kind ?? "fine";
  expect(excess(`[${"1.5,".repeat(JSON_VALUES_MAX - 3)}1]`)).toBe("fine");
  expect(excess(`[${"1.5,".repeat(JSON_VALUES_MAX)}1]`)).toBe("too many");
  expect(excess(`[${"7,".repeat(JSON_VALUES_MAX)}7]`)).toBe("fine");
  expect(excess(`["${"[,{".repeat(JSON_VALUES_MAX)}"]`)).toBe("fine");
  expect(excess(`["\\"${",".repeat(JSON_VALUES_MAX)}\\\\", [[]]]`)).toBe("fine");
  expect(excess(`${"[".repeat(33)}${"]".repeat(33)}`)).toBe("too deep");
  expect(excess(`${"[".repeat(32)}${"]".repeat(32)}`)).toBe("fine");
  expect(excess('"never ends \\')).toBe("fine");
});
