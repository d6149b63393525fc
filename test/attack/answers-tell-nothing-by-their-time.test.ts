/**
 * How long an answer takes says neither how much of a guessed key is right, nor whether somebody else has
 * what was asked for.
 */
import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newHandle, newKey, readKey } from "../../src/admission/bearer.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import { type Client, mail, SECRET, type TestApi, testApi } from "../rig/workspace.ts";

const RUNS = 16;
/** The larger median over the smaller one, in the best of all runs: others use this machine, too. */
const RATIO_MAX = 1.5;

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

/** Both in turns, so that both meet the same weather. */
async function ratioOf(one: () => unknown, other: () => unknown, times: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS && least > RATIO_MAX; run++) {
    const took: [number[], number[]] = [[], []];
    for (let n = 0; n < 2 * times; n++) {
      const began = performance.now();
      await (n % 2 === 0 ? one() : other());
      took[n % 2 === 0 ? 0 : 1].push(performance.now() - began);
    }
    const [a, b] = took.map(median) as [number, number];
    least = Math.min(least, Math.max(a, b) / Math.min(a, b));
  }
  return least;
}

function median(all: number[]): number {
  return all.sort((a, b) => a - b)[Math.floor(all.length / 2)] as number;
}

/** Another letter at this place, counted from the end. */
function wrongAt(key: string, fromEnd: number): string {
  const at = key.length - fromEnd;
  return key.slice(0, at) + (key[at] === "a" ? "b" : "a") + key.slice(at + 1);
}

test("a key that is wrong at its end is refused as quickly as one that is wrong before", async () => {
  const key = newKey(newHandle(), SECRET);
  const refuseOften = (wrong: string) => () => {
    for (let n = 0; n < 200; n++) if (readKey(wrong, SECRET)) throw new Error("a wrong key was read");
  };
  expect(await ratioOf(refuseOften(wrongAt(key, 4)), refuseOften(wrongAt(key, 1)), 50)).toBeLessThan(
    RATIO_MAX,
  );
});

test("only the SHA-256 of a key is looked up, so a key that is nearly right is as unknown as any", () => {
  const key = newKey(newHandle(), SECRET);
  const { handle, hash } = readKey(key, SECRET) ?? { handle: "", hash: "" };
  expect(keyspace.apiKey(handle, hash)).toBe(
    `{${handle}}:key:${createHash("sha256").update(key).digest("hex")}`,
  );
});

test("what another workspace has is missing as quickly as what nobody has", async () => {
  const [asker, owner] = [await api.workspace(), await api.workspace()];
  const html = "<p>large</p>".repeat(50_000);
  const { id } = (await owner.client.post<{ id: string }>("/emails", mail({ html }))).body;
  const missing = (client: Client, wanted: string) => async () =>
    expect((await client.get(`/emails/${wanted}`)).status).toBe(404);
  const nobodys = id.slice(0, -12) + randomUUID().slice(-12);
  expect(await ratioOf(missing(asker.client, id), missing(asker.client, nobodys), 50)).toBeLessThan(
    RATIO_MAX,
  );
});
