/** Each kind of step, as a run takes it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Flows, startFlows, told } from "../rig/flows.ts";

const HOUR_MS = 3_600_000;
const THEN = "then";
let flows: Flows;

beforeAll(async () => {
  flows = await startFlows();
});
afterAll(async () => {
  await flows.stop();
  expect(flows.faults).toEqual([]);
});

const letter = (subject: string, more: object = {}) => ({
  send: { from: "Shop <shop@example.com>", subject, html: "<p>Hi</p>", ...more },
});

test("a run waits, sends, tags and ends, and says when it did what", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({
    steps: [{ wait: "2h" }, letter("Welcome"), { tag: { add: ["welcomed"], remove: ["new"] } }],
  });
  await shop.contact("ann@example.net", { tags: ["new"] });
  const began = flows.clock.now();
  expect((await shop.track("ann@example.net")).status).toBe(202);
  await flows.go();
  let [run] = await shop.runs(id);
  expect(run).toMatchObject({ state: "active", position: "1", wakeAt: new Date(began + 2 * HOUR_MS) });
  flows.clock.advance(2 * HOUR_MS - 1);
  await flows.go();
  expect(await shop.mails()).toEqual([]);
  flows.clock.advance(1);
  await flows.go();
  [run] = await shop.runs(id);
  expect(run).toMatchObject({ state: "finished", wakeAt: null, endedAt: new Date(flows.clock.now()) });
  expect(told(run)).toEqual(["wait done", "send done", "tag done"]);
  const [mail, ...others] = await shop.mails();
  expect(others).toEqual([]);
  expect(mail).toMatchObject({
    id: run?.steps[1]?.detail,
    to: "ann@example.net",
    subject: "Welcome",
    status: "accepted",
  });
  const contact = await shop.client.get(`/audiences/${shop.audienceId}/contacts/ann@example.net`);
  expect(contact.body).toMatchObject({ tags: ["welcomed"] });
});

test("a mail can be unsubscribed from with one click, and names the automation", async () => {
  const shop = await flows.shop();
  await shop.automate({
    steps: [letter("One click", { html: "<a href='{{{unsubscribe_url}}}'>No more</a>" })],
  });
  await shop.contact("bo@example.net");
  await shop.track("bo@example.net");
  await flows.go();
  const [mail] = await shop.mails();
  const url = /^<(https:\/\/mail\.example\.org\/u\/[\w-]+\?to=[\w-]+)>$/.exec(
    mail?.headers["List-Unsubscribe"] ?? "",
  )?.[1];
  expect(mail?.headers["List-Unsubscribe-Post"]).toBe("List-Unsubscribe=One-Click");
  expect(mail?.html).toContain(`'${url}'`);
  const { pathname, search } = new URL(url as string);
  const click = await fetch(`${flows.api.url}${pathname}${search}`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: "List-Unsubscribe=One-Click",
  });
  expect(click.status).toBe(200);
  const contact = await shop.client.get(`/audiences/${shop.audienceId}/contacts/bo@example.net`);
  expect(contact.body).toMatchObject({ unsubscribed: true });
});

test("a letter knows its contact and its event; a template is read when it is sent", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({
    steps: [
      letter("{{product}} for {{first_name}}", {
        html: "<p>{{city}} {{event.properties.n}} {{contact.email}}</p>",
      }),
      { send: { template: "reminder" } },
      { send: { template: "reminder", subject: "Again, {{first_name}}" } },
      letter("{{nowhere}}"),
      letter("{{ '%00' | url_decode }}!", { html: "{{ 'a%00b' | url_decode }}" }),
    ],
  });
  await shop.client.call("PUT", "/templates/reminder", {
    subject: "Remember {{product}}",
    from: "shop@example.com",
    html: "<p>{{product}}</p>",
  });
  await shop.contact("cy@example.net", { first_name: "Cy", properties: { city: "Rome & <Co>" } });
  await shop.track("cy@example.net", { properties: { product: "Lamp", n: 3 } });
  await flows.go();
  const mails = await shop.mails();
  expect(mails.map(({ subject }) => subject).sort()).toEqual(["Again, Cy", "Lamp for Cy", "Remember Lamp"]);
  expect(mails.map(({ html }) => html)).toContain("<p>Rome &amp; &lt;Co&gt; 3 cy@example.net</p>");
  const [run] = await shop.runs(id);
  expect(told(run)).toEqual([
    "send done",
    "send done",
    "send done",
    "send skipped the e-mail of this step needs the variable nowhere, which is missing",
    "send skipped the e-mail of this step cannot be rendered: text must not contain U+0000",
  ]);
});

test("a template that was deleted skips the step, and says so", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({
    steps: [{ wait: "1h" }, { send: { template: "gone" } }, { tag: { add: ["x"] } }],
  });
  await shop.client.call("PUT", "/templates/gone", { subject: "s", from: "a@example.com", html: "h" });
  await shop.contact("di@example.net");
  await shop.track("di@example.net");
  await flows.go();
  await shop.client.call("DELETE", "/templates/gone");
  flows.clock.advance(HOUR_MS);
  await flows.go();
  const [run] = await shop.runs(id);
  expect(told(run)).toEqual(["wait done", "send skipped there is no template gone", "tag done"]);
  expect(run?.state).toBe("finished");
});

test("splits follow the contact as it is then; what a step tagged is seen by the next", async () => {
  const shop = await flows.shop();
  const rich = { field: "event.properties.total", gte: 100 };
  const tagged = { field: "contact.tags", contains: "vip" };
  const id = await shop.automate({
    steps: [
      { split: [{ if: rich, [THEN]: [{ tag: { add: ["vip"] } }] }] },
      {
        split: [{ if: [tagged], [THEN]: [letter("For you")] }, { else: [letter("For all")] }],
      },
    ],
  });
  await shop.contact("ed@example.net");
  await shop.contact("flo@example.net");
  await shop.track("ed@example.net", { properties: { total: 100 } });
  await shop.track("flo@example.net", { properties: { total: "100" } });
  await flows.go();
  const [ed, flo] = await shop.runs(id);
  expect(told(ed)).toEqual(["split 0", "tag done", "split 0", "send done"]);
  expect(told(flo)).toEqual(["split none", "split 1", "send done"]);
});

test("a branch may be called null", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ steps: [{ split: { percent: { null: 100 }, null: [letter("Hi")] } }] });
  await shop.contact("nil@example.net");
  await shop.track("nil@example.net");
  await flows.go();
  expect(told((await shop.runs(id))[0])).toEqual(["split null", "send done"]);
});

test("a percentage sends a contact the same way each time", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({
    steps: [{ split: { percent: { a: 50, b: 50 }, a: [letter("A")], b: [letter("B")] } }],
  });
  for (let n = 0; n < 20; n++) await shop.contact(`p${n}@example.net`);
  for (let round = 0; round < 2; round++) for (let n = 0; n < 20; n++) await shop.track(`p${n}@example.net`);
  await flows.go();
  const ways = new Map<string, Set<string>>();
  for (const { contactId, steps } of await shop.runs(id))
    ways.set(contactId, (ways.get(contactId) ?? new Set()).add(steps[0]?.result ?? ""));
  expect([...ways.values()].map(({ size }) => size)).toEqual(Array(20).fill(1));
  expect(new Set([...ways.values()].flatMap((way) => [...way])).size).toBe(2);
});

test("a wait until a time of day ends there, by the clocks of its zone", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({
    steps: [{ wait: { until: "09:00", timezone: "Asia/Tokyo" } }, letter("Good morning")],
  });
  await shop.contact("gil@example.net");
  await shop.track("gil@example.net");
  await flows.go();
  const [run] = await shop.runs(id);
  expect(run?.wakeAt?.toISOString()).toMatch(/T00:00:00\.000Z$/);
  flows.clock.set(run?.wakeAt?.toISOString() ?? "");
  await flows.go();
  expect(told((await shop.runs(id))[0])).toEqual(["wait done", "send done"]);
});

test("over the month's quota the mail waits for the month, and the run goes on", async () => {
  const shop = await flows.shop();
  await flows.sql`update workspace set limits = limits || '{"emails_per_month": 0}', version = version + 1 where id = ${shop.id}`;
  const id = await shop.automate({ steps: [letter("Later"), { tag: { add: ["x"] } }] });
  await shop.contact("hal@example.net");
  await shop.track("hal@example.net");
  await flows.go();
  expect(told((await shop.runs(id))[0])).toEqual(["send done", "tag done"]);
  const [mail] = await shop.mails();
  const { body } = await shop.client.get<object>(`/emails/${mail?.id}`);
  expect(body).toMatchObject({ status: "waiting", waiting_for: "quota_month" });
});

test("a subject has room for 998 characters, however many bytes they take", async () => {
  const shop = await flows.shop();
  const subject = "\u{1F600}".repeat(998);
  await shop.automate({ steps: [letter(subject)] });
  await shop.contact("jon@example.net");
  await shop.track("jon@example.net");
  await flows.go();
  expect(await shop.mails()).toMatchObject([{ subject }]);
});

test("while mail is refused a run stays at its step, and sends once that is over", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ steps: [letter("Held up"), { tag: { add: ["x"] } }] });
  await shop.contact("ike@example.net");
  await shop.track("ike@example.net");
  flows.overload.shortage = { name: "disk", reason: "only 3 MB of disk are free" };
  for (let n = 0; n < 20; n++) {
    await flows.go();
    expect((await shop.runs(id))[0]).toMatchObject({ state: "active", position: "0", steps: [] });
    flows.clock.advance(5_000);
  }
  flows.overload.shortage = null;
  await flows.go();
  expect(told((await shop.runs(id))[0])).toEqual(["send done", "tag done"]);
  expect(await shop.mails()).toHaveLength(1);
  expect(flows.faults.splice(0)).toHaveLength(20);
});

test("a running run keeps the version it began with", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ steps: [{ wait: "1h" }, letter("First")] });
  await shop.contact("ida@example.net");
  await shop.track("ida@example.net");
  await flows.go();
  await shop.automate({ steps: [letter("Second")] });
  await shop.track("ida@example.net");
  await flows.go();
  flows.clock.advance(HOUR_MS);
  await flows.go();
  expect((await shop.mails()).map(({ subject }) => subject).sort()).toEqual(["First", "Second"]);
  expect((await shop.runs(id)).map(({ version }) => version)).toEqual([1, 2]);
});

test("a run does not grow older than a year", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ steps: [{ wait: "300d" }, { wait: "300d" }, letter("Late")] });
  await shop.contact("jo@example.net");
  await shop.track("jo@example.net");
  await flows.go();
  const began = flows.clock.now();
  for (let n = 0; n < 2; n++) {
    flows.clock.advance(300 * 24 * HOUR_MS);
    await flows.go();
  }
  expect((await shop.runs(id))[0]).toMatchObject({ state: "stopped", reason: "older than a year" });
  flows.clock.set(began);
});
