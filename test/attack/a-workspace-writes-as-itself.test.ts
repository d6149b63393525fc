/**
 * A From domain must be verified for the workspace; a name alone neither lets anybody write nor keeps anybody
 * out.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { openTxtServer, type TxtServer } from "../rig/txt.ts";
import { mail, type Refusal, type TestWorkspace } from "../rig/workspace.ts";

type Shown = {
  domain: string;
  verified: boolean;
  record: { name: string; value: string };
  ownership: { name: string; value: string };
};

let stage: Stage;
let dns: TxtServer;
let engine: Engine;
let postrider: ReturnType<typeof commandLine>["postrider"];
let json: ReturnType<typeof commandLine>["json"];
beforeAll(async () => {
  [stage, dns] = await Promise.all([openStage(), openTxtServer()]);
  const options = { ...stage, settings: { REQUIRE_VERIFIED_DOMAINS: "true" } };
  engine = await startEngine(["api"], options);
  ({ postrider, json } = commandLine(options));
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([dns.close(), stage.close()]);
});

const add = (ws: TestWorkspace, domain: string) => json<Shown>("domain", "add", domain, "--workspace", ws.id);
const verify = (ws: TestWorkspace, domain: string) =>
  postrider("domain", "verify", domain, "--workspace", ws.id, "--resolver", dns.address);
const publish = ({ name, value }: { name: string; value: string }) => dns.records.set(name, [value]);
const sendAs = (ws: TestWorkspace, from: string) =>
  ws.client.post<{ id: string } & Refusal>("/emails", mail({ from }));

/** Verified by its record of ownership. */
async function owns(ws: TestWorkspace, domain: string): Promise<Shown> {
  const shown = await add(ws, domain);
  publish(shown.ownership);
  expect(await verify(ws, domain)).toMatchObject({ status: 0 });
  return shown;
}

test("nobody writes from a domain before DNS shows it, and at once then, by either record", async () => {
  const ws = await engine.workspace();
  const refused = await sendAs(ws, "Acme <hi@one.example>");
  expect(refused).toMatchObject({ status: 403, body: { statusCode: 403, name: "validation_error" } });
  expect(refused.body.message).toMatch(
    /^The domain `one\.example` is not verified for this workspace\. Add it with `POST \/domains` or/,
  );
  expect(refused.body.message).toContain(`\`postrider domain verify one.example --workspace ${ws.id}\``);
  const named = await add(ws, "one.example");
  expect(named.verified).toBe(false);
  expect((await sendAs(ws, "hi@one.example")).status).toBe(403);
  publish(named.ownership);
  const byOwnership = await verify(ws, "one.example");
  expect(byOwnership, byOwnership.err).toMatchObject({ status: 0 });
  expect((await sendAs(ws, "hi@one.example")).status).toBe(200);
  expect((await sendAs(ws, "hi@deep.below.ONE.example")).status).toBe(200);
  expect((await sendAs(ws, "hi@notone.example")).status).toBe(403);

  const byKey = await add(ws, "two.example");
  publish(byKey.record);
  expect(await verify(ws, "two.example")).toMatchObject({ status: 0 });
  expect((await sendAs(ws, "hi@two.example")).status).toBe(200);
  expect(await json<Shown[]>("domain", "list", "--workspace", ws.id)).toMatchObject([
    { domain: "one.example", verified: true },
    { domain: "two.example", verified: true },
  ]);
  await json("domain", "remove", "two.example", "--workspace", ws.id);
  expect((await sendAs(ws, "hi@two.example")).status).toBe(403);
});

test("a batch is refused as a whole or where it is wrong, and a repeated request is answered again", async () => {
  const ws = await engine.workspace();
  await owns(ws, "batch.example");
  const mails = [mail({ from: "a@batch.example" }), mail({ from: "a@else.example" })];
  const strict = await ws.client.post<Refusal>("/emails/batch", mails);
  expect(strict).toMatchObject({ status: 403, body: { message: expect.stringContaining("`[1].from`") } });
  const permissive = await ws.client.post<{ data: unknown[]; errors: { index: number }[] }>(
    "/emails/batch",
    [{ ...mail(), from: "nonsense" }, ...mails],
    { "x-batch-validation": "permissive" },
  );
  expect(permissive.body.data).toHaveLength(1);
  expect(permissive.body.errors.map(({ index }) => index)).toEqual([0, 2]);

  const headers = { "idempotency-key": "again" };
  const first = await ws.client.post<{ id: string }>("/emails", mails[0], headers);
  await json("domain", "remove", "batch.example", "--workspace", ws.id);
  expect((await ws.client.post("/emails", mails[0], headers)).body).toEqual(first.body);
  expect((await sendAs(ws, "a@batch.example")).status).toBe(403);
});

test("who has a domain keeps it while DNS shows their record, and loses it to the next when it is gone", async () => {
  const [one, two] = [await engine.workspace(), await engine.workspace()];
  const claimed = await add(two, "sold.example"); // a name alone keeps nobody out
  const first = await owns(one, "sold.example");
  expect((await sendAs(two, "a@sold.example")).status).toBe(403);

  dns.records.set(first.ownership.name, [first.ownership.value, claimed.ownership.value]);
  const refused = await verify(two, "sold.example");
  expect(refused.status).toBe(1);
  expect(refused.err).toContain("another workspace has sold.example");
  expect((await sendAs(one, "a@sold.example")).status).toBe(200);

  publish(claimed.ownership);
  expect(await verify(two, "sold.example")).toMatchObject({ status: 0 });
  expect((await sendAs(two, "a@sold.example")).status).toBe(200);
  expect((await sendAs(one, "a@sold.example")).status).toBe(403);
});

test("below a domain the nearest that is verified decides", async () => {
  const [above, below] = [await engine.workspace(), await engine.workspace()];
  await owns(above, "group.example");
  expect((await sendAs(below, "a@team.group.example")).status).toBe(403);
  await owns(below, "team.group.example");
  expect((await sendAs(below, "a@x.team.group.example")).status).toBe(200);
  expect((await sendAs(below, "a@group.example")).status).toBe(403);
  expect((await sendAs(above, "a@other.group.example")).status).toBe(200);
  expect((await sendAs(above, "a@team.group.example")).status).toBe(403);
});

test("without the setting a domain of nobody is free, and one of another workspace is not", async () => {
  const [one, two] = [await engine.workspace(), await engine.workspace()];
  await owns(one, "taken.example");
  const free = await startEngine(["api"], stage);
  try {
    const send = (key: string, from: string) =>
      fetch(`${free.url}/api/v1/emails`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(mail({ from })),
      });
    expect((await send(two.client.key, "a@nobodys.example")).status).toBe(200);
    expect((await send(two.client.key, "a@taken.example")).status).toBe(403);
    expect((await send(one.client.key, "a@taken.example")).status).toBe(200);
  } finally {
    await free.stop();
  }
});
