import { expect, test } from "vitest";
import { Links } from "../../src/audience/links.ts";
import { Effects } from "../../src/automation/effects.ts";
import { compile } from "../../src/template/compile.ts";

const LETTERS = 12;
const AT = new Date("2026-01-01T00:00:00Z");
const ID = "0193a000-0000-7000-8000-000000000001";

test("others have their turn between two letters that take long", async () => {
  const slow = compile({
    subject: "s",
    html: "{% for n in (1..60000) %}{% endfor %}",
    text: null,
    from: "a@example.com",
    replyTo: [],
    declared: [],
  });
  const written: number[] = [];
  const effects = new Effects({
    submitOwn: async ({ emails }) => {
      written.push(emails.length);
      return { kind: "written", ids: emails.map(({ id }) => id) };
    },
    contacts: null as never,
    templates: { fetch: async () => new Map([["slow", slow]]) } as never,
    owners: { refused: () => new Set<string>() } as never,
    links: new Links("a secret of the tests, long enough", "http://127.0.0.1"),
    clock: { now: () => AT.getTime(), given: () => 0 },
    onFault: (error) => {
      throw error;
    },
  });
  let turns = 0;
  let isWriting = true;
  const others = (): void => {
    turns++;
    if (isWriting) setImmediate(others);
  };
  setImmediate(others);
  const { results } = await effects.happen(Array.from({ length: LETTERS }, (_, n) => stepOf(n)));
  isWriting = false;
  expect([...results.values()].map(({ result }) => result)).toEqual(Array(LETTERS).fill("done"));
  expect(written).toEqual([LETTERS]);
  // letters that were quick share a turn
  expect(turns).toBeGreaterThanOrEqual(3);
});

function stepOf(n: number) {
  const run = {
    workspaceId: ID,
    handle: "w",
    id: ID,
    automationId: ID,
    version: 1,
    audienceId: ID,
    contactId: ID,
    eventId: ID,
    position: String(n),
    seq: 1,
    claims: 1,
    steppedAt: AT,
    createdAt: AT,
  };
  const contact = {
    id: ID,
    email: "a@x.example",
    first_name: null,
    last_name: null,
    status: "subscribed" as const,
    tags: [],
    properties: {},
  };
  return {
    runInHand: { run, event: { name: "e", properties: {} }, plan: { fault: "" } },
    move: { kind: "send" as const, send: { template: "slow" }, contact, next: "1" },
  };
}
