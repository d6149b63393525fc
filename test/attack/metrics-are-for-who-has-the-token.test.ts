/**
 * Metrics name workspaces and what they send. Where others can connect, they are told under a token alone.
 */
import { expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";

const TOKEN = "a token of the tests";

test("with a token they are told under it alone", async () => {
  const guarded = await startEngine(["api"], { settings: { METRICS_PORT: "0", METRICS_TOKEN: TOKEN } });
  const port = guarded.metricsPort as number;
  const ask = async (authorization?: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`, {
      headers: { ...(authorization !== undefined && { authorization }) },
    });
    return [response.status, (await response.text()).includes("postrider_")];
  };
  try {
    for (const wrong of [
      undefined,
      "",
      "Bearer ",
      `Bearer ${TOKEN}x`,
      `Basic ${TOKEN}`,
      `Bearer ${TOKEN.toUpperCase()}`,
    ])
      expect(await ask(wrong), wrong).toEqual([401, false]);
    expect(await ask(`Bearer ${TOKEN}`)).toEqual([200, true]);
    expect(await ask(`bearer ${TOKEN}`)).toEqual([200, true]);
    // supervisors have no token
    const alive = await fetch(`http://127.0.0.1:${port}/healthz`);
    expect([alive.status, await alive.json()]).toEqual([200, { status: "ok" }]);
  } finally {
    await guarded.stop();
  }
});

test.each(["0.0.0.0", "::", "203.0.113.1"])("on %s they need a token, or nothing starts", async (HOST) => {
  const starting = startEngine(["api"], { settings: { HOST, METRICS_PORT: "0" } });
  await expect(starting).rejects.toThrow(/^METRICS_TOKEN is not set, .* reaches .*unset METRICS_PORT\.$/);
});
