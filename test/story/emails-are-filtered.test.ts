/**
 * Filters of the list of e-mails: each alone and together, and that a page costs the same whatever is looked
 * for.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WALK_MAX } from "../../src/record/mail/search.ts";
import {
  type Client,
  mail,
  type Refusal,
  type TestApi,
  type TestWorkspace,
  testApi,
} from "../rig/workspace.ts";

type Item = { id: string; created_at: string };
type List = { data: Item[]; has_more: boolean; next_cursor: string | null };

let api: TestApi;
let ws: TestWorkspace;
let other: { id: string; client: Client };
let ids: Record<string, string>;
let between: string;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  other = await ws.key(["emails:send"]);
  const send = async (client: Client, more: Record<string, unknown>) =>
    (await client.post<{ id: string }>("/emails", mail(more))).body.id;
  ids = {};
  ids.plain = await send(ws.client, { to: "ann@example.net", subject: "Order 1" });
  ids.named = await send(ws.client, {
    to: ["x@example.net", "Ann B. <Ann@Example.net>"],
    subject: "Order 12",
  });
  const { created_at } = (await ws.client.get<Item>(`/emails/${ids.named}`)).body;
  between = created_at;
  ids.copied = await send(ws.client, { bcc: "ann@example.net", tags: [{ name: "kind", value: "order" }] });
  ids.alike = await send(ws.client, { to: "joann@example.net", from: "ann@example.net" });
  ids.german = await send(ws.client, { to: "a+b@köln.example" });
  ids.later = await send(ws.client, { scheduled_at: "in 1 hour" });
  ids.others = await send(other.client, { to: "ann@example.net", tags: [{ name: "kind", value: "orders" }] });
});
afterAll(() => api.stop());

const list = async (query: string, client = ws.client) => (await client.get<List>(`/emails?${query}`)).body;
const names = ({ data }: List) =>
  data.map(({ id }) => Object.keys(ids).find((name) => ids[name] === id) ?? id);

describe("a filter", () => {
  test.each([
    ["status=scheduled", ["later"]],
    ["status=accepted&subject=Order 1", ["others", "german", "alike", "copied", "plain"]],
    ["status=bounced", []],
    ["to=ann@example.net", ["others", "copied", "named", "plain"]],
    ["to=ANN%40EXAMPLE.NET", ["others", "copied", "named", "plain"]],
    ["to=a%2Bb@k%C3%B6ln.example", ["german"]],
    ["to=a+b@xn--kln-sna.example", ["german"]],
    ["subject=Order%2012", ["named"]],
    ["tag=kind:order", ["copied"]],
    ["to=ann@example.net&tag=kind:orders", ["others"]],
    ["limit=2&to=ann@example.net", ["others", "copied"]],
  ])("%s finds %j", async (query, wanted) => {
    expect(names(await list(query))).toEqual(wanted);
  });

  test("by key shows what that key sent, and to a key without `full` only its own", async () => {
    expect(names(await list(`api_key_id=${other.id}`))).toEqual(["others"]);
    expect(names(await list(`api_key_id=${randomUUID()}`))).toEqual([]);
    expect(names(await list("to=ann@example.net", other.client))).toEqual(["others"]);
    expect(names(await list(`api_key_id=${ws.keyId}`, other.client))).toEqual([]);
  });

  test("by time begins with its moment and ends before it", async () => {
    const at = encodeURIComponent(between);
    expect(names(await list(`until=${at}`))).toEqual(["plain"]);
    expect(names(await list(`since=${at}`)).at(-1)).toBe("named");
    expect(names(await list(`since=${at}&until=${at}`))).toEqual([]);
    const inItaly = new Date(Date.parse(between) + 3_600_000).toISOString().replace("Z", "+01:00");
    expect(names(await list(`until=${inItaly}`))).toEqual(["plain"]);
  });

  test("is paged through in both directions", async () => {
    const first = await list("limit=2&to=ann@example.net");
    const second = await list(`limit=2&to=ann@example.net&cursor=${first.next_cursor}`);
    expect(names(second)).toEqual(["named", "plain"]);
    expect(second).toMatchObject({ has_more: false, next_cursor: null });
    expect(names(await list(`limit=1&to=ann@example.net&before=${ids.named}`))).toEqual(["copied"]);
  });

  test.each([
    "status=open",
    "to=ann",
    "subject=",
    "tag=kind",
    "tag=:",
    "tag=a:b:c",
    "tag=a:",
    "tag=a b:c",
    "tag=a:%C3%A9",
    `tag=a:${"b".repeat(257)}`,
    "api_key_id=1",
    "since=yesterday",
    "until=2026-01-01T00:00:00",
  ])("%s is refused", async (query) => {
    const { body } = await ws.client.get<Refusal>(`/emails?${query}`);
    expect(body).toMatchObject({ statusCode: 422, name: "invalid_parameter" });
  });
});

test("a page looks at a bounded number of e-mails, and says where to go on", async () => {
  const many = await api.workspace();
  const { body: first } = await many.client.post<{ id: string }>("/emails", mail({ subject: "the first" }));
  await api.sql`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
    select workspace_id, (left(id::text, 14) || '8' || right(md5(n::text), 3) || '-8' || left(md5(n::text), 3) || '-' || lpad(n::text, 12, '0'))::uuid,
      bulk, 'delivered', '{"from":"a@x.com","to":["b@x.com"],"cc":[],"bcc":[],"reply_to":[],"subject":"many"}', 1, 1, created_at, created_at
    from email cross join generate_series(1, ${2 * WALK_MAX}) n where workspace_id = ${many.id} and id = ${first.id}`;
  const found: string[] = [];
  let [query, pages] = ["?subject=the first", 0];
  while (query !== "") {
    const { body } = await many.client.get<List>(`/emails${query}`);
    found.push(...body.data.map(({ id }) => id));
    pages++;
    query = body.has_more ? `?subject=the first&cursor=${body.next_cursor}` : "";
  }
  expect(found).toEqual([first.id]);
  expect(pages).toBe(3);
});
