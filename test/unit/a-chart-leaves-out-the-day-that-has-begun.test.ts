/** The charts of the overview and of the caps end with the last full day (UTC). */
import { afterEach, expect, test, vi } from "vitest";
import { fullDays } from "../../console/clock.ts";

const isUsed = ({ used }: { used: number }) => used > 0;
const namesOf = (days: readonly { day: string; used: number }[]) =>
  fullDays(days, isUsed).map(({ day }) => day);

afterEach(() => void vi.useRealTimers());

test("today is left out, unless there is little else", () => {
  vi.useFakeTimers({ now: Date.parse("2026-11-28T00:30:00Z") });
  const [first, second, today] = [
    { day: "2026-11-26", used: 300 },
    { day: "2026-11-27", used: 310 },
    { day: "2026-11-28", used: 4 },
  ];
  expect(namesOf([first, second, today])).toEqual(["2026-11-26", "2026-11-27"]);
  expect(namesOf([{ ...first, used: 0 }, second, today])).toHaveLength(3);
  expect(namesOf([first, second])).toEqual(["2026-11-26", "2026-11-27"]);
});
