import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../rig/eventually.ts";
import { type Client, type TestApi, testApi } from "../rig/workspace.ts";

type Mail = { id: string; to: string[]; from: string; reply_to: string[]; subject: string; html: string };

let api: TestApi;
let client: Client;
let audience: string;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());
beforeEach(async () => {
  client = (await api.workspace()).client;
  const { body } = await client.post<{ id: string }>("/audiences", { name: "A & B", double_opt_in: true });
  audience = body.id;
});

async function put(externalId: string, html: string, more: object = {}): Promise<void> {
  const saved = await client.call("PUT", `/templates/${externalId}`, { html, subject: "Please", ...more });
  expect(saved.status).toBe(201);
}

async function mailTo(email: string): Promise<Mail> {
  await client.post(`/audiences/${audience}/contacts`, { email, first_name: "<Ann>" });
  return eventually(async () => {
    const { body } = await client.get<{ data: Mail[] }>("/emails");
    const id = body.data.find(({ to }) => to.includes(email))?.id;
    expect(id).toBeDefined();
    return (await client.get<Mail>(`/emails/${id}`)).body;
  });
}

test("its own words, for the workspace and before that for the audience", async () => {
  await put(
    "confirm-subscription",
    '{{first_name|there}}, {{last_name|none}} <a href="{{confirm_url}}">yes</a>',
    {
      subject: "Join {{audience_name}}",
      from: "Us <us@example.com>",
      reply_to: "help@example.com",
    },
  );
  const mail = await mailTo("one@x.example");
  expect(mail).toMatchObject({
    subject: "Join A & B",
    from: "Us <us@example.com>",
    reply_to: ["help@example.com"],
    html: expect.stringMatching(
      /^&lt;Ann&gt;, none <a href="https:\/\/mail\.example\.org\/confirm\/\S+">yes/,
    ),
  });
  const path = /(\/confirm\/[\w-]+)/.exec(mail.html)?.[1];
  expect((await fetch(api.url + path, { method: "POST" })).status).toBe(200);
  await put(`confirm-subscription:${audience}`, "nearer {{confirm_url}}", { from: "us@example.com" });
  expect((await mailTo("two@x.example")).html).toMatch(/^nearer https:/);
});

test.each([
  ["leaves out the link", "Please confirm!", {}],
  ["asks for what nobody gives", "{{confirm_url}} {{favourite_colour}}", {}],
  ["has no subject", "{{confirm_url}}", { subject: undefined }],
])("the plain words, when the template %s", async (_, html, more) => {
  await put("confirm-subscription", html, more);
  const before = api.faults.length;
  expect(await mailTo("one@x.example")).toMatchObject({ subject: "Please confirm: mail from A & B" });
  expect(api.faults.length).toBe(before + 1);
});
