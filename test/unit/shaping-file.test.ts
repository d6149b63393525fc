import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readShaping, ShapingFile, type ShapingRules } from "../../src/shaping/file.ts";
import { ratesOn, ruleFor, Shaper, type SourceAddress } from "../../src/shaping/match.ts";
import { replyOf } from "../../src/smtp/reply.ts";

const OWN: SourceAddress = { name: "", address: null, helo: null, since: null };
const source = (name: string, since: number | null = null): SourceAddress => ({ ...OWN, name, since });
const read = (file: string) => readFileSync(new URL(`../../ops/${file}`, import.meta.url), "utf8");
const shaper = (rules: ShapingRules) => new Shaper(readShaping(JSON.stringify(rules)), OWN);

test("ops/shaping.json is valid, and its schema is beside it", () => {
  readShaping(read("shaping.json"));
  const { $schema: _dialect, ...schema } = JSON.parse(read("shaping.schema.json")) as Record<string, unknown>;
  expect(schema).toEqual(JSON.parse(JSON.stringify(ShapingFile)));
});

test.each([
  ["{}", "The shaping file lacks `rules`."],
  ['{"rules":[{"match":{},"connections":-1}]}', "`rules.0.connections` must be at least 0."],
  ['{"rules":[{"match":{},"conections":1}]}', "The shaping file has no field `rules.0.conections`."],
  [
    '{"rules":[{"match":{"mx":["*.x"]}}]}',
    "`rules.0.match.mx.0` must be a host name or domain in small letters.",
  ],
  [
    '{"rules":[{"match":{"provider":["gogle"]}}]}',
    "`rules.0.match.provider` names `gogle`, which `providers` does not have. Add it there.",
  ],
  ['{"sources":{"a":{"address":"192.0.2"}},"rules":[]}', "`sources.a.address` must be an IP address."],
  ['{"pools":{"p":["b"]},"rules":[]}', "`pools.p` names `b`, which `sources` does not have. Add it there."],
  [
    '{"rules":[{"match":{},"on_reply":[{"do":{"suspend_minutes":1}}]}]}',
    "`rules.0.on_reply.0` must name `code`, `enhanced` or `words`.",
  ],
])("%s is refused with the field and what to do", (text, message) => {
  expect(() => readShaping(text)).toThrow(message);
});

test("of several rules that match, the last that sets a field decides it", () => {
  const shape = shaper({
    providers: { big: { mx: ["big.test"] } },
    sources: { b: { address: "192.0.2.2" } },
    rules: [
      { match: {}, connections: 10, messages_per_second: 100, tls: "opportunistic" },
      { match: { provider: ["big"] }, connections: 5, tls: "required" },
      { match: { mx: ["big.test"] }, messages_per_second: 0, messages_per_minute: 50 },
      { match: { domain: ["other.test"] }, connections: 1 },
      { match: { source: ["b"] }, connections: 2 },
    ],
  }).shapeOf({ hosts: ["mx1.big.test", "mx2.big.test"], domain: "a.test" }, OWN);
  expect(shape).toMatchObject({
    provider: "big",
    connections: 5,
    rates: [{ most: 50, ms: 60_000 }],
    tls: "required",
    isOfDomain: false,
  });
});

test("a receiver is a provider's only when all of its hosts are", () => {
  const rules = shaper({
    providers: { big: { mx: ["big.test"] } },
    rules: [{ match: { provider: ["big"] }, connections: 5 }],
  });
  const connections = (...hosts: string[]) => rules.shapeOf({ hosts, domain: "a.test" }, OWN).connections;
  expect(connections("big.test", "mx.big.test")).toBe(5);
  expect(connections("mx.big.test", "mx.evil.test")).toBe(0);
  expect(connections("mx.notbig.test")).toBe(0);
  expect(connections()).toBe(0);
});

test("limits of a provider are counted together unless the rule says otherwise; those of a domain for itself", () => {
  const rules = shaper({
    providers: { big: { mx: ["big.test"] }, tall: { mx: ["tall.test"] } },
    rules: [
      { match: {}, connections: 10 },
      { match: { provider: ["big"] }, connections: 5 },
      { match: { provider: ["tall"] }, connections: 5, count: "by_receiver" },
      { match: { domain: ["a.test"] }, connections: 1 },
    ],
  });
  const countedAs = (host: string, domain: string) => rules.shapeOf({ hosts: [host], domain }, OWN).countedAs;
  expect(countedAs("mx.big.test", "b.test")).toBe("provider big");
  expect(countedAs("mx.tall.test", "b.test")).toBeNull();
  expect(countedAs("mx.any.test", "b.test")).toBeNull();
  expect(countedAs("mx.big.test", "a.test")).toBe("domain a.test");
});

test("the pool of a workspace or a stream: the last that matches", () => {
  const id = "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90";
  const rules = shaper({
    sources: { a: { address: "192.0.2.1" }, b: { address: "192.0.2.2" }, c: { address: "192.0.2.3" } },
    pools: { default: ["a"], news: ["b"], own: ["c", "b"] },
    use: [
      { stream: "bulk", pool: "news" },
      { workspace: id, pool: "own" },
    ],
    rules: [],
  });
  const names = (workspaceId: string, stream: string, pool: string | null = null) =>
    rules.poolOf({ workspaceId, stream, pool }).map(({ name }) => name);
  expect(names("someone", "transactional")).toEqual(["a"]);
  expect(names("someone", "bulk")).toEqual(["b"]);
  expect(names(id, "bulk")).toEqual(["c", "b"]);
  // the stream's own pool wins, where the file has it
  expect(names(id, "offers", "news")).toEqual(["b"]);
  expect(names(id, "offers", "unknown")).toEqual(["c", "b"]);
});

test("a new source address warms up day by day, and then there is no such limit", () => {
  const rules = shaper({
    sources: { a: { address: "192.0.2.1", since: "1970-01-11" }, b: { address: "192.0.2.2" } },
    warm_up: { slow: [50, 100] },
    rules: [{ match: {}, warm_up: "slow" }],
  });
  const at = (day: number, from: SourceAddress) =>
    ratesOn(day, rules.shapeOf({ hosts: ["mx.test"], domain: null }, from), from).map(({ most }) => most);
  const fresh = source("a", 10);
  expect([9, 10, 11, 12].map((day) => at(day, fresh))).toEqual([[0], [50], [100], []]);
  expect(at(10, source("b"))).toEqual([]);
});

test("a reply fits a rule when all that the rule names fits, whatever the letter case", () => {
  const rules = shaper({
    rules: [
      {
        match: {},
        on_reply: [
          { code: [421], words: ["[TSS04]", "unusual rate"], do: { suspend_minutes: 120 } },
          { enhanced: ["4.7.28"], do: { rotate_minutes: 5 } },
        ],
      },
    ],
  }).shapeOf({ hosts: ["mx.test"], domain: null }, OWN).onReply;
  const acts = (wire: string) => ruleFor(replyOf("dot", Number(wire.slice(0, 3)), wire), rules)?.do ?? null;
  expect(acts("421 4.7.0 [tss04] messages deferred")).toEqual({ suspend_minutes: 120 });
  expect(acts("450 4.7.28 an Unusual Rate of mail")).toEqual({ rotate_minutes: 5 });
  expect(acts("451 4.7.1 [TSS04] later")).toBeNull();
  expect(acts("250 2.0.0 [TSS04] taken")).toBeNull();
});
