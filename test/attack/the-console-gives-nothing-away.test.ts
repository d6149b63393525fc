/**
 * What is tried on consoles of the web: frames, fixed sessions, guessed passwords, forged links, paths and
 * headers.
 */
import { createHash } from "node:crypto";
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeAt } from "../../src/console/totp.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, mailedInvitation, PASSWORD, person, signedIn } from "../rig/people.ts";
import { ownRedis } from "../rig/services.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const STEP_MS = 30_000;

let redis: Awaited<ReturnType<typeof ownRedis>>;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  redis = await ownRedis(); // attempts are counted for all files together
  engine = await startEngine(["api", "console"], {
    redisUrl: redis.url,
    settings: { CONSOLE_PORT: "0", TRUST_PROXY: "true" },
  });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  await redis.stop();
});

/** Of a network of its own, so that no test uses up the attempts of another. */
let networks = 0;
function visitor(): Record<string, string> {
  return { "x-forwarded-for": `10.1.${networks++}.1` };
}

test("no answer can be framed, sniffed or kept, and no script but ours runs", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  for (const path of [
    "/console",
    "/console/emails",
    "/console/call/session",
    "/console/call/nothing",
    "/nothing",
  ]) {
    const { headers } = await fetch(engine.consoleUrl + path, { headers: { cookie: browser.cookie } });
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy, path).toContain("frame-ancestors 'none'");
    expect(policy, path).not.toContain("unsafe");
    expect(headers.get("x-frame-options"), path).toBe("DENY");
    expect(headers.get("x-content-type-options"), path).toBe("nosniff");
    expect(headers.get("access-control-allow-origin"), path).toBeNull();
    expect(headers.get("cache-control"), path).toMatch(/no-store|no-cache/);
  }
});

test("a cookie is out of reach for scripts and other sites, and on https for everybody else", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const plain = await new Browser(engine.consoleUrl).signIn(email);
  expect(plain.headers.get("set-cookie")).toMatch(
    /^postrider=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604800$/,
  );
  const publicUrl = "https://mail.example.org";
  const secure = await startEngine(["console"], {
    redisUrl: redis.url,
    settings: { CONSOLE_PORT: "0", PUBLIC_URL: publicUrl },
  });
  try {
    const browser = new Browser(secure.consoleUrl);
    const refused = await browser.post("session", { email, password: PASSWORD });
    expect(refused.body).toMatchObject({ name: "cross_site_request" });
    const signed = await browser.post("session", { email, password: PASSWORD }, { origin: publicUrl });
    expect(signed.headers.get("set-cookie")).toMatch(
      /^__Host-postrider=[\w-]{43}; Path=\/; HttpOnly; .*; Secure$/,
    );
  } finally {
    await secure.stop();
  }
});

test("a session that somebody else chose is not the one that signing in begins", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const browser = new Browser(engine.consoleUrl);
  browser.cookie = "postrider=chosen-by-somebody-else";
  await browser.signIn(email);
  expect(browser.cookie).not.toContain("chosen");
  const first = browser.cookie;
  await browser.signIn(email);
  expect(browser.cookie).not.toBe(first);
  expect((await browser.get("session", { cookie: first })).status).toBe(401);
});

test("the record has the hash of a session's token, and not the token", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const browser = new Browser(engine.consoleUrl);
  await browser.signIn(email);
  const token = browser.cookie.slice("postrider=".length);
  const rows = await engine.sql<{ text: string }[]>`
    select s::text as text from session s join account a on a.id = s.account_id where a.email = ${email}`;
  const text = rows.map((row) => row.text).join("\n");
  expect(rows).toHaveLength(1);
  expect(text).toContain(createHash("sha256").update(token).digest("hex"));
  for (const told of [
    token,
    Buffer.from(token).toString("hex"),
    Buffer.from(token, "base64url").toString("hex"),
  ])
    expect(text).not.toContain(told);
});

test("an unknown account is answered as a known one, and takes as long", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const cpuOf = async (address: string) => {
    const browser = new Browser(engine.consoleUrl);
    const before = process.cpuUsage();
    const reply = await browser.post("session", { email: address, password: "a wrong one" }, visitor());
    const { user, system } = process.cpuUsage(before);
    return { reply, ms: (user + system) / 1_000 };
  };
  await cpuOf(email);
  const known = [await cpuOf(email), await cpuOf(email), await cpuOf(email)];
  const unknown = [await cpuOf("x@example.com"), await cpuOf("y@example.com"), await cpuOf("z@example.com")];
  expect(unknown[0]?.reply.body).toEqual(known[0]?.reply.body);
  const least = (all: { ms: number }[]) => Math.min(...all.map(({ ms }) => ms));
  const ratio = least(known) / least(unknown);
  expect(ratio).toBeGreaterThan(0.5);
  expect(ratio).toBeLessThan(2);
});

test("passwords are guessed ten times from one network, and from many at once no more", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const from = visitor();
  const guess = (headers: Record<string, string>) =>
    new Browser(engine.consoleUrl).post("session", { email, password: "a wrong one" }, headers);
  const replies = await Promise.all(Array.from({ length: 12 }, () => guess(from)));
  expect(replies.filter(({ status }) => status === 401)).toHaveLength(10);
  const refused = replies.find(({ status }) => status === 429);
  expect(refused?.body).toMatchObject({ name: "rate_limit_exceeded" });
  expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(800);
  const late = await new Browser(engine.consoleUrl).post("session", { email, password: PASSWORD }, from);
  expect(late.status).toBe(429);
  // who comes from elsewhere is not locked out by it
  const elsewhere = await new Browser(engine.consoleUrl).post(
    "session",
    { email, password: PASSWORD },
    visitor(),
  );
  expect(elsewhere.status).toBe(200);
});

test("a code is taken once, and asked for after the password only", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const browser = new Browser(engine.consoleUrl);
  await browser.signIn(email);
  const { secret } = (await browser.post<{ secret: string }>("totp/secret")).body;
  // one behind, now or ahead is taken: the next step may begin before the code is looked at
  const step = Math.floor(Date.now() / STEP_MS);
  const on = await browser.post("totp", { secret, code: codeAt(secret, step), password: PASSWORD });
  expect(on.body).toEqual({ object: "totp", enabled: true });
  const [row] = await engine.sql<{ stored: string }[]>`
    select encode(totp_secret, 'escape') as stored from account where email = ${email}`;
  expect(row?.stored).not.toContain(secret);
  const other = new Browser(engine.consoleUrl);
  const from = visitor();
  const attempt = (more: object) => other.post("session", { email, password: PASSWORD, ...more }, from);
  expect((await other.post("session", { email, password: "wrong", code: "1" }, from)).body).toMatchObject({
    name: "invalid_credentials",
  });
  expect((await attempt({})).body).toMatchObject({ name: "code_required" });
  expect((await attempt({ code: codeAt(secret, step) })).body).toMatchObject({ name: "code_required" });
  expect((await attempt({ code: codeAt(secret, step + 1) })).status).toBe(200);
  expect((await attempt({ code: codeAt(secret, step + 1) })).body).toMatchObject({ name: "code_required" });
});

test("a role that was taken away is gone with the next call", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  const { id, email } = await person(engine.sql, own.id, "admin");
  const admin = new Browser(engine.consoleUrl);
  await admin.signIn(email);
  await admin.post("members", { email: "x@example.com", role: "admin" });
  const link = await mailedInvitation(engine.sql, own.id, "x@example.com");
  expect((await admin.post("keys", { preset: "full" })).status).toBe(201);
  await owner.call("PATCH", `members/${id}`, { role: "member" });
  expect((await admin.post("keys", { preset: "full" })).status).toBe(403);
  expect((await admin.call("PATCH", `members/${id}`, { role: "admin" })).status).toBe(403);
  // what was offered in that role is offered no longer
  const token = link.split("#")[1];
  const guest = new Browser(engine.consoleUrl);
  expect((await guest.post("invitation/accept", { token, password: PASSWORD })).status).toBe(422);
});

test("the link of a reset leads to us, whatever host a request names", async () => {
  const { email } = await person(engine.sql, workspace.id);
  const { status } = await raw("/console/call/reset", {
    method: "POST",
    headers: {
      host: "evil.example",
      origin: "http://evil.example",
      "x-forwarded-host": "evil.example",
      "content-type": "application/json",
    },
    body: JSON.stringify({ email }),
  });
  // the browser of a page at that host would say so, and such a page has no cookie of ours
  expect(status).toBe(200);
  let plain = "";
  await expect
    .poll(async () => {
      const [row] = await engine.sql<{ plain: string }[]>`
        select b.plain from email e join body b on b.workspace_id = e.workspace_id and b.id = e.id
        where e.workspace_id = ${workspace.id} and e.head::text like ${`%${email}%`}`;
      plain = row?.plain ?? "";
      return plain;
    })
    .not.toBe("");
  expect(plain).toContain(`${engine.consoleUrl}/console/reset#`);
  expect(plain).not.toContain("evil");
});

test("an invitation is for its address alone", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  const elsewhere = await engine.workspace();
  const invited = await person(engine.sql, elsewhere.id);
  const thief = await signedIn(engine.consoleUrl, engine.sql, elsewhere.id);
  await owner.post("members", { email: invited.email, role: "owner" });
  const link = await mailedInvitation(engine.sql, own.id, invited.email);
  const token = link.split("#")[1];
  expect((await thief.post("invitation/accept", { token })).status).toBe(403);
  const nobody = new Browser(engine.consoleUrl);
  const byPassword = await nobody.post("invitation/accept", { token, password: "chosen by a thief" });
  expect(byPassword.status).toBe(401);
  const guest = new Browser(engine.consoleUrl);
  await guest.signIn(invited.email);
  expect((await guest.post("invitation/accept", { token })).status).toBe(200);
});

test("who invites gets no account for the address: the link is only in the mail", async () => {
  const own = await engine.workspace();
  const owner = await signedIn(engine.consoleUrl, engine.sql, own.id);
  const victim = "somebody.else@example.org";
  const { body } = await owner.post<{ id: string; link: string | null }>("members", {
    email: victim,
    role: "member",
  });
  expect(body.link).toBeNull();
  const link = await mailedInvitation(engine.sql, own.id, victim);
  const secret = link.split("#")[1] as string;
  const [sent] = await engine.sql<{ id: string }[]>`
    select id from email where workspace_id = ${own.id} order by id desc limit 1`;
  const seen = [
    await own.client.get(`/emails/${sent?.id}`),
    await owner.get(`emails/${sent?.id}/raw`),
    await owner.get(`emails/${sent?.id}/html`),
    await owner.get("members"),
    await owner.get("audit"),
  ];
  for (const one of seen) expect(JSON.stringify(one.body)).not.toContain(secret);
});

test("no path leads out of the folder of the page, and no address leads elsewhere", async () => {
  for (const path of [
    "/console/../package.json",
    "/console/..%2f..%2fpackage.json",
    "/console/%2e%2e/%2e%2e/package.json",
    "/console/assets/../../../console/console.js",
    "/console/....//package.json",
    "/console/\\..\\..\\package.json",
    "/console//etc/passwd",
    "/console/call/v1/../../../etc/passwd",
    "/console/call/..%2f..%2fpackage.json",
  ]) {
    const { status, body } = await raw(path);
    expect([200, 401, 404], path).toContain(status);
    expect(body, path).not.toMatch(/"dependencies"|root:|startConsole/);
  }
  for (const path of ["/", "//evil.example", "/\\evil.example", "/console?next=//evil.example"]) {
    const { headers } = await raw(path);
    expect([undefined, "/console"], path).toContain(headers.location);
  }
});

test("the API takes no cookie, the console no key, and a page of ours may not call the API", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  const api = (headers: Record<string, string>) => fetch(`${engine.url}/api/v1/emails`, { headers });
  expect((await api({ cookie: browser.cookie })).status).toBe(401);
  const fromPage = await api({
    ...{ cookie: browser.cookie, origin: engine.consoleUrl, "sec-fetch-site": "same-site" },
    authorization: `Bearer ${workspace.client.key}`,
  });
  expect(((await fromPage.json()) as { name: string }).name).toBe("browser_request_blocked");
  const ownOrigin = (headers: Record<string, string>) =>
    fetch(`${engine.consoleUrl}/api/v1/emails`, { method: "POST", headers });
  const fromOwnPage = await ownOrigin({ "sec-fetch-site": "same-origin", cookie: browser.cookie });
  expect(fromOwnPage.status).toBe(403);
  expect(((await fromOwnPage.json()) as { name: string }).name).toBe("browser_request_blocked");
  const fromServer = await ownOrigin({ authorization: `Bearer ${workspace.client.key}` });
  expect(fromServer.status).toBe(404);
  expect(((await fromServer.json()) as { message: string }).message).toContain("The API is at http://");
  const byKey = await fetch(`${engine.consoleUrl}/console/call/v1/emails`, {
    headers: { authorization: `Bearer ${workspace.client.key}`, "x-workspace": workspace.id },
  });
  expect(byKey.status).toBe(401);
});

test("a body that is too large, no JSON or nested is refused in words", async () => {
  const browser = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  const large = JSON.stringify({ html: "x".repeat(5 * 1024 * 1024) });
  expect((await browser.post("templates/render", large)).status).toBe(422);
  expect((await browser.post("templates/render", "{")).status).toBe(400);
  expect((await browser.post("templates/render", `${"[".repeat(100_000)}`)).status).toBeLessThan(500);
  expect((await browser.post("keys", { preset: "full", extra: 1 })).status).toBe(422);
  expect((await browser.post("keys", "preset=full", { "content-type": "text/plain" })).status).toBe(422);
  expect((await browser.post("v1/emails", mail({ subject: "\u0000" }))).status).toBeLessThan(500);
  expect(engine.complaints).toEqual([]);
});

type RawAnswer = { status: number; headers: Record<string, unknown>; body: string };

/** As it is written, which fetch would tidy up. */
function raw(
  path: string,
  {
    method = "GET",
    headers = {},
    body = "",
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(engine.consoleUrl);
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, path, method, headers: { ...headers, ...visitor() } },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("end", () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }),
        );
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}
