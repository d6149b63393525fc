import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { officialClient } from "../rig/officialclient.ts";
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

/** What the stories use of the client: the same in every version. */
type Result<T> = {
  data: T | null;
  error: { name: string; message: string; statusCode?: number | null } | null;
};
type Client = {
  emails: {
    send(mail: object, options?: object): Promise<Result<{ id: string }>>;
    get(id: string): Promise<Result<Record<string, unknown>>>;
    cancel(id: string): Promise<Result<{ object: string; id: string }>>;
    update(change: object): Promise<Result<{ object: string; id: string }>>;
    list?(page?: object): Promise<Result<{ object: string; has_more: boolean; data: { id: string }[] }>>;
  };
  batch: {
    send(mails: object[], options?: object): Promise<Result<{ data: { id: string }[]; errors?: object[] }>>;
  };
};

const mail = {
  from: "Acme <orders@example.com>",
  to: "one@example.net",
  subject: "Hello",
  html: "<p>Hi</p>",
};

describe.each(["resend", "resend-6-4", "resend-6-3"] as const)("%s", (version) => {
  const clientOf = (key: string) => officialClient<Client>(version, { url: api.url, key });

  test("sends, with all a mail can have, and reads it back", async () => {
    const client = clientOf(ws.client.key);
    const sent = await client.emails.send({
      ...mail,
      to: ["one@example.net", "Two <two@example.net>"],
      cc: "three@example.net",
      bcc: ["four@example.net"],
      replyTo: "answers@example.com",
      text: "Hi",
      headers: { "X-Order": "1" },
      tags: [{ name: "kind", value: "order" }],
      attachments: [
        { filename: "a.txt", content: Buffer.from("bytes of a buffer") },
        { filename: "b.txt", content: Buffer.from("base64").toString("base64") },
      ],
    });
    expect(sent.error).toBeNull();
    const { data, error } = await client.emails.get(sent.data?.id as string);
    expect(error).toBeNull();
    expect(data).toMatchObject({
      object: "email",
      id: sent.data?.id,
      to: ["one@example.net", "Two <two@example.net>"],
      cc: ["three@example.net"],
      bcc: ["four@example.net"],
      reply_to: ["answers@example.com"],
      subject: "Hello",
      last_event: "queued",
    });
    const kept = await api.sql`select count(*)::int from attachment where workspace_id = ${ws.id}
      and content in (${Buffer.from("bytes of a buffer")}, ${Buffer.from("base64")})`;
    expect(kept[0]?.count).toBe(2);
  });

  test("schedules, moves and cancels", async () => {
    const client = clientOf(ws.client.key);
    const { data } = await client.emails.send({ ...mail, scheduledAt: "in 1 hour" });
    const id = data?.id as string;
    const moved = await client.emails.update({
      id,
      scheduledAt: new Date(Date.now() + 7_200_000).toISOString(),
    });
    expect(moved).toMatchObject({ data: { object: "email", id }, error: null });
    expect(await client.emails.cancel(id)).toMatchObject({ data: { object: "email", id }, error: null });
    expect((await client.emails.get(id)).data).toMatchObject({ last_event: "canceled" });
  });

  test("sends batches, and the same batch once", async () => {
    const client = clientOf(ws.client.key);
    const batch = [mail, { ...mail, subject: "Second" }];
    const options = { idempotencyKey: `batch/${version}` };
    const first = await client.batch.send(batch, options);
    expect(first.error).toBeNull();
    expect(first.data?.data).toHaveLength(2);
    const again = await client.batch.send(batch, options);
    expect(again.data?.data).toEqual(first.data?.data);
    const other = await client.batch.send([mail], options);
    expect(other.error).toMatchObject({ name: "invalid_idempotent_request" });
  });

  test("hears permissive batches out", async () => {
    const client = clientOf(ws.client.key);
    const { data, error } = await client.batch.send([mail, { ...mail, to: "nobody" }], {
      batchValidation: "permissive",
    });
    if (version === "resend-6-3" && error) return expect(error.name).toBe("validation_error"); // it came with 6.4
    expect(data?.data).toHaveLength(1);
    expect(data?.errors).toMatchObject([{ index: 1, message: expect.stringContaining("`[1].to`") }]);
  });

  test("understands every refusal", async () => {
    const wrong = clientOf("pr_live_00000000000000000000000000000000");
    expect((await wrong.emails.send(mail)).error).toMatchObject({ name: "invalid_api_key" });
    const reader = clientOf((await ws.key(["contacts:read"])).client.key);
    expect((await reader.emails.send(mail)).error).toMatchObject({ name: "restricted_api_key" });
    const client = clientOf(ws.client.key);
    expect((await client.emails.send({ ...mail, to: undefined })).error).toMatchObject({
      name: "missing_required_field",
    });
    expect((await client.emails.get("00000000-0000-7000-8000-000000000000")).error).toMatchObject({
      name: "not_found",
    });
    const free = await api.workspace("free", { emails_per_day: 1 });
    const limited = clientOf(free.client.key);
    expect((await limited.emails.send(mail)).error).toBeNull();
    expect((await limited.emails.send(mail)).error).toMatchObject({ name: "quota_exceeded" });
  });

  test("hears all of thirty refusals of a send of 20 MB", async () => {
    const client = clientOf((await ws.key(["contacts:read"])).client.key);
    const large = {
      ...mail,
      attachments: [{ filename: "large", content: Buffer.alloc(15_000_000, 7).toString("base64") }],
    };
    for (let n = 0; n < 30; n++)
      expect((await client.emails.send(large)).error, `send ${n}`).toMatchObject({
        name: "restricted_api_key",
      });
  }, 60_000);
});

test("the newest client lists", async () => {
  const client = officialClient("resend", { url: api.url, key: ws.client.key });
  const { data, error } = await client.emails.list({ limit: 2 });
  expect(error).toBeNull();
  expect(data).toMatchObject({ object: "list", has_more: true });
  const next = await client.emails.list({ limit: 2, after: data?.data.at(-1)?.id as string });
  expect(next.data?.data[0]?.id).not.toBe(data?.data[0]?.id);
});
