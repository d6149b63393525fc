import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const BOUNCES = "bounces.operator.example";
type Dns = { record: string; type: string; name: string; value: string; status: string };
type Domain = { id: string; name: string; status: string; records: Dns[]; created_at: string };

/** What DNS has: texts by name. */
const texts = new Map<string, string[]>();
const hosts = new Map<string, string>([[BOUNCES, "mx.operator.example"]]);
const missing = () => Object.assign(new Error("no such name"), { code: "ENOTFOUND" });

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi({
    requireVerifiedDomains: true,
    dns: {
      askTxt: async (name) => {
        const found = texts.get(name);
        if (!found) throw missing();
        return found.map((text) => [text]);
      },
      returnPaths: {
        bounceDomain: BOUNCES,
        askMx: async (name) => {
          const exchange = hosts.get(name);
          if (!exchange) throw missing();
          return [{ exchange }];
        },
      },
    },
  });
  ws = await api.workspace();
});
afterAll(() => api.stop());

const get = async (id: string) => (await ws.client.get<Domain>(`/domains/${id}`)).body;
const statuses = ({ records }: Domain) =>
  Object.fromEntries(records.map(({ record, status }) => [record, status]));
const send = (name: string) => ws.client.post<Refusal>("/emails", mail({ from: `a@${name}` }));

describe("a domain", () => {
  test("is added, published, verified, and then sends signed mail until it is removed", async () => {
    const { status, body: made } = await ws.client.post<Domain>("/domains", { name: "Shop.Example.com" });
    expect(status).toBe(201);
    expect(made).toMatchObject({
      id: expect.any(String),
      name: "shop.example.com",
      status: "not_started",
      capabilities: { sending: "enabled", receiving: "disabled" },
    });
    expect(made.records.map(({ record, type, name }) => [record, type, name])).toEqual([
      ["DKIM", "TXT", expect.stringMatching(/^[a-z0-9-]+\._domainkey\.shop\.example\.com$/)],
      ["Ownership", "TXT", "_postrider.shop.example.com"],
      ["SPF", "TXT", "shop.example.com"],
      ["DMARC", "TXT", "_dmarc.shop.example.com"],
      ["Return-Path", "CNAME", "bounces.shop.example.com"],
    ]);
    expect(new Set(made.records.map(({ status }) => status))).toEqual(new Set(["not_started"]));
    expect((await send("shop.example.com")).status).toBe(403);

    expect((await ws.client.post(`/domains/${made.id}/verify`)).body).toEqual({
      object: "domain",
      id: made.id,
    });
    const unpublished = await get(made.id);
    expect(unpublished.status).toBe("pending");
    expect(statuses(unpublished)).toMatchObject({ DKIM: "failed", Ownership: "failed", SPF: "failed" });

    for (const { record, type, name, value } of made.records)
      if (type === "TXT" && record !== "Ownership") texts.set(name, [value]);
    hosts.set("bounces.shop.example.com", "mx.operator.example");
    await ws.client.post(`/domains/${made.id}/verify`);
    const published = await get(made.id);
    expect(published).toMatchObject({ object: "domain", status: "verified" });
    expect(statuses(published)).toEqual({
      DKIM: "verified",
      Ownership: "failed",
      SPF: "verified",
      DMARC: "verified",
      "Return-Path": "verified",
    });
    expect((await send("shop.example.com")).status).toBe(200);

    const { data } = (await ws.client.get<{ data: Domain[] }>("/domains")).body;
    expect(data.find(({ id }) => id === made.id)).toMatchObject({
      name: "shop.example.com",
      status: "verified",
    });
    expect((await ws.client.call("DELETE", `/domains/${made.id}`)).body).toEqual({
      object: "domain",
      id: made.id,
      deleted: true,
    });
    expect((await ws.client.get(`/domains/${made.id}`)).status).toBe(404);
    expect((await send("shop.example.com")).status).toBe(403);
  });

  test("that is another workspace's stays so while its proof is in DNS", async () => {
    const theirs = await api.workspace();
    const first = (await theirs.client.post<Domain>("/domains", { name: "taken.example.com" })).body;
    const mine = (await ws.client.post<Domain>("/domains", { name: "taken.example.com" })).body;
    const publish = ({ records }: Domain) => {
      const { name, value } = records.find(({ record }) => record === "Ownership") as Dns;
      texts.set(name, [...(texts.get(name) ?? []), value]);
    };
    publish(first);
    await theirs.client.post(`/domains/${first.id}/verify`);
    expect((await theirs.client.get<Domain>(`/domains/${first.id}`)).body.status).toBe("partially_verified");
    expect((await theirs.client.get<{ data: Domain[] }>("/domains")).body.data).toMatchObject([
      { id: first.id, status: "partially_verified" },
    ]);
    publish(mine);
    await ws.client.post(`/domains/${mine.id}/verify`);
    expect((await get(mine.id)).status).toBe("pending");
    expect((await send("taken.example.com")).status).toBe(403);
  });

  test("is there once; a second add names its id", async () => {
    const { id } = (await ws.client.post<Domain>("/domains", { name: "once.example.com" })).body;
    const { status, body } = await ws.client.post<Refusal>("/domains", { name: "ONCE.example.com" });
    expect(status).toBe(422);
    expect(body.message).toContain(id);
  });

  test.each([
    [{}, "missing_required_field"],
    [{ name: "not a domain" }, "validation_error"],
    [{ name: "a.example.com", open_tracking: true }, "validation_error"],
    [{ name: "a.example.com", tls: "enforced" }, "validation_error"],
    [{ name: "a.example.com", capabilities: { receiving: "enabled" } }, "validation_error"],
  ])("%j is refused", async (body, name) => {
    expect((await ws.client.post<Refusal>("/domains", body)).body).toMatchObject({ statusCode: 422, name });
  });
});
