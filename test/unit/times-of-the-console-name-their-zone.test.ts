/** A time stands beside sentences in UTC and replies of receivers, so it says which zone it is in. */
import { expect, test } from "vitest";
import { fullTime, withFullTimes } from "../../console/words.ts";

const ZONE = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" })
  .formatToParts(Date.parse("2026-11-27T12:30:00Z"))
  .find(({ type }) => type === "timeZoneName")?.value;

test("a time ends with its zone", () => {
  expect(fullTime("2026-11-27T12:30:00Z")).toMatch(/ Nov 2026, \d\d:30:00 \S+$/);
  expect(fullTime("2026-11-27T12:30:00Z")).toMatch(new RegExp(`${ZONE}$`));
});

test("so do the times of a sentence, and what is no time stays as it is", () => {
  expect(withFullTimes("Set at 2026-11-27T12:30:00.000Z by ada.")).toBe(
    `Set at ${fullTime("2026-11-27T12:30:00Z")} by ada.`,
  );
  expect(withFullTimes("It is scheduled for 2026-11-27 12:30:00 UTC.")).toBe(
    `It is scheduled for ${fullTime("2026-11-27T12:30:00Z")}.`,
  );
  expect(fullTime("yesterday")).toBe("yesterday");
});
