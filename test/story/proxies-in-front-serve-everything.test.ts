/**
 * What people put in front: nginx, Caddy and HAProxy with the files of ops/proxy, before two processes with
 * an api, one of which has the console too.
 */
import { once } from "node:events";
import { connect } from "node:http2";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Links } from "../../src/audience/links.ts";
import { freePort } from "../../src/embedded/port.ts";
import { startEngine } from "../rig/engine.ts";
import { eventually } from "../rig/eventually.ts";
import { FRONT_PROXIES, type FrontProxy } from "../rig/frontproxies.ts";
import { watchHoldUps } from "../rig/heldup.ts";
import { Browser, hear, person, signedIn } from "../rig/people.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { services } from "../rig/services.ts";
import { freshWorkspace, mail, SECRET } from "../rig/workspace.ts";

const CALLERS = 8;
const SENT_EACH_MIN = 20;
const VISITOR = "127.0.0.77";
const CLAIMED = "203.0.113.9";

// their certificate is of the test's own
vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
afterAll(() => {
  vi.unstubAllEnvs();
});

let looks: Awaited<ReturnType<typeof startEngine>>;
beforeAll(async () => {
  looks = await startEngine(["api"]);
});
afterAll(() => looks.stop());

describe.each(FRONT_PROXIES)("$name", (front: FrontProxy) => {
  let url: string;
  let port: number;
  let processes: EngineProcess[];
  let proxy: { stop(): Promise<void> };
  beforeAll(async () => {
    port = await freePort();
    url = `https://localhost:${port}`;
    const settings = { PUBLIC_URL: url, TRUST_PROXY: "true" };
    const both = { settings: { ...settings, CONSOLE_PORT: "0" } };
    processes = await Promise.all([
      startProcess(["api", "console"], { ...both, ...services() }),
      startProcess(["api"], { settings, ...services() }),
    ]);
    const [first, second] = processes.map((process) => process.port as number);
    const consolePort = processes[0]?.consolePort as number;
    proxy = await front.start({ port, apiPorts: [first as number, second as number], consolePort });
  });
  afterAll(async () => {
    await proxy?.stop();
    await Promise.all((processes ?? []).map((process) => process.stop()));
  });

  test("what is sent is shown by the console at once", async () => {
    const workspace = await freshWorkspace(looks.keyring, url);
    const browser = await signedIn(url, looks.sql, workspace.id, "owner");
    const live = await fetch(`${url}/console/call/live?workspace=${workspace.id}&account=`, {
      headers: { cookie: browser.cookie },
    });
    expect(live.status).toBe(200);
    const heard = hear(live);
    await eventually(() => expect(heard.text).toContain("event: ready"));
    const [id] = await workspace.client.send([mail()]);
    await eventually(() => expect(heard.text).toContain(id));
    await live.body?.cancel().catch(() => {});
  });

  test("pages and reference are found, and a session is kept to HTTPS", async () => {
    const workspace = await freshWorkspace(looks.keyring, url);
    for (const path of ["/console", "/console/emails", "/docs", "/api/v1/openapi.json", "/healthz"]) {
      const answer = await fetch(`${url}${path}`);
      await answer.body?.cancel();
      expect([path, answer.status]).toEqual([path, 200]);
    }
    const { email } = await person(looks.sql, workspace.id);
    const { status, headers } = await new Browser(url).signIn(email);
    expect([status, headers.get("set-cookie")]).toEqual([200, expect.stringContaining("; Secure")]);
  });

  test("HTTP/2 is spoken, and what the api says about too much is heard", async () => {
    const { client } = await freshWorkspace(looks.keyring, url);
    const session = connect(url, { rejectUnauthorized: false });
    const stream = session.request({ ":path": "/api/v1/emails", authorization: `Bearer ${client.key}` });
    const [headers] = await once(stream, "response");
    expect(headers[":status"]).toBe(200);
    stream.close();
    session.close();
    // more than nginx takes by itself
    const file = { filename: "file.bin", content: Buffer.alloc(4_000_000, 65).toString("base64") };
    const large = await client.post<{ id: string }>("/emails", mail({ attachments: [file] }));
    expect([large.status, typeof large.body.id]).toEqual([200, "string"]);
    const tooMuch = await client.post<{ message: string }>("/contacts", { x: "x".repeat(1_100_000) });
    expect(tooMuch).toMatchObject({ status: 413, body: { name: "validation_error" } });
  });

  test("a visitor's address is the one that the proxy sees", async () => {
    const { id, client } = await freshWorkspace(looks.keyring, url);
    const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "A" });
    const contacts = `/audiences/${audience.id}/contacts`;
    const { body: contact } = await client.post<{ id: string }>(contacts, { email: "a@example.net" });
    const target = { workspaceId: id, audienceId: audience.id, contactId: contact.id };
    const link = new URL(new Links(SECRET, url).unsubscribeUrl(target));
    const said = await say(
      port,
      `POST ${link.pathname} HTTP/1.1\r\nHost: ${link.host}\r\nX-Forwarded-For: ${CLAIMED}\r\n` +
        "Content-Length: 0\r\nConnection: close\r\n\r\n",
    );
    expect(said).toMatch(/^HTTP\/1.1 200 /);
    const [row] = await looks.sql<{ address: string }[]>`
      select ip_address as address from consent where workspace_id = ${id} and kind = 'withdrawn'`;
    expect(row?.address).toBe(VISITOR);
  });

  test("a request within a request is not answered", async () => {
    const { client } = await freshWorkspace(looks.keyring, url);
    const inner = `GET /api/v1/emails HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client.key}\r\n\r\n`;
    const said = await say(
      port,
      `GET /healthz HTTP/1.1\r\nHost: localhost\r\n: a\r\nContent-Length: ${inner.length}\r\nConnection: close\r\n\r\n${inner}`,
    );
    expect(said.match(/HTTP\/1\.1 \d+/g)?.length ?? 0).toBeLessThanOrEqual(1);
    expect(said).not.toContain('"list"');
  });

  test.runIf(front.takesTwo)("one of two apis ends under load, and nobody notices", async () => {
    const { client } = await freshWorkspace(looks.keyring, url, "pro");
    let isOver = false;
    let sent = 0;
    const refusals: unknown[] = [];
    const holdUps = watchHoldUps();
    const call = async (): Promise<void> => {
      while (!isOver) {
        const { status, text } = await post(url, client.key);
        // of a connection that was silent for too long while its api stopped
        if (status === 502 && holdUps.wereLately()) continue;
        sent++;
        if (status !== 200) refusals.push([status, text]);
      }
    };
    const callers = Array.from({ length: CALLERS }, call);
    const sends = (more: number) => {
      const enough = sent + more;
      return eventually(() => expect(sent).toBeGreaterThanOrEqual(enough));
    };
    try {
      await sends(CALLERS * SENT_EACH_MIN);
      await processes[1]?.stop();
      await sends(CALLERS * SENT_EACH_MIN);
    } finally {
      isOver = true;
      holdUps.end();
      await Promise.all(callers);
    }
    expect(refusals).toEqual([]);
  });
});

/** What a proxy says for itself is no JSON. */
async function post(url: string, key: string): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/api/v1/emails`, {
    method: "POST",
    headers,
    body: JSON.stringify(mail()),
  });
  return { status: answer.status, text: await answer.text() };
}

/** Over TLS, from the visitor's address, until the other side closes. */
async function say(port: number, text: string): Promise<string> {
  const socket = connectTls({
    ...{ port, host: "127.0.0.1", localAddress: VISITOR },
    rejectUnauthorized: false,
    servername: "localhost",
  });
  let heard = "";
  socket.setEncoding("utf8").on("data", (part: string) => {
    heard += part;
  });
  socket.on("error", () => {});
  socket.write(text);
  await once(socket, "close");
  return heard;
}
