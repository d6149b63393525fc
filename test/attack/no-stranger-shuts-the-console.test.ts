/** Strangers try passwords, send slowly and write odd paths. Who belongs here still comes in. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Attempts } from "../../src/admission/attempts.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, PASSWORD, person, signedIn } from "../rig/people.ts";
import { services } from "../rig/services.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const ELSEWHERE = { "x-forwarded-for": "192.0.2.1" };
/**
 * Eleven passwords are checked, each of which costs a third of a second of a core that has nothing else to
 * do.
 */
const PASSWORDS_MS_MAX = 120_000;

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0", TRUST_PROXY: "true" } });
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

test(
  "a stranger in one place keeps no owner out who is in another",
  async () => {
    const { email } = await person(engine.sql, workspace.id);
    const stranger = new Browser(engine.consoleUrl);
    const statuses = new Map<number, number>();
    for (let n = 0; n < 70; n++) {
      const { status } = await stranger.post("session", { email, password: "guessed" }, ELSEWHERE);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect(Object.fromEntries(statuses)).toEqual({ 401: 10, 429: 60 });
    expect((await new Browser(engine.consoleUrl).signIn(email)).status).toBe(200);
  },
  PASSWORDS_MS_MAX,
);

test("strangers in many places keep no owner out who comes from where they were before", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const home = { "x-forwarded-for": "198.51.100.20" };
  const owner = new Browser(engine.consoleUrl);
  expect((await owner.post("session", { email, password: PASSWORD }, home)).status).toBe(200);
  const redis = connectRedis(services().redisUrl, "admission", 10_000);
  await once(redis, "ready");
  // as many attempts as the account has, without the work of checking passwords
  const ofAccount = { name: "account", most: 50, spanMs: 900_000 };
  for (let n = 0; n < ofAccount.most; n++) await new Attempts(redis).count(ofAccount, email);
  redis.disconnect();
  const signIn = (headers: Record<string, string>) =>
    new Browser(engine.consoleUrl).post("session", { email, password: PASSWORD }, headers);
  expect((await signIn(ELSEWHERE)).status).toBe(429);
  expect((await signIn(home)).status).toBe(200);
});

test(
  "an account has one name, whatever letters of other alphabets stand in it",
  async () => {
    const { email } = await person(engine.sql, workspace.id, "admin");
    const stranger = new Browser(engine.consoleUrl);
    for (const written of [email, email.replace("i", "İ"), email.toUpperCase()])
      for (let n = 0; n < 4; n++)
        await stranger.post("session", { email: written, password: "guessed" }, ELSEWHERE);
    const again = await stranger.post("session", { email, password: PASSWORD }, ELSEWHERE);
    expect(again.status).toBe(429);
  },
  PASSWORDS_MS_MAX,
);

test("an account is mailed three links to a new password in an hour, however its address is written", async () => {
  const { email } = await person(engine.sql, workspace.id, "admin");
  const { email: other } = await person(engine.sql, workspace.id, "admin");
  const stranger = new Browser(engine.consoleUrl);
  const reset = (to: string) => stranger.post("reset", { email: to }, { "x-forwarded-for": "198.51.100.30" });
  for (const written of [email, email.replace("i", "İ")])
    for (let n = 0; n < 3; n++) expect((await reset(written)).status).toBe(200);
  await reset(other);
  // each is mailed behind its answer, so the last one may be the first
  await expect.poll(() => Promise.all([mailed(email), mailed(other)])).toEqual([3, 1]);
});

async function mailed(to: string): Promise<number> {
  const [row] = await engine.sql<{ count: number }[]>`
    select count(*)::int from email where workspace_id = ${workspace.id} and head -> 'to' ->> 0 = ${to}`;
  return row?.count ?? 0;
}

test("a stranger who sends slowly keeps nobody waiting", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  const slow = await Promise.all(Array.from({ length: 230 }, () => halfASignIn()));
  expect((await browser.get("keys")).status).toBe(200);
  expect((await browser.post("keys", { preset: "sending" })).status).toBe(201);
  for (const socket of slow) socket.destroy();
});

test("a path with U+0000 names nothing, and is no fault", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  expect((await browser.call("DELETE", "keys/a%00")).status).toBe(404);
  expect((await browser.get("templates/%00/versions")).status).toBe(404);
  expect(engine.complaints).toEqual([]);
});

test("the body of a stranger is small", async () => {
  const stranger = new Browser(engine.consoleUrl);
  const { status, body } = await stranger.post<{ message: string }>("session", {
    email: "a@example.com",
    password: "a".repeat(20_000),
  });
  expect([status, body.message]).toEqual([422, "The request body is too large."]);
});

/** Resolves when the console has taken the head. */
function halfASignIn(): Promise<Socket> {
  const { port, host, origin } = new URL(engine.consoleUrl);
  const socket = connect(Number(port), "127.0.0.1");
  const head = [
    "POST /console/call/session HTTP/1.1",
    `Host: ${host}`,
    `Origin: ${origin}`,
    "X-Forwarded-For: 198.51.100.7",
    "Content-Type: application/json",
    "Content-Length: 100",
    "Expect: 100-continue",
  ];
  socket.on("error", () => {});
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  return new Promise((resolve) => socket.once("data", () => resolve(socket)));
}
