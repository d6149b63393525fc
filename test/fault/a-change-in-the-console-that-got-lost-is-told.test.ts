/**
 * The answer to a commit gets lost while somebody makes a key: whoever tries again at once has two. What
 * changes nothing can be tried again.
 */
import { expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { signedIn } from "../rig/people.ts";
import { openProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";

test("it is said that nobody knows, and what to do before trying again", async () => {
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  const toPostgres = await openProxy({ port: Number(port) });
  const databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  const engine = await startEngine(["api", "console"], { databaseUrl, settings: { CONSOLE_PORT: "0" } });
  try {
    const workspace = await engine.workspace();
    const owner = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
    const isLost = toPostgres.loseReply((reply) => reply.includes("COMMIT\0"));
    const made = await owner.post<{ message: string }>("keys", { name: "twice", preset: "sending" });
    await isLost;
    expect(made).toMatchObject({ status: 500, body: { name: "application_error" } });
    expect(made.body.message).toMatch(/^It is unknown whether this was done\. Reload the page and look/);
    const { body } = await owner.get<{ data: { name: string }[] }>("keys");
    expect(body.data.filter(({ name }) => name === "twice")).toHaveLength(1);

    const isUnread = toPostgres.loseReply((reply) => reply.includes("SELECT 0\0"));
    const looked = await owner.post("invitation", { token: "none" });
    await isUnread;
    expect(looked).toMatchObject({ status: 503, body: { name: "service_unavailable" } });
  } finally {
    await engine.stop();
    await toPostgres.down();
  }
});
