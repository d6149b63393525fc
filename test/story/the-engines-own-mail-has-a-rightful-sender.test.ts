/**
 * Automations and confirmation mails obey too: a sender the workspace may write as, or the operator's words.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Owners } from "../../src/domain/owners.ts";
import { giveDomain, nameDomain, takeDomain } from "../../src/record/workspaces/domains.ts";
import { eventually } from "../rig/eventually.ts";
import { type Flows, startFlows, told } from "../rig/flows.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

type Mail = { id: string; to: string[]; from: string; subject: string; html: string; text: string };

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows({ requireVerifiedDomains: true });
});
afterAll(() => flows.stop());

async function owns(ws: TestWorkspace, domain: string): Promise<void> {
  const now = new Date(flows.clock.now());
  await nameDomain(flows.sql, ws.id, domain, now);
  expect(
    await giveDomain(flows.sql, domain, { to: ws.id, from: null }, { now, checkAt: now }),
  ).not.toBeNull();
}

async function confirmationTo(ws: TestWorkspace, audience: string, contact: object): Promise<Mail> {
  const { email } = contact as { email: string };
  expect((await ws.client.post(`/audiences/${audience}/contacts`, contact)).status).toBe(201);
  return eventually(async () => {
    const { body } = await ws.client.get<{ data: Mail[] }>("/emails");
    const id = body.data.find(({ to }) => to.includes(email))?.id;
    expect(id).toBeDefined();
    return (await ws.client.get<Mail>(`/emails/${id}`)).body;
  });
}

async function doubleOptIn(ws: TestWorkspace, name: string): Promise<string> {
  const { body } = await ws.client.post<{ id: string }>("/audiences", { name, double_opt_in: true });
  return body.id;
}

test("a step that writes from a foreign domain is skipped, and says why; from its own it goes", async () => {
  const shop = await flows.shop();
  await shop.contact("ann@example.net");
  const send = { from: "a@steps.example", subject: "Hi", html: "<p>Hi</p>" };
  const automation = await shop.automate({ steps: [{ send }] });
  await shop.track("ann@example.net");
  await flows.go();
  const reason = "the domain steps.example is not verified for this workspace";
  expect(told((await shop.runs(automation))[0])).toEqual([`send skipped ${reason}`]);
  expect(await shop.mails()).toEqual([]);

  await owns(shop, "steps.example");
  await shop.track("ann@example.net");
  await flows.go();
  expect(await shop.mails()).toHaveLength(1);
  const other = await flows.shop();
  await other.contact("ann@example.net");
  await other.automate({ steps: [{ send }] });
  await other.track("ann@example.net");
  await flows.go();
  expect(await other.mails()).toEqual([]);
});

test("a template's words go out under a sender of the workspace only", async () => {
  const ws = await flows.api.workspace();
  const audience = await doubleOptIn(ws, "Readers");
  const html = 'Prize! <a href="{{confirm_url}}">claim</a>';
  const put = (more: object) =>
    ws.client.call("PUT", "/templates/confirm-subscription", { html, subject: "Prize", ...more });
  const plain = { from: "no-reply@mail.example.org", subject: "Please confirm: mail from Readers" };
  await put({});
  expect(await confirmationTo(ws, audience, { email: "one@example.net" })).toMatchObject(plain);
  await put({ from: "Us <us@letters.example>" });
  expect(await confirmationTo(ws, audience, { email: "two@example.net" })).toMatchObject(plain);
  await owns(ws, "letters.example");
  const own = await confirmationTo(ws, audience, { email: "three@example.net" });
  expect(own).toMatchObject({ from: "Us <us@letters.example>", subject: "Prize" });
});

test.each([
  ["Ann", "Hello Ann,"],
  ["Anne-Marie O'Neil", "Hello Anne-Marie O'Neil,"],
  ["Ирина दीपक 王", "Hello Ирина दीपक 王,"],
  ["http://evil.example/x?y=1 call 1-800", "Hello httpevilexamplexy call -,"],
  ["<b>Ann</b>\r\n\r\nYou won!", "Hello bAnnb You won,"],
  ["123 !!! $$$", "Hello,"],
  ["a".repeat(200), `Hello ${"a".repeat(40)},`],
])("of a contact called %j the operator's mail says %j", async (first_name, greeting) => {
  const ws = await flows.api.workspace();
  const audience = await doubleOptIn(ws, "Win at www.evil.example <now>");
  const { subject, text, html } = await confirmationTo(ws, audience, { email: "x@example.net", first_name });
  expect(subject).toBe("Please confirm: mail from Win at wwwevilexample now");
  expect(text.split("\n")[0]).toBe(greeting);
  for (const body of [text, html]) expect(body).not.toMatch(/evil\.example|<b>|won!/);
});

test("what is allowed is remembered, a refusal is asked about, and a change of the workspace is read at once", async () => {
  const [ws, other] = [await flows.api.workspace(), await flows.api.workspace()];
  let queries = 0;
  const counting = new Proxy(flows.sql, {
    apply: (target, self, args) => {
      queries++;
      return Reflect.apply(target as never, self, args);
    },
  });
  const owners = new Owners({ sql: counting, isRequired: true, onFault: () => {} });
  const domains = Array.from({ length: 100 }, (_, n) => `d${n}.kept.example`);
  const asking = { workspaceId: ws.id, version: 5 };
  expect((await owners.refused(asking, domains)).size).toBe(100);
  await owns(ws, "kept.example");
  queries = 0;
  // what was refused works as soon as it is verified: one query for all
  expect((await owners.refused(asking, domains)).size).toBe(0);
  expect(queries).toBe(1);
  expect(owners.refused(asking, domains)).not.toBeInstanceOf(Promise);
  expect((await owners.refused({ workspaceId: other.id, version: 1 }, ["d1.kept.example"])).size).toBe(1);
  const raised = await takeDomain(flows.sql, ws.id, "kept.example", new Date(flows.clock.now()));
  expect(raised).toHaveLength(1);
  expect((await owners.refused({ ...asking, version: 6 }, domains)).size).toBe(100);
});
