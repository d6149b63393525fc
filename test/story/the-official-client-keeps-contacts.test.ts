/**
 * Contacts and audiences through the official client, unmodified, in three versions. 6.3.0 knows audiences
 * only, and sends no properties; later versions call `/segments` by either name. What a version calls beyond
 * the contract (`/contacts` without an audience, topics, imports, the renaming of a segment) is not asked of
 * it here.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type OfficialVersion, officialClient } from "../rig/officialclient.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(async () => {
  await api.stop();
});

type Result<T> = { data: T | null; error: { name: string; message: string } | null };
type Person = { id: string; email: string; first_name: string | null; unsubscribed: boolean };
type List<T> = { object: string; data: T[]; has_more: boolean };
type Groups = {
  create(group: { name: string }): Promise<Result<{ object: string; id: string; name: string }>>;
  get(id: string): Promise<Result<{ object: string; id: string; name: string }>>;
  list(page?: object): Promise<Result<List<{ id: string; name: string }>>>;
  remove(id: string): Promise<Result<{ object: string; id: string; deleted: boolean }>>;
};
/** By either name: a version has one of them, or one as an alias of the other. */
type Client = {
  audiences?: Groups;
  segments?: Groups;
  contacts: {
    create(contact: object): Promise<Result<{ object: string; id: string }>>;
    get(of: object): Promise<Result<Person & { object: string }>>;
    list(of: object): Promise<Result<List<Person>>>;
    update(change: object): Promise<Result<{ object: string; id: string }>>;
    remove(of: object): Promise<Result<{ object: string; contact: string; deleted: boolean }>>;
  };
};

const load = (version: OfficialVersion) =>
  officialClient<Client>(version, { url: api.url, key: ws.client.key });

const VERSIONS: OfficialVersion[] = ["resend", "resend-6-4", "resend-6-3"];
const GROUPS: Record<string, ("audiences" | "segments")[]> = {
  resend: ["audiences", "segments"],
  "resend-6-4": ["audiences", "segments"],
  "resend-6-3": ["audiences"],
};
const CALLED = VERSIONS.flatMap((version) => [
  { version, by: "address" as const },
  { version, by: "id" as const },
]);

describe.each(CALLED)("$version, by $by", ({ version, by }) => {
  test("a contact is created, read, listed, updated and removed", async () => {
    const { contacts } = load(version);
    const audienceId = await newAudience();
    const email = `Steve+${version}@Example.net`;
    const created = await contacts.create({ audienceId, email, firstName: "Steve", unsubscribed: false });
    expect(created).toMatchObject({ data: { object: "contact" }, error: null });
    const id = created.data?.id as string;
    const who = by === "id" ? { id } : { email };

    const read = await contacts.get({ audienceId, ...who });
    expect(read.error).toBeNull();
    expect(read.data).toMatchObject({
      object: "contact",
      id,
      email,
      first_name: "Steve",
      unsubscribed: false,
    });

    expect(await contacts.update({ audienceId, ...who, unsubscribed: true, firstName: "S" })).toMatchObject({
      data: { object: "contact", id },
      error: null,
    });
    const listed = await contacts.list({ audienceId });
    expect(listed).toMatchObject({ data: { object: "list", has_more: false }, error: null });
    expect(listed.data?.data).toEqual([
      expect.objectContaining({ id, email, first_name: "S", unsubscribed: true }),
    ]);

    expect(await contacts.remove({ audienceId, ...who })).toMatchObject({
      data: { object: "contact", contact: by === "id" ? id : email, deleted: true },
      error: null,
    });
    expect((await contacts.get({ audienceId, ...who })).error).toMatchObject({ name: "not_found" });
    expect((await contacts.list({ audienceId })).data?.data).toEqual([]);
  });
});

describe.each(VERSIONS)("%s", (version) => {
  test("contacts are listed page by page", async () => {
    const { contacts } = load(version);
    const audienceId = await newAudience();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++)
      ids.unshift((await contacts.create({ audienceId, email: `p${n}@example.net` })).data?.id as string);
    const first = await contacts.list({ audienceId, limit: 3 });
    expect(first.data).toMatchObject({ has_more: true });
    const second = await contacts.list({ audienceId, limit: 3, after: first.data?.data.at(-1)?.id });
    const seen = [...(first.data?.data ?? []), ...(second.data?.data ?? [])].map(({ id }) => id);
    expect(seen).toEqual(ids);
    const back = await contacts.list({ audienceId, limit: 3, before: second.data?.data[0]?.id });
    expect(back.data?.data.map(({ id }) => id)).toEqual(ids.slice(0, 3));
  });

  test("audiences, or segments, are created, read, listed and removed", async () => {
    const client = load(version);
    expect(client.segments === undefined).toBe(!GROUPS[version]?.includes("segments"));
    for (const name of GROUPS[version] ?? []) {
      const groups = client[name] as Groups;
      const { data } = await groups.create({ name: "Registered" });
      expect(data).toMatchObject({
        object: expect.stringMatching(/^(audience|segment)$/),
        name: "Registered",
      });
      const id = data?.id as string;
      expect((await groups.get(id)).data).toMatchObject({ id, name: "Registered" });
      expect((await groups.list()).data?.data).toContainEqual(expect.objectContaining({ id }));
      expect((await groups.list({ limit: 1 })).data).toMatchObject({ has_more: true });
      expect((await groups.remove(id)).data).toMatchObject({ id, deleted: true });
      expect((await groups.get(id)).error).toMatchObject({ name: "not_found" });
    }
  });

  test("refusals are understood", async () => {
    const { contacts } = load(version);
    const audienceId = await newAudience();
    expect((await contacts.create({ audienceId, email: "nobody" })).error).toMatchObject({
      name: "validation_error",
    });
    expect((await contacts.get({ audienceId, email: "nobody@example.net" })).error).toMatchObject({
      name: "not_found",
    });
    const unknown = "01890000-0000-7000-8000-000000000000";
    expect((await contacts.list({ audienceId: unknown })).error).toMatchObject({ name: "not_found" });
  });
});

test.each(["resend", "resend-6-4"] as const)("%s keeps properties", async (version) => {
  const { contacts } = load(version);
  const audienceId = await newAudience();
  await contacts.create({ audienceId, email: "a@example.net", properties: { city: "Köln" } });
  await contacts.update({ audienceId, email: "a@example.net", properties: { visits: 3 } });
  const { data } = await contacts.list({ audienceId });
  expect(data?.data).toEqual([
    expect.objectContaining({ email: "a@example.net", properties: { city: "Köln", visits: 3 } }),
  ]);
});

test("the newest client lists the contacts of a segment", async () => {
  const { contacts } = load("resend");
  const audienceId = await newAudience();
  await contacts.create({ audienceId, email: "a@example.net" });
  const { data } = await contacts.list({ segmentId: audienceId });
  expect(data?.data).toEqual([expect.objectContaining({ email: "a@example.net" })]);
});

async function newAudience(): Promise<string> {
  return (await ws.client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
}
