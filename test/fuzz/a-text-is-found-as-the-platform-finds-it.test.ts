/** Long texts are searched by a way of our own: what it finds is what `includes` finds. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ComparingBudget, type Filter, holdsAll } from "../../src/rules/filters.ts";

const person = { id: "", email: "", first_name: null, last_name: null, tags: [], properties: {} };
const contact = { ...person, status: "subscribed" } as const;

function contains(text: string, wanted: string): boolean {
  const filters: Filter[] = [{ field: "event.properties.v", contains: wanted }];
  return holdsAll(filters, contact, { name: "a", properties: { v: text } }, new ComparingBudget());
}

/** Of few letters, so that much of it repeats itself; half a surrogate pair is a letter, too. */
const piece = fc.string({ unit: fc.constantFrom("a", "b", "é", "\ud83d"), minLength: 1, maxLength: 6 });

test("whatever repeats itself in either", () => {
  const drawn = fc.record({
    piece,
    end: piece,
    times: fc.integer({ min: 60, max: 3_000 }),
    isPart: fc.boolean(),
  });
  const property = fc.property(drawn, ({ piece, end, times, isPart }) => {
    const text = `${piece.repeat(times)}${end}${piece.repeat(times)}`;
    const wanted = isPart ? text.slice(-200 - times, -times) : `${piece.repeat(50)}${end}${end}`;
    expect(contains(text, wanted)).toBe(text.includes(wanted));
  });
  fc.assert(property, { numRuns: 2_000 });
});
