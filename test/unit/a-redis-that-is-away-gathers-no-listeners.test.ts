import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { connected } from "../../src/redis/connect.ts";

test("who waited for a connection leaves nothing behind, however it went", async () => {
  const client = Object.assign(new EventEmitter(), { status: "reconnecting" });
  for (const outcome of ["error", "error", "ready"]) {
    const waiting = connected(client as never);
    client.emit(outcome, new Error("nobody there"));
    if (outcome === "ready") await waiting;
    else await expect(waiting).rejects.toThrow("nobody there");
    expect([client.listenerCount("ready"), client.listenerCount("error")]).toEqual([0, 0]);
  }
});
