/** What is sent of an event stays below 20 KB, whatever the e-mail, and its id names it again. */
import { expect, test } from "vitest";
import type { EventRow } from "../../src/record/outbox/outbox.ts";
import { eventId, eventNamed, PAYLOAD_BYTES_MAX, payloadOf } from "../../src/webhooks/payload.ts";

const AT = new Date("2026-11-20T20:07:38.123Z");

function bounced(to: string[], subject: string, detail: string): EventRow {
  const head = { from: "Acme <orders@example.com>", to, cc: [], bcc: [], reply_to: [], subject };
  const entry = { type: "bounced", at: AT.toISOString(), recipient: to[0] as string, detail };
  return {
    sequence: 12,
    type: "email.bounced",
    at: AT,
    subjectId: "01a202b6-d627-7118-93d8-d108cb5b2494",
    email: { head, createdAt: AT.toISOString(), entry, tags: [{ name: "kind", value: "x".repeat(256) }] },
    contact: null,
    domain: null,
    cap: null,
  };
}

const people = (nameChars: number) =>
  Array.from(
    { length: 50 },
    (_, n) => `${"é".repeat(nameChars)} <${"a".repeat(50)}${n}@${"b".repeat(60)}.example>`,
  );

test.each([
  ["many recipients with long names", people(300), "Order", "550 no"],
  ["a subject of megabytes", people(0), "€".repeat(1_000_000), "550 no"],
  ["a receiver that talks", people(0), "Order", "€".repeat(100_000)],
  ["all of it", people(300), "\u0001".repeat(100_000), "\u0001".repeat(100_000)],
])("%s", (_, to, subject, detail) => {
  const text = payloadOf(bounced(to, subject, detail));
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(PAYLOAD_BYTES_MAX);
  expect(JSON.parse(text)).toMatchObject({
    type: "email.bounced",
    data: { email_id: "01a202b6-d627-7118-93d8-d108cb5b2494" },
  });
});

test("an ordinary one is whole", () => {
  const { data } = JSON.parse(payloadOf(bounced(["ada@example.net"], "Order 1", "550 no such user")));
  expect(data).toMatchObject({ to: ["ada@example.net"], subject: "Order 1", detail: "550 no such user" });
  expect(data).not.toHaveProperty("is_shortened");
});

test("the id of an event names its subject and its sequence, and nothing else is an id", () => {
  const event = { subjectId: "01a202b6-d627-7118-93d8-d108cb5b2494", sequence: 12 };
  const id = eventId(event);
  expect(eventNamed(id)).toEqual(event);
  expect(eventNamed(id.toUpperCase())).toEqual(event);
  for (const text of [
    "",
    "12",
    `${id}.`,
    id.replace("_12", "_012"),
    id.replace("_12", "_0"),
    `x${id}`,
    `${"-".repeat(36)}_12`,
    `${id}9999999999999999`,
  ])
    expect(eventNamed(text), text).toBeNull();
});
