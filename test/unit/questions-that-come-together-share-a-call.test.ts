import { expect, test } from "vitest";
import { Together } from "../../src/admission/together.ts";

/** Calls that the test answers. */
function held() {
  const calls: { questions: readonly number[]; answer(): void; fail(error: Error): void }[] = [];
  const together = new Together<number, string>(
    (questions) =>
      new Promise((resolve, reject) => {
        calls.push({ questions, answer: () => resolve(questions.map(String)), fail: reject });
      }),
  );
  return { calls, together };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("those of one turn share a call, and those that come meanwhile the next", async () => {
  const { calls, together } = held();
  const first = [together.ask("a", 1), together.ask("a", 2)];
  await turn();
  const second = [together.ask("a", 3)];
  await turn();
  second.push(together.ask("a", 4));
  await turn();
  expect(calls.map(({ questions }) => questions)).toEqual([[1, 2]]);
  calls[0]?.answer();
  expect(await Promise.all(first)).toEqual(["1", "2"]);
  expect(calls.map(({ questions }) => questions)).toEqual([
    [1, 2],
    [3, 4],
  ]);
  calls[1]?.answer();
  expect(await Promise.all(second)).toEqual(["3", "4"]);
});

test("a kind does not wait for another", async () => {
  const { calls, together } = held();
  void together.ask("a", 1);
  const other = together.ask("b", 2);
  await turn();
  calls[1]?.answer();
  expect(await other).toBe("2");
});

test("who waits behind a call that fails hears of it at once, and the next may ask again", async () => {
  const { calls, together } = held();
  const first = together.ask("a", 1);
  await turn();
  const second = together.ask("a", 2);
  calls[0]?.fail(new Error("away"));
  await expect(first).rejects.toThrow("away");
  await expect(second).rejects.toThrow("away");
  const third = together.ask("a", 3);
  await turn();
  expect(calls.map(({ questions }) => questions)).toEqual([[1], [3]]);
  calls[1]?.answer();
  expect(await third).toBe("3");
});

test("a hundred at most share a call", async () => {
  const { calls, together } = held();
  const all = Array.from({ length: 150 }, (_, n) => together.ask("a", n));
  await turn();
  calls[0]?.answer();
  expect(await all[99]).toBe("99");
  calls[1]?.answer();
  expect(await all[149]).toBe("149");
  expect(calls.map(({ questions }) => questions.length)).toEqual([100, 50]);
});
