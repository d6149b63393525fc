/**
 * The pages behind the links in mail, with a browser that was led there by somebody who knows the link:
 * another site cannot act in the visitor's name nor show the page in a frame, while the page's own button and
 * the one-click requests of mail programs (RFC 8058) work.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Links } from "../../src/audience/links.ts";
import { eventually } from "../rig/eventually.ts";
import { SECRET, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const OURS = "https://mail.example.org";

let api: TestApi;
let ws: TestWorkspace;
let audience: string;
let links: Links;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  audience = await newAudience(false);
  links = new Links(SECRET, OURS);
});
afterAll(() => api.stop());

async function newAudience(double_opt_in: boolean): Promise<string> {
  return (await ws.client.post<{ id: string }>("/audiences", { name: "A", double_opt_in })).body.id;
}

let people = 0;
async function subscriber(): Promise<{ link: string; isUnsubscribed(): Promise<boolean> }> {
  const email = `person${++people}@example.net`;
  const { body } = await ws.client.post<{ id: string }>(`/audiences/${audience}/contacts`, { email });
  const url = links.unsubscribeUrl({ workspaceId: ws.id, audienceId: audience, contactId: body.id });
  return {
    link: url.replace(OURS, api.url),
    async isUnsubscribed() {
      const path = `/audiences/${audience}/contacts/${email}`;
      return (await ws.client.get<{ unsubscribed: boolean }>(path)).body.unsubscribed;
    },
  };
}

const ONE_CLICK = { body: "List-Unsubscribe=One-Click", type: "application/x-www-form-urlencoded" };

test.each<[what: string, origin: (url: string) => string | null]>([
  ["a mail program, which names no page", () => null],
  ["the page as PUBLIC_URL names it", () => OURS],
  ["the page as the visitor names it", (url) => new URL(url).origin],
])("%s unsubscribes", async (_, originOf) => {
  const { link, isUnsubscribed } = await subscriber();
  const origin = originOf(api.url);
  const response = await fetch(link, {
    method: "POST",
    body: ONE_CLICK.body,
    headers: { "content-type": ONE_CLICK.type, ...(origin !== null && { origin }) },
  });
  expect(response.status).toBe(200);
  expect(await isUnsubscribed()).toBe(true);
});

test.each<[what: string, origin: (url: string) => string]>([
  ["another site", () => "https://evil.example"],
  ["a hidden site, as of a sandboxed frame", () => "null"],
  ["another port of ours", (url) => `http://127.0.0.1:${Number(new URL(url).port) + 1}`],
  ["a name that begins as ours", () => `${OURS}.evil.example`],
  ["a name that ends as ours", () => "https://evil-mail.example.org"],
  ["another scheme", () => OURS.replace("https", "http")],
  ["ours as a user of another", () => `https://mail.example.org@evil.example`],
  ["no url", () => "mail.example.org"],
  ["a file", () => "file://"],
])("%s changes nothing", async (_, originOf) => {
  const { link, isUnsubscribed } = await subscriber();
  const response = await fetch(link, { method: "POST", headers: { origin: originOf(api.url) } });
  expect(response.status).toBe(403);
  expect(await response.text()).toContain("nothing was changed");
  expect(await isUnsubscribed()).toBe(false);
});

test("no site confirms a subscription, and the page's own button still does", async () => {
  const optIn = await newAudience(true);
  const email = `person${++people}@example.net`;
  await ws.client.post(`/audiences/${optIn}/contacts`, { email });
  const [mail] = await eventually(async () => {
    const { data } = (await ws.client.get<{ data: { id: string; to: string[] }[] }>("/emails")).body;
    const mails = data.filter(({ to }) => to.includes(email));
    expect(mails).toHaveLength(1);
    return mails;
  });
  const { text } = (await ws.client.get<{ text: string }>(`/emails/${mail?.id}`)).body;
  const link = api.url + (/https:\/\/mail\.example\.org(\/confirm\/\S+)/.exec(text)?.[1] ?? "");
  const press = (origin: string) => fetch(link, { method: "POST", headers: { origin } });
  expect((await press("https://evil.example")).status).toBe(403);
  expect((await press("null")).status).toBe(403);
  expect((await press(OURS)).status).toBe(200);
});

test("a page is not shown in a frame, not kept, runs nothing, and tells nobody its address", async () => {
  const { link } = await subscriber();
  for (const method of ["GET", "POST"]) {
    const { headers } = await fetch(link, { method });
    expect(headers.get("x-frame-options")).toBe("DENY");
    expect(headers.get("content-security-policy")).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("same-origin");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("access-control-allow-origin")).toBeNull();
  }
});
