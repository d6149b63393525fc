import fc from "fast-check";
import { expect, test } from "vitest";
import { attemptText, connectionText, readAttempt, withoutConnection } from "../../src/rules/connection.ts";

const word = fc.stringMatching(/^[A-Za-z0-9.:[\]]{1,20}$/);
const connection = fc.record(
  {
    host: word,
    ip: fc.option(word),
    tls: fc.option(fc.constantFrom("TLSv1.2", "TLSv1.3")),
    isVerified: fc.boolean(),
    policy: fc.constantFrom("sts" as const, "sts-testing" as const, "dane" as const, "setting" as const),
  },
  { requiredKeys: ["host", "ip", "tls", "isVerified"] },
);

test("what is written is read", () => {
  fc.assert(
    fc.property(connection, fc.nat(600_000), fc.option(word), fc.boolean(), (known, ms, from, isNamed) => {
      const provider = from !== null && isNamed ? "google" : "";
      expect(readAttempt(attemptText("dot", ms, connectionText(known, from), provider))).toEqual({
        phase: "dot",
        ms,
        from,
        provider: provider || null,
        ...known,
      });
    }),
  );
});

test("an attempt that reached nobody has a phase only", () => {
  const unknown = { host: null, ip: null, tls: null, isVerified: false, from: null, provider: null };
  expect(readAttempt(attemptText("route", undefined, undefined))).toEqual({
    phase: "route",
    ms: null,
    ...unknown,
  });
});

test("without the connection, phase and length stay", () => {
  fc.assert(
    fc.property(connection, fc.nat(600_000), (known, ms) => {
      expect(withoutConnection(attemptText("dot", ms, connectionText(known)))).toBe(`dot ${ms}`);
    }),
  );
});
