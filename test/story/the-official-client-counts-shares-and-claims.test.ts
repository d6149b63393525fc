/**
 * `emails.metrics`, `emails.share`, `domains.claims` and `oauthGrants.list`, as the official client asks for
 * them.
 */
import { Resend } from "resend";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const texts = new Map<string, string[]>();
let ahead = 0;
const clock = { now: () => Date.now() + ahead, given: () => 0 };
let api: TestApi;
let ws: TestWorkspace;
let resend: Resend;
beforeAll(async () => {
  api = await testApi({
    clock,
    dns: {
      askTxt: async (name) => {
        const found = texts.get(name);
        if (!found) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
        return found.map((text) => [text]);
      },
      returnPaths: null,
    },
  });
  ws = await api.workspace();
  resend = clientOf(ws.client.key);
});
afterAll(() => api.stop());

function clientOf(key: string): Resend {
  return new Resend(key, { baseUrl: `${api.url}/api/v1` });
}

describe("metrics", () => {
  const today = Math.floor(Date.now() / DAY_MS);
  const dayText = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);

  beforeAll(async () => {
    const other = await api.workspace();
    for (const [workspaceId, day, attempted] of [
      [ws.id, today, 40],
      [ws.id, today - 3, 60],
      [ws.id, today - 10, 1_000],
      [other.id, today, 5_000],
    ] as const)
      await api.sql`
        insert into tally (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, complained)
        values (${workspaceId}, ${day}, 'a', ${attempted}, ${attempted / 2}, 3, 4, 2, 1, 1)`;
  });

  test("count the last seven days by default, and this workspace alone", async () => {
    const { data, error } = await resend.emails.metrics();
    expect(error).toBeNull();
    expect(data).toMatchObject({ object: "metrics", dimensions: [], granularity: "daily" });
    expect(data?.start_date).toBe(new Date((today - 6) * DAY_MS).toISOString());
    expect(data?.totals).toEqual({
      ...{ sent: 100, delivered: 50, delivery_delayed: 6, bounced: 14 },
      ...{ bounced_permanent: 8, bounced_transient: 6, complained: 2 },
      ...{ delivery_rate: 0.5, bounce_rate: 0.14, complaint_rate: 0.04 },
    });
    expect(data?.metrics).toEqual(Object.keys(data?.totals ?? {}));
    expect(data).not.toHaveProperty("data");
  });

  test("show each period, also those without mail", async () => {
    const { data } = await resend.emails.metrics({
      startDate: dayText(today - 3),
      dimensions: ["period"],
      metrics: ["sent"],
    });
    expect(data?.totals).toEqual({ sent: 100 });
    expect(data?.data).toEqual(
      [60, 0, 0, 40].map((sent, n) => ({ period: `${dayText(today - 3 + n)}T00:00:00.000Z`, sent })),
    );
  });

  test("sum weeks from Monday, and months from their first", async () => {
    for (const granularity of ["weekly", "monthly"] as const) {
      const { data } = await resend.emails.metrics({
        startDate: dayText(today - 10),
        dimensions: ["period"],
        metrics: ["sent"],
        granularity,
      });
      const rows = data?.data ?? [];
      expect(rows.reduce((sum, { sent = 0 }) => sum + sent, 0)).toBe(1_100);
      for (const { period = "" } of rows)
        if (granularity === "weekly") expect(new Date(period).getUTCDay()).toBe(1);
        else expect(new Date(period).getUTCDate()).toBe(1);
    }
  });

  test.each([
    [{ metrics: ["opened"] }, "`opened` is not counted"],
    [{ granularity: "hourly" }, "`granularity` must be one of"],
    [{ dimensions: ["domain"] }, "`dimensions` cannot have this value"],
    [{ domainId: ["01890000-0000-7000-8000-000000000000"] }, "`domain_id` cannot have this value"],
    [{ timezone: "Europe/Berlin" }, "`timezone` cannot have this value"],
    [{ startDate: "yesterday" }, "`start_date` must be a day"],
    [{ startDate: "2026-02-02", endDate: "2026-02-01" }, "`start_date` must not be after"],
  ])("refuse what is not counted: %j", async (options, words) => {
    const { error } = await resend.emails.metrics(options as never);
    expect(error).toMatchObject({ name: "invalid_parameter", message: expect.stringContaining(words) });
  });
});

describe("a shared e-mail", () => {
  const EMAIL = { from: "Acme <a@example.com>", to: "b@example.net", subject: "A <b>subject</b>" };

  test("is shown to whoever has the link, closed in, until the link expires", async () => {
    const html = `<p class="x">Hello</p><script>alert(1)</script>`;
    const sent = await resend.emails.send({ ...EMAIL, html });
    const id = sent.data?.id ?? "";
    const { data, error } = await resend.emails.share(id, { expiresIn: "2 hours" });
    expect(error).toBeNull();
    expect(data).toEqual({ object: "email", id, url: expect.stringContaining("/shared/") });
    const page = await fetch(onTestPort(data?.url));
    expect(page.status).toBe(200);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    const shown = await page.text();
    expect(shown).toContain("A &lt;b&gt;subject&lt;/b&gt;");
    expect(shown).toContain(`sandbox srcdoc="&lt;p class=&quot;x&quot;&gt;Hello`);
    expect(shown).not.toContain("<script");

    ahead = 3 * 3_600_000;
    expect((await fetch(onTestPort(data?.url))).status).toBe(404);
    ahead = 0;
  });

  test("cannot be had by another link, nor for longer than a week", async () => {
    const { data: sent } = await resend.emails.send({ ...EMAIL, text: "Hello" });
    const id = sent?.id ?? "";
    const { data } = await resend.emails.share(id);
    const url = onTestPort(data?.url);
    expect(await (await fetch(url)).text()).toContain("<pre>Hello</pre>");
    const forged = url.replace(/.(?=.{9}$)/, (sign) => (sign === "A" ? "B" : "A"));
    for (const other of [forged, `${url}x`, url.replace(/[^/]+$/, "")])
      expect((await fetch(other)).status).toBe(404);
    expect((await fetch(url, { method: "POST" })).status).toBe(404);
    for (const expiresIn of ["8 days", "soon", "0 hours"])
      expect((await resend.emails.share(id, { expiresIn })).error?.message).toContain("`expires_in`");
  });

  test("is one of the key that asks, unless the key may do everything", async () => {
    const { data: sent } = await resend.emails.send({ ...EMAIL, text: "Hello" });
    const { client } = await ws.key(["emails:send"]);
    const limited = clientOf(client.key);
    expect((await limited.emails.share(sent?.id ?? "")).error?.name).toBe("restricted_api_key");
    const stranger = clientOf((await api.workspace()).client.key);
    expect((await stranger.emails.share(sent?.id ?? "")).error?.name).toBe("not_found");
  });

  test("is gone with its contents", async () => {
    const { data: sent } = await resend.emails.send({ ...EMAIL, text: "Hello" });
    const id = sent?.id ?? "";
    const { data } = await resend.emails.share(id);
    await api.sql`delete from body where workspace_id = ${ws.id} and id = ${id}`;
    expect((await fetch(onTestPort(data?.url))).status).toBe(404);
    expect((await resend.emails.share(id)).error?.name).toBe("not_found");
  });
});

describe("a claim of a domain", () => {
  test("says which record proves ownership, and is completed once DNS shows it", async () => {
    const { data: made, error } = await resend.domains.claims.create({ name: "claimed.example.com" });
    expect(error).toBeNull();
    expect(made).toMatchObject({
      object: "domain_claim",
      status: "pending",
      record: { type: "TXT", name: "_postrider.claimed.example.com", ttl: "Auto" },
    });
    const domainId = made?.domain_id ?? "";
    expect((await resend.domains.claims.verify(domainId)).data?.status).toBe("pending");
    texts.set(made?.record.name ?? "", [made?.record.value ?? ""]);
    expect((await resend.domains.claims.verify(domainId)).data?.status).toBe("completed");
    expect((await resend.domains.get(domainId)).data).toMatchObject({ name: "claimed.example.com" });
  });

  test("takes a domain from another workspace only when that one's record is gone", async () => {
    const rival = clientOf((await api.workspace()).client.key);
    const theirs = await rival.domains.claims.create({ name: "moved.example.com" });
    const name = theirs.data?.record.name ?? "";
    texts.set(name, [theirs.data?.record.value ?? ""]);
    expect((await rival.domains.claims.verify(theirs.data?.domain_id ?? "")).data?.status).toBe("completed");

    const ours = await resend.domains.claims.create({ name: "moved.example.com" });
    const domainId = ours.data?.domain_id ?? "";
    texts.set(name, [theirs.data?.record.value ?? "", ours.data?.record.value ?? ""]);
    expect((await resend.domains.claims.verify(domainId)).data).toMatchObject({
      status: "blocked",
      failure_reason: expect.stringContaining("Another workspace"),
    });
    texts.set(name, [ours.data?.record.value ?? ""]);
    expect((await resend.domains.claims.verify(domainId)).data).toMatchObject({
      status: "completed",
      failure_reason: null,
    });
    expect((await rival.domains.claims.verify(theirs.data?.domain_id ?? "")).data?.status).toBe("pending");
  });

  test("is the same when it is made again", async () => {
    const first = await resend.domains.claims.create({ name: "twice.example.com" });
    const again = await resend.domains.claims.create({ name: "twice.example.com" });
    expect(again.data).toEqual(first.data);
  });
});

test("nobody has an OAuth grant", async () => {
  expect((await resend.oauthGrants.list()).data).toEqual({
    ...{ object: "list", data: [], has_more: false },
    next_cursor: null,
  });
});

/** Links lead to the public URL, which in a test nobody serves. */
function onTestPort(url = ""): string {
  return url.replace("https://mail.example.org", api.url);
}
