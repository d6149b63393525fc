/**
 * Templates through the official client, unmodified, in the versions that have them. 6.3.0 has neither their
 * endpoints nor `template` in a send: what it cannot call is told by the last test.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type OfficialVersion, officialClient } from "../rig/officialclient.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type Email = { subject: string; html: string; text: string; from: string; reply_to: string[] };
let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api.stop();
});

async function sentEmail(id: string): Promise<Email> {
  return (await ws.client.get<Email>(`/emails/${id}`)).body;
}

/** The newest version's types; an older one is called by the same names. */
async function load(version: OfficialVersion): Promise<import("resend").Resend> {
  ws = await api.workspace();
  return officialClient(version, { url: api.url, key: ws.client.key });
}

describe.each(["resend", "resend-6-4"] as const)("%s", (version) => {
  test("creates, reads, changes, copies, sends and removes", async () => {
    const client = await load(version);
    const created = await client.templates
      .create({
        name: "Receipt",
        alias: "receipt",
        from: "Shop <shop@example.com>",
        subject: "Receipt {{{NUMBER}}}",
        html: "<p>Dear {{{NAME}}}, thank you</p>",
        variables: [
          { key: "NAME", type: "string", fallbackValue: "customer" },
          { key: "NUMBER", type: "number" },
        ],
      })
      .publish();
    expect(created.error).toBeNull();
    const id = created.data?.id as string;
    const read = await client.templates.get("receipt");
    expect(read.data).toMatchObject({
      object: "template",
      id,
      alias: "receipt",
      status: "published",
      variables: [
        { key: "NAME", type: "string", fallback_value: "customer" },
        { key: "NUMBER", type: "number", fallback_value: null },
      ],
      has_unpublished_versions: false,
      current_version_id: id,
    });
    for (const { created_at, updated_at } of read.data?.variables ?? [])
      expect([created_at, updated_at]).toEqual([read.data?.created_at, read.data?.updated_at]);
    const listed = await client.templates.list({ limit: 1 });
    expect(listed.data?.data[0]).toMatchObject({ id, name: "Receipt", alias: "receipt" });
    const sent = await client.emails.send({
      to: "one@example.net",
      template: { id: "receipt", variables: { NUMBER: 12 } },
    });
    expect(sent.error).toBeNull();
    expect(await sentEmail(sent.data?.id as string)).toMatchObject({
      subject: "Receipt 12",
      html: "<p>Dear customer, thank you</p>",
    });
    expect((await client.templates.update(id, { name: "Invoice" })).data).toEqual({ object: "template", id });
    expect((await client.templates.get(id)).data).toMatchObject({
      name: "Invoice",
      subject: "Receipt {{{NUMBER}}}",
    });
    const copied = await client.templates.duplicate("receipt");
    expect((await client.templates.get(copied.data?.id as string)).data).toMatchObject({
      name: "Copy of Invoice",
      alias: null,
      html: "<p>Dear {{{NAME}}}, thank you</p>",
    });
    const twice = await client.templates.create({ name: "Again", alias: "receipt", html: "x" });
    expect(twice.error).toMatchObject({ name: "validation_error" });
    expect((await client.templates.remove("receipt")).data).toEqual({
      object: "template",
      id,
      deleted: true,
    });
    expect((await client.templates.get(id)).error).toMatchObject({ name: "not_found" });
  });
});

test("resend-6-3 knows no templates", async () => {
  expect((await load("resend-6-3")).templates).toBeUndefined();
});
