/**
 * Whatever is asked of a contact, in any order and at any time: what `change` promises holds after every
 * step.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type ChangeContext,
  type ChangedContact,
  type ContactChange,
  type ContactFields,
  change,
  type LockedContact,
  type OptIn,
  PROPERTIES_BYTES_MAX,
  TAGS_MAX,
} from "../../src/rules/contact.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START = Date.UTC(2026, 0, 1);
const VISITOR = { ipAddress: "192.0.2.1", userAgent: null };
const CONSENT = {
  source: "form",
  capturedAt: new Date(START),
  ipAddress: null,
  userAgent: null,
  wording: null,
  textVersion: null,
};

const tag = fc.oneof(
  fc.constantFrom("a", "b", "B", "ä", "__proto__"),
  fc.string({ minLength: 1, maxLength: 3 }),
);
const manyTags = fc.nat(TAGS_MAX).map((n) => Array.from({ length: n }, (_, k) => `tag ${k}`));
const property = fc.oneof(
  fc.constant(null),
  fc.integer(),
  fc.string({ maxLength: 5 }),
  fc.constant("x".repeat(PROPERTIES_BYTES_MAX / 2)),
);
const properties = fc.dictionary(fc.constantFrom("one", "two", "three", "__proto__"), property);
const fields: fc.Arbitrary<ContactFields> = fc.record(
  {
    firstName: fc.option(fc.string({ maxLength: 3 })),
    properties: fc.option(properties),
    unsubscribed: fc.boolean(),
    tags: fc.oneof(fc.array(tag, { maxLength: 4 }), manyTags, fc.constant(null)),
  },
  { requiredKeys: [] },
);
const optIn: fc.Arbitrary<OptIn> = fc
  .record({ doubleOptIn: fc.option(fc.boolean(), { nil: undefined }), isGiven: fc.boolean() })
  .map(({ doubleOptIn, isGiven }) => ({
    ...(doubleOptIn !== undefined && { doubleOptIn }),
    consent: isGiven ? CONSENT : null,
  }));

/** `confirm` names the mail by how many were asked before it. */
type Step = {
  afterMs: number;
  asked: Exclude<ContactChange, { kind: "confirm" }> | { kind: "confirm"; back: number };
};
const asked: fc.Arbitrary<Step["asked"]> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ fields, optIn }).map((given) => ({ kind: "add", ...person(), ...given }) as const),
  },
  {
    weight: 4,
    arbitrary: fc.record({ fields, optIn }).map((given) => ({ kind: "edit", ...given }) as const),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ add: fc.array(tag, { maxLength: 3 }), remove: fc.array(tag, { maxLength: 3 }) })
      .map((tags) => ({ kind: "tag", ...tags }) as const),
  },
  { weight: 2, arbitrary: fc.constant({ kind: "archive" } as const) },
  { weight: 1, arbitrary: fc.constant({ kind: "erase" } as const) },
  { weight: 2, arbitrary: fc.constant({ kind: "unsubscribe", source: "link", visitor: VISITOR } as const) },
  { weight: 3, arbitrary: fc.nat(3).map((back) => ({ kind: "confirm", back }) as const) },
);
const afterMs = fc.oneof(
  fc.constantFrom(0, 1, HOUR_MS, DAY_MS - 1, DAY_MS, DAY_MS + 1, 7 * DAY_MS, 8 * DAY_MS),
  fc.integer({ min: -HOUR_MS, max: 2 * DAY_MS }),
);
const steps: fc.Arbitrary<Step[]> = fc.array(fc.record({ afterMs, asked }), { minLength: 1, maxLength: 40 });
const start = fc.record({ doubleOptIn: fc.boolean(), isSuppressed: fc.boolean() });

function person() {
  return { id: "0193a000-0000-7000-8000-000000000001", identity: "a@x.example", email: "A@x.example" };
}

type Seen = {
  before: LockedContact | null;
  after: LockedContact | null;
  /** As it was before the change. */
  held: LockedContact | null;
  asked: ContactChange;
  result: ChangedContact;
  setting: ChangeContext;
};

/** Runs the steps on one contact, and shows every change to `look`. */
function play(
  given: { doubleOptIn: boolean; isSuppressed: boolean },
  some: readonly Step[],
  look: (seen: Seen) => void,
) {
  const audience = { workspaceId: "w", id: "audience", doubleOptIn: given.doubleOptIn };
  const mails: number[] = [];
  let held: LockedContact | null = null;
  let now = START;
  for (const { afterMs: ms, asked: wanted } of some) {
    now += ms;
    const setting: ChangeContext = {
      audience,
      isSuppressed: given.isSuppressed,
      keyId: null,
      now: new Date(now),
    };
    const step: ContactChange =
      wanted.kind === "confirm"
        ? { kind: "confirm", askedAt: mails.at(-1 - wanted.back) ?? START, visitor: VISITOR }
        : wanted;
    const before: LockedContact | null = structuredClone(held);
    const was: LockedContact | null = held;
    const result = change(held, step, setting, (added) => {
      held = added;
    });
    if (result.kind === "changed" && result.asks) mails.push(now);
    look({ before, after: held, held: was, asked: step, result, setting });
  }
}

function always(
  look: (given: { doubleOptIn: boolean; isSuppressed: boolean }) => (seen: Seen) => void,
): void {
  fc.assert(
    fc.property(start, steps, (given, some) => play(given, some, look(given))),
    { numRuns: 3_000 },
  );
}

test("nobody pending or unsubscribed becomes subscribed without confirming or a consent record", () => {
  always((given) => ({ before, held, after, asked: step }) => {
    if (after?.contact.status !== "subscribed") return;
    const isKnown = held !== null && held === after;
    if (isKnown && before?.contact.status === "subscribed") return;
    if (step.kind === "confirm") return;
    const isSkipping = "optIn" in step && step.optIn.doubleOptIn === false && step.optIn.consent !== null;
    if (isSkipping) {
      const hadWithdrawn = isKnown ? before?.contact.status === "unsubscribed" : given.isSuppressed;
      if (hadWithdrawn) expect("fields" in step && step.fields.unsubscribed).toBe(false);
      return expect(after.consents.at(-1)).toMatchObject({ kind: "given" });
    }
    // somebody new, in an audience that asks for nothing, of whom nothing is kept
    expect({ isKnown, kind: step.kind, ...given }).toEqual({
      isKnown: false,
      kind: "add",
      doubleOptIn: "optIn" in step && step.optIn.doubleOptIn === false ? given.doubleOptIn : false,
      isSuppressed: false,
    });
  });
});

test("at most one mail in 24 hours, and three until one is answered", () => {
  always(() => {
    let last: number | null = null;
    let unanswered = 0;
    return ({ held, after, before, result, asked: step, setting }) => {
      // erased: somebody else from here on
      if (held !== after) [last, unanswered] = [null, 0];
      const wasSubscribed = before?.contact.status === "subscribed";
      if (held === after && !wasSubscribed && after?.contact.status === "subscribed") unanswered = 0;
      if (result.kind !== "changed" || !result.asks) return;
      const now = setting.now.getTime();
      if (last !== null) expect(now - last).toBeGreaterThanOrEqual(DAY_MS);
      last = now;
      expect(++unanswered, step.kind).toBeLessThanOrEqual(3);
      expect(after?.contact.status).not.toBe("subscribed");
      expect(after?.confirmation).toMatchObject({ askedAt: setting.now, isOpen: true, isMailed: false });
    };
  });
});

test("tags are sorted and unique, and the whole contact keeps its limits", () => {
  always(() => ({ after, asked: step, result }) => {
    if (!after) return;
    const { tags, properties: kept } = after.contact;
    if ("fields" in step && step.fields.tags === null && result.kind === "changed") expect(tags).toEqual([]);
    expect(tags).toEqual([...new Set(tags)].sort());
    expect(tags.length).toBeLessThanOrEqual(TAGS_MAX);
    expect(Buffer.byteLength(JSON.stringify(kept))).toBeLessThanOrEqual(PROPERTIES_BYTES_MAX);
    expect(Object.values(kept)).not.toContain(null);
  });
});

test("a refused change changes nothing", () => {
  always(() => ({ before, held, after, result }) => {
    if (result.kind === "changed") return;
    expect(after).toBe(held);
    expect(after).toEqual(before);
  });
});

test("an archived contact is seen by no change but adding, unsubscribing and erasing it", () => {
  always(() => ({ before, result, asked: step }) => {
    const isGone = before === null || before.isErased;
    const isArchived = !isGone && before.contact.archivedAt !== null;
    if (isGone && step.kind !== "add") return expect(result).toEqual({ kind: "no contact" });
    if (!isArchived) return;
    if (["add", "unsubscribe", "erase"].includes(step.kind)) expect(result.kind).not.toBe("no contact");
    else expect(result).toEqual({ kind: "no contact" });
  });
});

test("what somebody said is kept: a confirmation and a withdrawal each leave one record, and nothing is taken back", () => {
  always(() => ({ before, held, after, asked: step, result }) => {
    if (after && held !== after) {
      const isWithdrawn = step.kind === "add" && step.fields.unsubscribed === true;
      const withdrawn = after.consents.filter(({ kind }) => kind === "withdrawn");
      return expect(withdrawn).toHaveLength(isWithdrawn ? 1 : 0);
    }
    if (!after || !before) return;
    expect(after.consents.slice(0, before.consents.length)).toEqual(before.consents);
    const added = after.consents.slice(before.consents.length).map(({ kind }) => kind);
    const wentOut = before.contact.status !== "unsubscribed" && after.contact.status === "unsubscribed";
    expect(added.filter((kind) => kind === "withdrawn")).toHaveLength(wentOut ? 1 : 0);
    const isConfirmed = step.kind === "confirm" && result.kind === "changed";
    expect(added.filter((kind) => kind === "confirmed")).toHaveLength(isConfirmed ? 1 : 0);
  });
});
