/**
 * With a consent the address of the visitor is stored. It is that of the connection; behind a proxy it is
 * what the proxy wrote last, whatever the visitor has written before.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Links } from "../../src/audience/links.ts";
import { say } from "../rig/rawhttp.ts";
import { SECRET, type TestApi, testApi } from "../rig/workspace.ts";

const CLAIMED = "203.0.113.9";
const SEEN = "198.51.100.7";

let direct: TestApi;
let behindProxy: TestApi;
beforeAll(async () => {
  [direct, behindProxy] = await Promise.all([testApi(), testApi({ trustProxy: true })]);
});
afterAll(() => Promise.all([direct.stop(), behindProxy.stop()]));

/** The addresses that are stored when these headers come with both buttons. */
async function storedOf(api: TestApi, forwarded: readonly string[]): Promise<Record<string, string>> {
  const ws = await api.workspace();
  const links = new Links(SECRET, api.url);
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", {
    name: "A",
    double_opt_in: true,
  });
  const contacts = `/audiences/${audience.id}/contacts`;
  const { body: contact } = await ws.client.post<{ id: string }>(contacts, { email: "a@example.net" });
  const askedAt = async () => {
    const [row] = await api.sql<{ at: Date | null }[]>`
      select asked_at as at from confirmation where workspace_id = ${ws.id}`;
    return row?.at?.getTime() ?? 0;
  };
  await expect.poll(askedAt).toBeGreaterThan(0);
  const target = { workspaceId: ws.id, audienceId: audience.id, contactId: contact.id };
  const urls = [links.confirmUrl({ ...target, askedAt: await askedAt() }), links.unsubscribeUrl(target)];
  const lines = forwarded.map((value) => `X-Forwarded-For: ${value}\r\n`).join("");
  for (const url of urls) {
    const head = `POST ${new URL(url).pathname} HTTP/1.1\r\nHost: a\r\n${lines}Content-Length: 0\r\n\r\n`;
    expect((await say(api.url, head, 1)).statuses).toEqual([200]);
  }
  const rows = await api.sql<{ kind: string; address: string }[]>`
    select kind, ip_address as address from consent
    where workspace_id = ${ws.id} and kind in ('confirmed', 'withdrawn')`;
  return Object.fromEntries(rows.map(({ kind, address }) => [kind, address]));
}

const both = (address: string) => ({ confirmed: address, withdrawn: address });

test.each<[what: string, forwarded: string[]]>([
  ["an address", [CLAIMED]],
  ["several", [`${CLAIMED}, ${SEEN}`]],
  ["several lines", [CLAIMED, SEEN]],
])("without a proxy %s in the header is nothing", async (_, forwarded) => {
  expect(await storedOf(direct, forwarded)).toEqual(both("127.0.0.1"));
});

test.each<[what: string, forwarded: string[], address: string]>([
  ["in a line of its own", [CLAIMED, SEEN], SEEN],
  ["behind the visitor's", [`${CLAIMED}, ${SEEN}`], SEEN],
  ["alone", [SEEN], SEEN],
  ["in no header", [], "127.0.0.1"],
])("behind a proxy what it wrote %s counts", async (_, forwarded, address) => {
  expect(await storedOf(behindProxy, forwarded)).toEqual(both(address));
});
