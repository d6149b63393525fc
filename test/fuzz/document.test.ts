/**
 * Requests made from the OpenAPI document, most of them a little wrong: whatever is asked, the answer is in
 * the document, and none is 500. `FUZZ_SEED` repeats a run.
 */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DOCUMENT, holdToDocument, type Operation, PATHS } from "../rig/document.ts";
import { type Client, mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const RUNS = Number(process.env.FUZZ_RUNS ?? 12);
const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
const DEPTH_MAX = 4;

type Schema = Record<string, unknown>;
let api: TestApi;
let ws: TestWorkspace;
/** What there is, by what may stand in a path. */
let known: string[];
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  known = await fill(ws.client);
});
afterAll(async () => {
  await api.stop();
});

const OPERATIONS = Object.entries(PATHS).flatMap(([path, operations]) =>
  Object.entries(operations)
    // another test makes keys of domains: each takes a core some tenths of a second
    .filter(([method]) => !(method === "post" && path === "/domains"))
    .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);

test.each(OPERATIONS)(
  "$method $path",
  async ({ method, path, operation }) => {
    await fc.assert(
      fc.asyncProperty(requests(path, operation), async ({ url, body }) => {
        const response = await fetch(`${api.url}/api/v1${url}`, {
          method,
          headers: { authorization: `Bearer ${ws.client.key}`, "content-type": "application/json" },
          ...(body === undefined || method === "GET" ? {} : { body: JSON.stringify(body) }),
        });
        const answer = await response.json();
        const asked = `${method} ${url} ${JSON.stringify(body)?.slice(0, 2_000)}`;
        expect(response.status, `${asked}: ${JSON.stringify(answer)}`).not.toBe(500);
        holdToDocument(method, url, response.status, answer);
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
    expect(api.faults).toEqual([]);
  },
  120_000,
);

function requests(path: string, { parameters = [], requestBody }: Operation) {
  const params = parameters.filter((one) => one.in === "path");
  const query = parameters.filter((one) => one.in === "query");
  const schema = requestBody?.content["application/json"]?.schema as Schema | undefined;
  return fc
    .record({
      ids: fc.tuple(...params.map(() => idArbitrary())),
      asked: fc.tuple(
        ...query.map((one) => fc.option(oddly(arbitraryOf(one.schema, 0)), { nil: undefined, freq: 2 })),
      ),
      body: schema ? oddly(arbitraryOf(schema, 0)) : fc.constant(undefined),
    })
    .map(({ ids, asked, body }) => {
      let url = path;
      for (const [n, { name }] of params.entries())
        url = url.replace(`{${name}}`, encodeURIComponent(ids[n] ?? "x"));
      const search = new URLSearchParams();
      for (const [n, { name }] of query.entries())
        if (asked[n] !== undefined) search.set(name, String(asked[n]));
      return { url: search.size > 0 ? `${url}?${search}` : url, body };
    });
}

/** Ids of what there is, ids of nothing, and what is no id. */
function idArbitrary(): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.nat().map((n) => known[n % known.length] as string) },
    { weight: 1, arbitrary: fc.uuid() },
    {
      weight: 1,
      arbitrary: fc.string({ minLength: 1, maxLength: 20 }).filter((text) => !/^\.{1,2}$/.test(text)),
    },
  );
}

/** Now and then something that nobody asked for. */
function oddly(arbitrary: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const junk = fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.constant([]),
  );
  return fc.oneof({ weight: 8, arbitrary }, { weight: 1, arbitrary: junk });
}

function arbitraryOf(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  const { $ref, anyOf, type, properties, required, items, minItems, maxItems } = schema;
  if (typeof $ref === "string") return arbitraryOf(referred($ref), depth);
  if ("const" in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]));
  if (Array.isArray(anyOf)) return fc.oneof(...(anyOf as Schema[]).map((one) => arbitraryOf(one, depth)));
  if (depth > DEPTH_MAX) return fc.constant(null);
  switch (type) {
    case "object": {
      const fields = Object.entries((properties ?? {}) as Record<string, Schema>);
      const needed = (required ?? []) as string[];
      if (fields.length === 0)
        return fc.dictionary(fc.string({ maxLength: 10 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 });
      const shape = Object.fromEntries(fields.map(([name, of]) => [name, oddly(arbitraryOf(of, depth + 1))]));
      return fc.record(shape, { requiredKeys: needed });
    }
    case "array": {
      const max = Math.min((maxItems as number | undefined) ?? 3, 3);
      return fc.array(oddly(arbitraryOf((items ?? {}) as Schema, depth + 1)), {
        minLength: Math.min((minItems as number | undefined) ?? 0, max),
        maxLength: max,
      });
    }
    case "integer":
      return fc.integer({ min: -1, max: 200 });
    case "number":
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "string":
      return fc.oneof(
        fc.string({ maxLength: 60 }),
        fc.string({ unit: "grapheme", maxLength: 20 }),
        fc.uuid(),
        fc.constantFrom(
          "a@example.net",
          "Ann <ann@example.net>",
          "2026-11-20T20:07:38.123Z",
          "in 5 minutes",
          "signed.up",
        ),
        fc.nat().map((n) => known[n % known.length] as string),
      );
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

function referred($ref: string): Schema {
  const name = $ref.split("/").at(-1) as string;
  return (DOCUMENT.components.schemas as Record<string, Schema>)[name] as Schema;
}

async function fill(client: Client): Promise<string[]> {
  const made = async (path: string, body: unknown) => (await client.post<{ id: string }>(path, body)).body.id;
  const audience = await made("/audiences", { name: "People" });
  const contact = await made("/contacts", { email: "ann@example.net", audience_id: audience });
  const content = Buffer.from("a").toString("base64");
  const email = await made("/emails", mail({ attachments: [{ filename: "a.txt", content }] }));
  const later = await made("/emails", mail({ scheduled_at: "in 5 days" }));
  const template = await made("/templates", { name: "A", html: "<p>A</p>", alias: "fuzz" });
  const automation = await made("/automations", {
    name: "A",
    audience_id: audience,
    event: "signed.up",
    steps: [{ wait: "1d" }],
  });
  await made("/events/send", { contact_id: contact, event: "signed.up" });
  const [run] = (await client.get<{ data: { id: string }[] }>(`/automations/${automation}/runs`)).body.data;
  const suppression = await made("/suppressions", { email: "gone@example.net" });
  const domain = await made("/domains", { name: "fuzz.example.com" });
  return [
    ...[audience, contact, email, later, template, automation, run?.id ?? contact, suppression, domain],
    ...["ann@example.net", "gone@example.net", "fuzz", "fuzz.example.com"],
  ];
}
