/** Every call that shows or changes something beside the API's own, asked once as its page asks it. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { numberEvents } from "../../src/record/outbox/outbox.ts";
import { noteCapUse } from "../../src/record/workspaces/caps.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import {
  Browser,
  hear,
  mailedInvitation,
  PASSWORD,
  person,
  type SessionBody,
  signedIn,
} from "../rig/people.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const EVENTS_MAX = 1_000;

type List<T> = { data: T[]; has_more: boolean; next_cursor: string | null };

let engine: Engine;
let workspace: TestWorkspace;
let browser: Browser;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
  browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
});
afterAll(() => engine.stop());

test("overview and usage show counts and limits, and what needs somebody", async () => {
  await workspace.client.post("/emails", mail());
  await workspace.client.post("/domains", { name: `${workspace.handle}.example.com` });
  const overview = await browser.get<{ days: unknown[]; attention: { kind: string; link: string }[] }>(
    "overview?days=7",
  );
  expect(overview).toMatchObject({ status: 200, body: { object: "overview", caps: { waiting: 0 } } });
  expect(overview.body.days).toHaveLength(7);
  expect(overview.body.attention.map(({ kind }) => kind)).toEqual(["domain"]);
  const usage = await browser.get("usage");
  expect(usage.body).toMatchObject({ object: "usage", plan: "pro", quota: { day: { limit: null } } });
  expect((await browser.get("overview?days=x")).status).toBe(422);
});

test("what was accepted stays with its day", async () => {
  const shop = await engine.workspace();
  const visitor = await signedIn(engine.consoleUrl, engine.sql, shop.id);
  const acceptedByDay = async () => {
    const { body } = await visitor.get<{ days: { accepted: number }[] }>("overview?days=7");
    return body.days.map(({ accepted }) => accepted).filter((accepted) => accepted > 0);
  };
  await shop.client.post("/emails", mail({ to: ["one@example.net", "two@example.net"] }));
  await shop.client.post("/emails/batch", [
    mail({ cc: "second@example.net" }),
    mail({ scheduled_at: "in 1 hour" }),
  ]);
  expect((await shop.client.post("/emails", mail({ to: "nobody" }))).status).toBe(422);
  expect(await acceptedByDay()).toEqual([5]);
  await engine.sql`update ledger set day = day - 1 where workspace_id = ${shop.id}`;
  await shop.client.post("/emails", mail());
  expect(await acceptedByDay()).toEqual([5, 1]);
  await noteCapUse(engine.sql, [shop.id]);
  await engine.sql`update ledger set closed_day = 0, closed_accepted = 0 where workspace_id = ${shop.id}`;
  expect(await acceptedByDay()).toEqual([5, 1]);
});

test("an e-mail shows its source, its HTML in a closed frame, why it waits, and goes again", async () => {
  const html = `<p>Order</p><script>alert(1)</script><img src="https://tracker.example/1.gif">`;
  const { body } = await workspace.client.post<{ id: string }>(
    "/emails",
    mail({ html, attachments: [{ filename: "a.txt", content: Buffer.from("attached").toString("base64") }] }),
  );
  const raw = await browser.get<string>(`emails/${body.id}/raw`);
  expect(raw.headers.get("content-type")).toContain("text/plain");
  expect(raw.body).toContain(`Message-ID: <${body.id}@example.com>`);
  const frame = await browser.get<string>(`emails/${body.id}/html?workspace=${workspace.id}`, {
    "x-workspace": "",
  });
  expect(frame.body).toBe(html);
  const policy = frame.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("sandbox; default-src 'none'");
  expect(policy).toContain("img-src data:;");
  const withImages = await browser.get(`emails/${body.id}/html?images=true`);
  expect(withImages.headers.get("content-security-policy")).toContain("img-src data: https:");
  expect((await browser.get(`emails/${body.id}/why`)).body).toMatchObject({
    object: "why",
    status: "accepted",
    sentence: "It is in the queue and will be sent next.",
    earliest_at: null,
  });
  const again = await browser.post<{ id: string }>(`emails/${body.id}/again`);
  expect(again.status).toBe(200);
  expect(again.body.id).not.toBe(body.id);
  const copy = (await workspace.client.get<Record<string, unknown>>(`/emails/${again.body.id}`)).body;
  const first = (await workspace.client.get<Record<string, unknown>>(`/emails/${body.id}`)).body;
  for (const field of ["from", "to", "subject", "html", "text", "stream"])
    expect(copy[field]).toEqual(first[field]);
  const attached = await workspace.client.get<List<unknown>>(`/emails/${again.body.id}/attachments`);
  expect(attached.body.data).toHaveLength(1);
});

test("caps say where they stand and why, and another policy can be tried", async () => {
  const caps = await browser.get<{ forecast: unknown[]; policy_version: string }>("caps");
  expect(caps.body).toMatchObject({ object: "caps", level: "normal", hears_reports: false, history: [] });
  expect(caps.body.forecast).toHaveLength(14);
  const { body } = await browser.get<{ policy: object; default_policy: object; shadow: null }>("caps/policy");
  expect(body.shadow).toBeNull();
  expect(body.policy).toEqual(body.default_policy);
  expect((await browser.post("caps/replay", { policy: body.policy })).status).toBe(200);
  expect((await browser.post("caps/replay", { policy: { growth: "much" } })).status).toBe(422);
  const scenarios = await browser.get<List<{ name: string }>>("caps/scenarios");
  const scenario = scenarios.body.data[0]?.name;
  type Measure = { says: string; told: { typical: string }[] };
  const simulated = await browser.post<{ measures: Measure[] }>("caps/simulate", {
    scenario,
    policy: body.policy,
    days: 3,
  });
  expect(simulated).toMatchObject({
    status: 200,
    body: {
      object: "simulation",
      days: 3,
      outcomes: [{ name: "the policy in force" }, { name: "your policy" }],
    },
  });
  const share = { typical: expect.stringMatching(/%$/) };
  expect(simulated.body.measures).toContainEqual(
    expect.objectContaining({
      says: "good mail that waits over an hour",
      told: [expect.objectContaining(share), expect.objectContaining(share)],
    }),
  );
  expect((await browser.post("caps/simulate", { scenario: "../policy" })).status).toBe(422);
});

test("a simulation tells how far it is", async () => {
  const share = async () => (await browser.get<{ share: number | null }>("caps/simulate")).body.share;
  expect(await share()).toBeNull();
  const asked = { scenario: "steady-shop", days: 365, runs: 4 };
  const simulated = browser.post("caps/simulate", asked);
  await expect.poll(share, { interval: 20 }).toBeGreaterThan(0);
  expect(await share()).toBeLessThanOrEqual(1);
  expect((await simulated).status).toBe(200);
  expect(await share()).toBeNull();
});

test("deferred mail is shown by its destination, retried and canceled", async () => {
  const { body } = await workspace.client.post<{ id: string }>(
    "/emails",
    mail({ scheduled_at: "in 1 hour" }),
  );
  await engine.sql`
    update due set why = 'deferred', domain = 'slow.example', reply = '451 later' where email_id = ${body.id}`;
  await engine.sql`update email set status = 'deferred' where id = ${body.id}`;
  const queue = await browser.get("queue");
  expect(queue.body).toMatchObject({
    emails: { deferred: 1 },
    destinations: [{ domain: "slow.example", count: 1, last_reply: "451 later", in_flight: null }],
    replies: [{ reply: "451 later", count: 1 }],
  });
  expect((await browser.post("queue/retry", { destination: "Slow.example" })).body).toMatchObject({
    retried: 1,
  });
  // no name is the smarthost's mail
  for (const change of ["retry", "cancel"])
    expect((await browser.post(`queue/${change}`, { destination: " " })).status).toBe(422);
  expect((await browser.post("queue/cancel", {})).body).toMatchObject({ canceled: 1 });
  expect((await browser.get(`emails/${body.id}/why`)).body).toMatchObject({ status: "canceled" });
});

test("a template is rendered into a frame for its author alone, and keeps its versions", async () => {
  const other = await signedIn(engine.consoleUrl, engine.sql, workspace.id, "admin");
  const asked = { html: "<p>Hello {{name}}</p>", subject: "For {{name}}", variables: { name: "<Eve>" } };
  const rendered = await browser.post<{ html: string; subject: string; frame_url: string }>(
    "templates/render",
    asked,
  );
  expect(rendered.body).toMatchObject({ html: "<p>Hello &lt;Eve&gt;</p>", subject: "For <Eve>" });
  const frame = rendered.body.frame_url.replace("/console/call/", "");
  expect((await browser.get<string>(frame)).body).toBe("<p>Hello &lt;Eve&gt;</p>");
  expect((await other.get(frame)).status).toBe(404);
  expect((await browser.post("templates/render", { html: "{{ name" })).status).toBe(422);
  await workspace.client.call("PUT", "/templates/welcome", { html: "<p>1</p>" });
  await workspace.client.call("PUT", "/templates/welcome", { html: "<p>2</p>" });
  const versions = await browser.get<List<{ version: number; html: string }>>("templates/welcome/versions");
  expect(versions.body.data.map(({ version, html }) => [version, html])).toEqual([
    [2, "<p>2</p>"],
    [1, "<p>1</p>"],
  ]);
});

test("contacts come from a file, with what was rejected, and leave as one", async () => {
  const { id: audience_id } = (await workspace.client.post<{ id: string }>("/audiences", { name: "People" }))
    .body;
  const rows = Array.from({ length: 2_500 }, (_, n) => `person.${n}@example.net,Person ${n}`);
  const csv = ["email,first_name", ...rows, "nobody,No Address", "=cmd@example.net,=1+1"].join("\n");
  const begun = await browser.post<{ id: string }>("contacts/import", {
    audience_id,
    csv,
    consent: "a form",
  });
  expect(begun.status).toBe(202);
  const progress = async () =>
    (await browser.get<{ state: string; rejected: unknown[] }>(`contacts/import/${begun.body.id}`)).body;
  await expect.poll(async () => (await progress()).state).toBe("done");
  expect(await progress()).toMatchObject({ imported: 2_501, rejected: [{ row: 2_502 }] });
  const file = await browser.get<string>(`contacts/export?audience_id=${audience_id}`);
  expect(file.headers.get("content-disposition")).toContain("attachment");
  expect(file.body.trim().split("\n")).toHaveLength(2_502);
  expect(file.body).toContain("'=1+1");
  const contact = await workspace.client.get<{ id: string }>(
    `/audiences/${audience_id}/contacts/person.1@example.net`,
  );
  const consent = await browser.get<List<{ source: string }>>(`contacts/${contact.body.id}/consent`);
  expect(consent.body.data).toMatchObject([{ kind: "given", source: "a form" }]);
});

test("what happens is heard without asking, from the log and without it", async () => {
  for (const isLogged of [false, true]) {
    const own = await engine.workspace();
    if (isLogged) await engine.sql`update workspace set logs_events = true where id = ${own.id}`;
    const watcher = await signedIn(engine.consoleUrl, engine.sql, own.id, "member");
    const stop = new AbortController();
    const stream = await fetch(`${engine.consoleUrl}/console/call/live?workspace=${own.id}`, {
      headers: { cookie: watcher.cookie },
      signal: stop.signal,
    });
    expect(stream.headers.get("content-type")).toBe("text/event-stream");
    const heard = hear(stream);
    await expect.poll(() => heard.text).toContain("event: ready");
    // events are numbered by the process that tells webhooks, which does not run here
    const number = () => engine.sql.begin((tx) => numberEvents(tx, EVENTS_MAX));
    await own.client.post("/emails", mail());
    await expect
      .poll(async () => {
        if (isLogged) await number();
        return heard.text;
      })
      .toContain(isLogged ? '"type":"email.accepted"' : '"type":"email.changed"');
    stop.abort();
  }
});

test("a person is invited by a link that only they get, gets a role, and loses it", async () => {
  const email = `new.${workspace.handle}@example.com`;
  const invited = await browser.post<{ link: null }>("members", { email, role: "member" });
  expect(invited).toMatchObject({ status: 201, body: { link: null } });
  const [at, token] = (await mailedInvitation(engine.sql, workspace.id, email)).split("#");
  expect(at).toBe(`${engine.consoleUrl}/console/invite`);
  const guest = new Browser(engine.consoleUrl);
  expect((await guest.post("invitation", { token })).body).toMatchObject({
    email,
    role: "member",
    has_account: false,
  });
  const accepted = await guest.post<SessionBody>("invitation/accept", { token, password: PASSWORD });
  expect(accepted.body.workspaces).toMatchObject([{ id: workspace.id, role: "member" }]);
  expect((await guest.post("invitation/accept", { token, password: PASSWORD })).status).toBe(422);
  guest.csrf = accepted.body.csrf;
  guest.workspace = workspace.id;
  const { id } = accepted.body.account;
  expect((await guest.post("keys", { preset: "full" })).body).toMatchObject({ name: "forbidden" });
  expect((await browser.call("PATCH", `members/${id}`, { role: "admin" })).status).toBe(200);
  expect((await guest.post("keys", { preset: "full" })).status).toBe(201);
  expect((await guest.call("PATCH", `members/${id}`, { role: "owner" })).status).toBe(403);
  const members = await browser.get<{ data: { email: string; role: string }[] }>("members");
  expect(members.body.data.find((one) => one.email === email)).toMatchObject({
    role: "admin",
    is_you: false,
  });
  expect((await browser.call("DELETE", `members/${id}`)).status).toBe(200);
  expect((await guest.get("keys")).status).toBe(404);
});

test("the last owner stays", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  const { body } = await owner.get<SessionBody>("session");
  const left = await owner.call("DELETE", `members/${body.account.id}`);
  expect(left).toMatchObject({ status: 422, body: { name: "validation_error" } });
});

test("every change is in the audit log, with who made it and how it was answered", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  const { key, id } = (await owner.post<{ key: string; id: string }>("keys", { preset: "sending" })).body;
  await owner.call("DELETE", `keys/${id}`);
  await owner.post("v1/audiences", { name: "People" });
  await owner.post("v1/audiences", {});
  await owner.get("overview");
  type Change = { action: string; subject: string; status: number };
  const log = await owner.get<List<Change>>("audit?limit=2");
  expect(log.body.has_more).toBe(true);
  const rest = await owner.get<List<Change>>(`audit?cursor=${log.body.next_cursor}`);
  const all = [...log.body.data, ...rest.body.data].map(({ action, subject, status }) => [
    action,
    subject,
    status,
  ]);
  expect(all).toEqual([
    ["POST /audiences", "", 422],
    ["POST /audiences", "", 201],
    ["DELETE keys/{id}", id, 200],
    ["POST keys", "", 201],
    ["POST session", "", 200],
  ]);
  expect(JSON.stringify([log.body, rest.body])).not.toContain(key);
});

test("a password is changed, forgotten and chosen anew; sessions end with it", async () => {
  const { email } = await person(engine.sql, workspace.id, "member");
  const [here, there] = [new Browser(engine.consoleUrl), new Browser(engine.consoleUrl)];
  await here.signIn(email);
  await there.signIn(email);
  const changed = await here.post("password", { password: PASSWORD, new_password: "another password" });
  expect(changed.status).toBe(200);
  expect((await here.get("session")).status).toBe(200);
  expect((await there.get("session")).status).toBe(401);
  const stranger = new Browser(engine.consoleUrl);
  const unknown = await stranger.post("reset", { email: "nobody@example.com" });
  const known = await stranger.post("reset", { email });
  expect([known.status, known.body]).toEqual([unknown.status, unknown.body]);
  let token = "";
  await expect
    .poll(async () => {
      const [row] = await engine.sql<{ plain: string }[]>`
        select b.plain from email e join body b on b.workspace_id = e.workspace_id and b.id = e.id
        where e.workspace_id = ${workspace.id} and e.head::text like ${`%${email}%`}`;
      token = /\/console\/reset#(\S+)/.exec(row?.plain ?? "")?.[1] ?? "";
      return token;
    })
    .not.toBe("");
  const chosen = await stranger.post("reset/confirm", { token, password: PASSWORD });
  expect(chosen.body).toEqual({ object: "reset" });
  expect((await here.get("session")).status).toBe(401);
  expect((await stranger.post("reset/confirm", { token, password: PASSWORD })).body).toMatchObject({
    name: "invalid_token",
  });
  expect((await stranger.signIn(email)).status).toBe(200);
});

test("operators see all workspaces, hold destinations, set caps and find mail; others do not", async () => {
  const own = await engine.workspace();
  const { body: sent } = await own.client.post<{ id: string }>("/emails", mail());
  const { id, email } = await person(engine.sql, workspace.id, "member");
  const operator = new Browser(engine.consoleUrl);
  await operator.signIn(email);
  expect((await operator.get("operator/workspaces")).status).toBe(403);
  await engine.sql`update account set is_operator = true where id = ${id}`;
  const found = await operator.post<List<object>>("operator/find", { what: `<${sent.id}@example.com>` });
  expect(found.body.data).toMatchObject([{ workspace_id: own.id, id: sent.id, status: "accepted" }]);
  const listed = await operator.get<List<{ id: string }>>(`operator/workspaces?name=${own.handle}`);
  expect(listed.body.data.map((one) => one.id)).toEqual([own.id]);
  expect((await operator.get("operator/workspaces?name=a%00b")).status).toBe(422);
  expect((await operator.get("v1/emails", { "x-workspace": own.id })).status).toBe(404);
  const path = `operator/workspaces/${own.id}`;
  for (const given of [{}, { reason: " " }])
    expect((await operator.post(`${path}/suspend`, given)).status).toBe(422);
  expect((await operator.post(`${path}/suspend`, { reason: "spam" })).status).toBe(200);
  const suspended = await operator.get<List<object>>("operator/audit?limit=1");
  expect(suspended.body.data).toMatchObject([{ subject: own.id, detail: { reason: "spam" } }]);
  expect((await own.client.post("/emails", mail())).status).toBe(403);
  expect((await operator.post(`${path}/resume`, { reason: "all clear" })).status).toBe(200);
  const resumed = await operator.get<List<object>>("operator/audit?limit=1");
  expect(resumed.body.data).toMatchObject([{ subject: own.id, detail: { reason: "all clear" } }]);
  expect((await own.client.post("/emails", mail())).status).toBe(200);
  const destination = `${own.handle.toLowerCase()}.example`;
  expect((await operator.post("operator/queue/suspend", { destination, hours: 1 })).status).toBe(422);
  const hold = { destination, hours: 1, reason: "slow" };
  expect((await operator.post("operator/queue/suspend", hold)).status).toBe(200);
  expect((await operator.post("operator/queue/bounce", { destination })).status).toBe(422);
  for (const change of ["suspend", "bounce"]) {
    const nowhere = { destination: " ", reason: "slow" };
    expect((await operator.post(`operator/queue/${change}`, nowhere)).status).toBe(422);
  }
  await operator.post("operator/queue/bounce", { destination, reason: "closed" });
  const bounced = await operator.get<List<object>>("operator/audit?limit=1");
  expect(bounced.body.data).toMatchObject([{ detail: { destination, reason: "closed" } }]);
  const queue = await operator.get<{ holds: { destination: string }[] }>("operator/queue");
  expect(queue.body.holds.map((one) => one.destination)).toContain(destination);
  expect((await operator.post("operator/queue/resume", { destination })).status).toBe(200);
  const caps = await operator.post(`operator/caps/${own.id}`, { fixed: 5_000, reason: "known sender" });
  expect(caps.body).toMatchObject({ cap_day: 5_000, override: { fixed: 5_000, by: email } });
  const log = await operator.get<List<object>>("operator/audit?limit=1");
  expect(log.body.data).toMatchObject([
    { action: "POST operator/caps/{id}", subject: own.id, account: { email }, status: 200 },
  ]);
});

test("the audit log holds the old and the new name, and no address of a contact", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  type Made = { id: string };
  const audience = (await owner.post<Made>("v1/audiences", { name: "People" })).body.id;
  const template = (await owner.post<Made>("v1/templates", { name: "Order", html: "<p>1</p>" })).body.id;
  await owner.call("PATCH", `v1/audiences/${audience}`, { name: "Readers" });
  await owner.call("PATCH", `v1/templates/${template}`, { name: "Bill" });
  await owner.call("PATCH", `v1/templates/${template}`, { html: "<p>2</p>" });
  const changes = () => owner.get<List<{ subject: string; detail: unknown }>>("audit?limit=3");
  expect((await changes()).body.data.map(({ detail }) => detail)).toEqual([
    { name: "Bill" },
    { name: "Order", new_name: "Bill" },
    { name: "People", new_name: "Readers" },
  ]);

  const address = "To.Forget@example.net";
  const contacts = `v1/audiences/${audience}/contacts`;
  const contact = (await owner.post<Made>(contacts, { email: address })).body.id;
  const suppression = (await owner.post<Made>("v1/suppressions", { email: address })).body.id;
  const at = encodeURIComponent(address.toLowerCase());
  await owner.call("PATCH", `v1/contacts/${at}`, { first_name: "T" });
  await owner.call("DELETE", `v1/suppressions/${at}`);
  await owner.call("DELETE", `${contacts}/${address}`);
  await owner.call("DELETE", `${contacts}/${at}?mode=erase`);
  await owner.call("DELETE", `${contacts}/${at}?mode=erase`);
  const log = await owner.get<List<{ subject: string; detail: unknown; status: number }>>("audit?limit=5");
  expect(log.body.data.map(({ subject, detail, status }) => [subject, detail, status])).toEqual([
    [audience, { name: "Readers" }, 404],
    [`${audience} ${contact}`, { name: "Readers" }, 200],
    [`${audience} ${contact}`, { name: "Readers" }, 200],
    ["", { id: suppression }, 200],
    [contact, null, 200],
  ]);
  const traces = await engine.sql`
    select from change c where workspace_id = ${own.id} and to_jsonb(c)::text ~* 'to.forget'`;
  expect(traces).toHaveLength(0);
});

test("addresses that the audit log held before are gone", async () => {
  const own = await engine.workspace();
  let at = Date.now();
  const log = (action: string, subject: string) =>
    engine.sql`
      insert into change (workspace_id, id, account_id, email, action, subject)
      values (${own.id}, ${newId(at++)}, ${own.id}, 'owner@example.com', ${action}, ${subject})`;
  await log("DELETE /audiences/{id}/contacts/{email_or_id}", `${own.id} ann%40example.net`);
  await log("DELETE /contacts/{email_or_id}/segments/{id}", `ann@example.net ${own.id}`);
  await log("DELETE /suppressions/{id_or_email}", "ann@example.net");
  await log("PATCH /contacts/{email_or_id}", own.id);
  await engine.sql.unsafe(readFileSync("src/record/migrations/0050_subjects.sql", "utf8"));
  const rows = await engine.sql`select subject from change where workspace_id = ${own.id} order by id`;
  expect(rows.map(({ subject }) => subject)).toEqual([own.id, own.id, "", own.id]);
});

test("there is no mailbox where mail is sent", async () => {
  expect((await browser.get("mailbox")).status).toBe(404);
});
