/** The faults of a campaign follow from its seed alone. */
import { expect, test } from "vitest";
import { drawFaults, KINDS, kindsNamed, type Target } from "../fault/campaign/faults.ts";

const members: Target[] = [
  { name: "api-1", role: "api" },
  { name: "deliver-1", role: "deliver" },
];

test("the same seed draws the same faults, another one others", () => {
  const drawn = (seed: number) => drawFaults(seed, 10, kindsNamed(null), members);
  expect(drawn(7)).toEqual(drawn(7));
  expect(drawn(7)).not.toEqual(drawn(8));
});

test("each lasts as long as its kind allows, befalls whom it may, and comes within the campaign", () => {
  for (const { kind, member, lastsMs, atMs } of drawFaults(3, 60, kindsNamed(null), members)) {
    const [least, most] = KINDS[kind]?.lastsMs ?? [0, 0];
    expect(lastsMs).toBeGreaterThanOrEqual(least);
    expect(lastsMs).toBeLessThanOrEqual(most);
    expect(member === null).toBe(KINDS[kind]?.roles === null);
    expect(atMs).toBeLessThan(3_600_000);
  }
});

test("an hour has every kind of fault", () => {
  const kinds = new Set(drawFaults(1, 60, kindsNamed(null), members).map(({ kind }) => kind));
  expect([...kinds].sort()).toEqual(kindsNamed(null).sort());
});

test("kinds are named in full or by their first part", () => {
  expect(kindsNamed("kill,redis-flush")).toEqual(["kill", "redis-flush"]);
  expect(kindsNamed("redis")).toEqual(kindsNamed(null).filter((kind) => kind.startsWith("redis-")));
  expect(kindsNamed("none")).toEqual([]);
  expect(() => kindsNamed("flood")).toThrow("there is no fault called flood");
});
