import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { mail } from "../rig/workspace.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api"]);
});
afterAll(() => engine.stop());

const { postrider, json } = commandLine();

const listWith = (key: string) =>
  fetch(`${engine.url}/api/v1/emails`, { headers: { authorization: `Bearer ${key}` } });

test("a workspace from its making to a revoked key", async () => {
  const { id } = await json<{ id: string }>(
    "workspace",
    "create",
    "--name",
    "Shop",
    "--plan",
    "pro",
    "--owner-email",
    "o@example.com",
  );
  const made = await json<{ id: string; key: string }>(
    "key",
    "create",
    "--workspace",
    id,
    "--preset",
    "full",
  );
  expect((await listWith(made.key)).status).toBe(200);
  const audience = await json<{ id: string; double_opt_in: boolean }>(
    "audience",
    "create",
    "--workspace",
    id,
    "--name",
    "News",
    "--double-opt-in",
  );
  expect(audience.double_opt_in).toBe(true);
  const limited = await json<{ key: string }>(
    "key",
    "create",
    "--workspace",
    id,
    "--permission",
    "contacts:read",
    "--audience",
    audience.id,
  );
  expect((await listWith(limited.key)).status).toBe(403);

  await json("workspace", "set", id, "--limit", "requests_per_second=3", "--limit", "cap_hour=70");
  expect((await listWith(made.key)).headers.get("x-ratelimit-limit")).toBe("3");
  const headers = { authorization: `Bearer ${made.key}`, "content-type": "application/json" };
  await fetch(`${engine.url}/api/v1/emails`, { method: "POST", headers, body: JSON.stringify(mail()) });
  expect(await json("usage", "--workspace", id)).toMatchObject({
    emails_per_month: { used: 1, limit: 250_000 },
    cap_hour: { used: 1, limit: 70 },
  });

  await json("key", "revoke", made.id);
  expect((await listWith(made.key)).status).toBe(401);
  await expect
    .poll(
      async () =>
        (await json<{ id: string; last_used_at: string | null }[]>("key", "list", "--workspace", id)).find(
          (key) => key.id === made.id,
        )?.last_used_at,
      { timeout: 10_000 },
    )
    .not.toBeNull();
});

test("people read words, not JSON", async () => {
  const named = ["workspace", "create", "--name", "Shop", "--plan", "pro", "--owner-email"];
  const made = await postrider(...named, "words@example.com");
  const [, id = ""] =
    /^Workspace (\S+) \(pro\), handle \w{8}\.\nOwner words@example\.com, password \S+ \(shown once\)\.\n$/.exec(
      made.out,
    ) ?? [];
  expect(id, made.out).not.toBe("");
  const set = await postrider("workspace", "set", id, "--event-log", "on", "--limit", "cap_day=700");
  expect(set.out).toBe(`Workspace ${id}: plan pro, own limits cap_day=700, event log on.\n`);
  const queue = await postrider("queue");
  expect(queue.out).not.toMatch(/^None\.$/m);
});

test("bad input ends with 1, bad usage with 2, in one line", async () => {
  const cases: [string[], number][] = [
    [["workspace", "create", "--name", "x", "--plan", "gold"], 1],
    [["workspace", "set", "not-an-id", "--plan", "pro"], 1],
    [["workspace", "set", "00000000-0000-7000-8000-000000000000", "--plan", "pro"], 1],
    [["workspace", "set", "00000000-0000-7000-8000-000000000000", "--limit", "cap_hour=10"], 1],
    [["workspace", "create"], 2],
    [["dance"], 2],
  ];
  for (const [args, status] of cases) {
    const ran = await postrider(...args);
    expect(ran.status, args.join(" ")).toBe(status);
    expect(ran.err.trim().split("\n"), ran.err).toHaveLength(1);
  }
});

test("the queue and the doctor answer", async () => {
  expect(await json("queue")).toHaveProperty("emails.deferred");
  const { out } = await postrider("doctor", "--json");
  const findings = JSON.parse(out) as { what: string; state: string }[];
  expect(findings.find(({ what }) => what === "Postgres")?.state).toBe("ok");
  expect(findings.find(({ what }) => what === "memory policy")?.state).toBe("ok");
});
