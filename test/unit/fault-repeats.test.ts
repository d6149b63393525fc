/** Which repetitions the auditor of `npm run fault` permits, and by what. */
import { describe, expect, test } from "vitest";
import type { Copy, Life, Spell } from "../fault/campaign/history.ts";
import { findRepeats } from "../fault/campaign/rules/repeats.ts";
import { copy, killed, life, second, spell } from "../rig/history.ts";

const again = (seconds: number, more: Partial<Copy> = {}): Copy =>
  copy(1, {
    process: "deliver-2.1",
    begunAt: second(seconds),
    completeAt: second(seconds),
    answeredAt: second(seconds),
    ...more,
  });

function causes(copies: Copy[], lives: Life[] = [], spells: Spell[] = []): (string | null)[] {
  const known = new Set(lives.map(({ name }) => name));
  const others = ["deliver-1.1", "deliver-2.1"].filter((name) => !known.has(name)).map((name) => life(name));
  return findRepeats(copies, [...lives, ...others], spells).map(({ cause }) => cause?.split(":")[0] ?? null);
}

test("one copy for each recipient is no repetition", () => {
  const rest = again(9, { recipients: ["other@receiver.test"] });
  expect(causes([copy(1), rest])).toEqual([]);
});

test("without a fault nothing permits a second copy, of another worker or of the same", () => {
  expect(causes([copy(1), again(9)])).toEqual([null]);
  expect(causes([copy(1), again(9, { process: "deliver-1.1" })])).toEqual([null]);
});

describe("the answer was lost", () => {
  test("because the receiver never gave it", () => {
    expect(causes([copy(1, { answeredAt: null }), again(9)])).toEqual(["answer lost"]);
  });

  test("because the connection broke with it, but not when it ended with QUIT or later", () => {
    const closed = second(3) + 100;
    expect(causes([copy(1, { closedAt: closed }), again(9)])).toEqual(["answer lost"]);
    expect(causes([copy(1, { closedAt: closed, closedPolitely: true }), again(9)])).toEqual([null]);
    expect(causes([copy(1, { closedAt: second(5) }), again(9)])).toEqual([null]);
  });
});

describe("the worker was killed", () => {
  test("before it can have noted the answer", () => {
    expect(causes([copy(1), again(9)], [killed("deliver-1.1", 4)])).toEqual(["killed"]);
  });

  test("long after it must have noted the answer, which explains nothing", () => {
    expect(causes([copy(1), again(30)], [killed("deliver-1.1", 20)])).toEqual([null]);
  });

  test("long after the answer, but unable to write since then", () => {
    const outage = spell("outage", null, 2, 19);
    expect(causes([copy(1), again(30)], [killed("deliver-1.1", 20)], [outage])).toEqual(["killed"]);
  });

  test("long after the answer, while Postgres needed seconds for a commit", () => {
    const slow = spell("slow", null, 2, 19);
    expect(causes([copy(1), again(30)], [killed("deliver-1.1", 20)], [slow])).toEqual(["killed"]);
  });
});

describe("the worker was told to end", () => {
  const ended = life("deliver-1.1", {
    told: { at: second(4), signal: "SIGTERM" },
    ended: { at: second(5), status: 0, signal: null },
  });

  test("which never permits a repetition", () => {
    expect(causes([copy(1), again(9)], [ended])).toEqual([null]);
  });

  test("while Postgres was slow, or long after it had been away, which does not either", () => {
    expect(causes([copy(1), again(9)], [ended], [spell("shaky", "deliver-1", 2, 9)])).toEqual([null]);
    expect(causes([copy(1), again(9)], [ended], [spell("slow", null, 2, 9)])).toEqual([null]);
    expect(causes([copy(1), again(9)], [ended], [spell("outage", null, 0.5, 1)])).toEqual([null]);
  });

  test("while nobody could write its notes, which does", () => {
    expect(causes([copy(1), again(9)], [ended], [spell("outage", null, 2, 6)])).toEqual(["stopped"]);
  });
});

describe("the worker stood still or was cut off", () => {
  test.each(["frozen", "cut"] as const)(
    "%s for longer than its lease, so that another took its bags",
    (kind) => {
      expect(causes([copy(1), again(28)], [], [spell(kind, "deliver-1", 3.5, 30)])).toEqual([kind]);
    },
  );

  test("for less than its lease, which loses no bag", () => {
    expect(causes([copy(1), again(8)], [], [spell("frozen", "deliver-1", 3.5, 8)])).toEqual([null]);
  });

  test("long after it had noted the answer", () => {
    expect(causes([copy(1), again(60)], [], [spell("frozen", "deliver-1", 30, 60)])).toEqual([null]);
  });

  test("and sent it again itself: it knew the answer", () => {
    const itself = again(32, { process: "deliver-1.1" });
    expect(causes([copy(1), itself], [], [spell("cut", "deliver-1", 3.5, 30)])).toEqual([null]);
  });

  test("when another one was", () => {
    expect(causes([copy(1), again(28)], [], [spell("frozen", "deliver-3", 3.5, 30)])).toEqual([null]);
  });

  test("with the mail half sent, which it finished when it woke up", () => {
    const woken = again(31, { begunAt: second(2) });
    const frozen = spell("frozen", "deliver-2", 2.5, 30);
    expect(
      causes(
        [copy(1, { begunAt: second(25), completeAt: second(25), answeredAt: second(25) }), woken],
        [],
        [frozen],
      ),
    ).toEqual(["in hand"]);
    const begunLater = again(50);
    expect(causes([copy(1), begunLater], [], [frozen])).toEqual([null]);
  });
});

test("a worker that wakes up has two mails of a connection half sent at most", () => {
  const frozen = spell("frozen", "deliver-2", 2.5, 30);
  const mails = [1, 2, 3].flatMap((n) => {
    const at = (seconds: number, process: string) =>
      copy(n, {
        process,
        begunAt: second(seconds),
        completeAt: second(seconds),
        answeredAt: second(seconds),
      });
    return [at(25, "deliver-1.1"), at(30 + n / 100, "deliver-2.1")];
  });
  expect(causes(mails, [], [frozen])).toEqual(["in hand", "in hand", null]);
});

test("a Postgres that nobody can reach permits nothing by itself", () => {
  expect(causes([copy(1), again(50)], [], [spell("outage", null, 2, 45)])).toEqual([null]);
});

test("each repetition needs a cause of its own", () => {
  const copies = [copy(1), again(9), again(30, { process: "deliver-3.1" })];
  expect(causes(copies, [killed("deliver-1.1", 4), life("deliver-3.1")])).toEqual(["killed", null]);
});
