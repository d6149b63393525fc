import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { TemplateCache } from "../../src/template/cache.ts";
import { TemplateFault } from "../../src/template/fault.ts";
import { RenderBudget } from "../../src/template/render.ts";
import { services } from "../rig/services.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

/** Compiling all of them takes some seconds of CPU, and a busy machine has a part of one to give. */
const STORY_MS_MAX = 180_000;
const READ_MS_MAX = 20_000;
/** Nearly all that one may take to compile. */
const LARGE = "{{a}}".repeat(1_900);

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

async function put(name: string, html: string): Promise<string> {
  return (await ws.client.call<{ id: string }>("PUT", `/templates/${name}`, { html })).body.id;
}

test("for all who ask at the same time, by any of its names, until it changes", async () => {
  const templates = new TemplateCache(api.sql, READ_MS_MAX);
  const id = await put("a", "first");
  const asked = await Promise.all(
    Array.from({ length: 20 }, () => templates.fetch(ws.id, ["a", id, id.toUpperCase()])),
  );
  const compiled = asked.flatMap((found) => [...found.values()]);
  expect(compiled).toHaveLength(60);
  expect(new Set(compiled).size).toBe(1);
  await put("a", "second");
  const changed = (await templates.fetch(ws.id, ["a"])).get("a");
  expect(changed).toBeDefined();
  expect(changed).not.toBe(compiled[0]);
});

test(
  "and what was not used for long is given up",
  async () => {
    const templates = new TemplateCache(api.sql, READ_MS_MAX);
    await put("small", "x");
    const first = (await templates.fetch(ws.id, ["small"])).get("small");
    const large = Array.from({ length: 10 }, (_, n) => `large-${n}`);
    await Promise.all(large.map((name) => put(name, LARGE)));
    for (const name of large.slice(0, 3)) await templates.fetch(ws.id, [name]);
    expect((await templates.fetch(ws.id, ["small"])).get("small")).toBe(first);
    for (const name of large) await templates.fetch(ws.id, [name]);
    expect((await templates.fetch(ws.id, ["small"])).get("small")).not.toBe(first);
  },
  STORY_MS_MAX,
);

test.each([
  ["values", `{% cycle ${"1,".repeat(1_900)}1 %}`.repeat(4)],
  ["conditions", `{% if ${"a and ".repeat(640)}a %}{% endif %}`.repeat(4)],
  ["statements", `{% liquid\n${"echo a\n".repeat(550)}%}`.repeat(5)],
])(
  "few are kept of those that take much for their length: %s",
  async (shape, html) => {
    const templates = new TemplateCache(api.sql, READ_MS_MAX);
    const names = Array.from({ length: 12 }, (_, n) => `${shape}-${n}`);
    await Promise.all(names.map((name) => put(name, html)));
    const fetched = async (name: string) => (await templates.fetch(ws.id, [name])).get(name);
    const first = await fetched(names[0] as string);
    for (const name of names) await fetched(name);
    expect(await fetched(names[0] as string)).not.toBe(first);
  },
  STORY_MS_MAX,
);

test(
  "a request compiles no more than it may use",
  async () => {
    const templates = new TemplateCache(api.sql, READ_MS_MAX);
    const names = Array.from({ length: 20 }, (_, n) => `together-${n}`);
    await Promise.all(names.map((name) => put(name, LARGE)));
    const found = await templates.fetch(ws.id, names, new RenderBudget(0));
    const compiled = names.filter((name) => !(found.get(name) instanceof TemplateFault));
    expect(found.size).toBe(names.length);
    expect(compiled.length).toBeGreaterThan(0);
    expect(compiled.length).toBeLessThan(12);
    expect(compiled).toEqual(names.slice(0, compiled.length));
    const again = await templates.fetch(ws.id, names, new RenderBudget(0));
    expect(names.filter((name) => !(again.get(name) instanceof TemplateFault))).toEqual(compiled);
  },
  STORY_MS_MAX,
);

test("nobody finds what is not theirs, or not there", async () => {
  const templates = new TemplateCache(api.sql, READ_MS_MAX);
  const id = await put("own", "x");
  const other = await api.workspace();
  expect((await templates.fetch(other.id, ["own", id])).size).toBe(0);
  expect([...(await templates.fetch(ws.id, ["own", "none"])).keys()]).toEqual(["own"]);
});

test(
  "and finding it stays quick among 100,000",
  async () => {
    const crowd = await api.workspace();
    // filling takes longer than a request may
    const setup = connectRecord(services().databaseUrl, "setup", STORY_MS_MAX);
    await setup`insert into template (workspace_id, id, external_id, version, created_at, updated_at)
    select ${crowd.id}, gen_random_uuid(), 'template-' || n, 1, now(), now() from generate_series(1, 100000) n`;
    await setup`insert into template_version (workspace_id, template_id, version, name, reply_to, html, variables, declared, created_at)
    select workspace_id, id, 1, 'x', '{}', 'x', '[]', '[]', now() from template where workspace_id = ${crowd.id}`;
    await setup`analyze template`;
    await setup.end({ timeout: 1 });
    const refs = Array.from({ length: 100 }, (_, n) => `template-${n * 1_000 + 1}`);
    const templates = new TemplateCache(api.sql, READ_MS_MAX);
    expect((await templates.fetch(crowd.id, refs)).size).toBe(100);
    const plan = await api.sql`explain (analyze, format json)
    select t.id from template t where t.workspace_id = ${crowd.id}
      and (t.id = any('{}'::uuid[]) or t.external_id = any(${refs}::text[]))`;
    expect(JSON.stringify(plan)).not.toContain("Seq Scan");
    expect(JSON.stringify(plan)).toContain("template_workspace_id_external_id_key");
  },
  STORY_MS_MAX,
);
