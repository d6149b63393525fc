import { expect, test } from "vitest";
import { ByteBudget } from "../../src/delivery/bytesinhand.ts";

/** Somebody inside, until told to leave. */
function visit(
  room: ByteBudget,
  bytes: number,
  name: string,
  inside: Set<string>,
  waitMs = 60_000,
): () => Promise<boolean> {
  let leave = () => {};
  const stay = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const visited = room.with(bytes, waitMs, async () => {
    inside.add(name);
    await stay;
    inside.delete(name);
  });
  return () => {
    leave();
    return visited;
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("who asks first enters first, and what is larger than the room enters alone", async () => {
  const room = new ByteBudget(10);
  const inside = new Set<string>();
  const leaveA = visit(room, 6, "a", inside);
  const leaveLarge = visit(room, 1_000, "large", inside);
  const leaveB = visit(room, 1, "b", inside);
  const leaveC = visit(room, 10, "c", inside);
  await turn();
  expect([...inside]).toEqual(["a"]);
  await leaveA();
  await turn();
  expect([...inside]).toEqual(["large"]);
  await leaveLarge();
  await turn();
  expect([...inside]).toEqual(["b"]);
  await leaveB();
  await turn();
  expect([...inside]).toEqual(["c"]);
  await leaveC();
  expect([...inside]).toEqual([]);
});

test("work that fails leaves the room", async () => {
  const room = new ByteBudget(10);
  await expect(room.with(10, 0, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await room.with(10, 0, async () => {})).toBe(true);
});

test("who waited too long does not enter, and lets those behind pass", async () => {
  const room = new ByteBudget(10);
  const inside = new Set<string>();
  const leaveA = visit(room, 6, "a", inside);
  const large = visit(room, 10, "large", inside, 1);
  const leaveB = visit(room, 4, "b", inside);
  await expect.poll(() => [...inside]).toEqual(["a", "b"]);
  expect(await large()).toBe(false);
  expect([await leaveA(), await leaveB()]).toEqual([true, true]);
  expect([...inside]).toEqual([]);
});
