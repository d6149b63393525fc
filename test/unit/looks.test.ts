/**
 * One statement answers the questions of all parts, and a question that cannot be answered keeps no other
 * from its answer.
 */
import { expect, test, vi } from "vitest";
import type { Sql, Statement } from "../../src/record/db/connect.ts";
import { Looks } from "../../src/record/db/looks.ts";
import { eventually } from "../rig/eventually.ts";

const TOO_SLOW = Object.assign(new Error("canceling statement due to statement timeout"), {
  name: "PostgresError",
  severity: "ERROR",
  code: "57014",
});

/** Answers each question with its name; statements with a question that is too slow are refused. */
function record(statements: string[][], slow: string): Sql {
  const answer = async (questions: string[]) => {
    statements.push(questions);
    if (questions.includes(slow)) throw TOO_SLOW;
    return [{ answers: [null, ...questions], ms: 0 }];
  };
  const tag = ({ raw }: TemplateStringsArray, ...values: unknown[]) =>
    raw.join("").includes("as answers") ? answer(values[0] as string[]) : values[0];
  return tag as unknown as Sql;
}

function looksAt(sql: Sql, names: readonly string[], onFault: (error: unknown) => void) {
  const looks = new Looks({ sql, given: () => 0, onFault });
  const answered: unknown[] = [];
  for (const name of names)
    looks.ask(
      10_000,
      () => name as unknown as Statement,
      (answer) => answered.push(answer),
    );
  return { looks, answered };
}

test("all parts are answered by one statement", async () => {
  const statements: string[][] = [];
  const { looks, answered } = looksAt(record(statements, ""), ["a", "b", "c"], () => {});
  await eventually(() => expect(answered).toEqual(["a", "b", "c"]));
  expect(statements).toEqual([["a", "b", "c"]]);
  looks.stop();
});

test("questions of several periods are asked together", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    const statements: string[][] = [];
    const looks = new Looks({ sql: record(statements, ""), given: () => 0, onFault: () => {} });
    for (const [name, everyMs] of Object.entries({ quarter: 250, half: 500, whole: 1_000 })) {
      looks.ask(
        everyMs,
        () => name as unknown as Statement,
        () => {},
      );
      await vi.advanceTimersByTimeAsync(130);
    }
    await vi.advanceTimersByTimeAsync(1_000);
    statements.length = 0;
    await vi.advanceTimersByTimeAsync(2_000);
    expect(statements).toHaveLength(8);
    expect(statements.filter((asked) => asked.length === 3)).toHaveLength(2);
    expect(statements.filter((asked) => asked.length === 2)).toHaveLength(2);
    looks.stop();
  } finally {
    vi.useRealTimers();
  }
});

test("one that takes too long is told of once, and the others are answered", async () => {
  const faults: unknown[] = [];
  const { looks, answered } = looksAt(record([], "b"), ["a", "b", "c"], (error) => faults.push(error));
  await eventually(() => expect(answered).toEqual(["a", "c"]));
  await eventually(() => expect(faults).toEqual([TOO_SLOW]));
  looks.stop();
});
