/** With too much to do a body that could never be taken is refused for its size, not to be sent again. */
import { expect, test } from "vitest";
import type { Admission } from "../../src/admission/admit.ts";
import { newKey, readKey } from "../../src/admission/bearer.ts";
import { toBits } from "../../src/admission/permissions.ts";
import type { Exchange } from "../../src/api/exchange.ts";
import { type GateParts, pass } from "../../src/api/gate.ts";
import { WorkOfRoutes } from "../../src/api/inhand.ts";
import { Refusal } from "../../src/api/problem.ts";
import { BODY_BYTES_MAX, type Route, Router } from "../../src/api/routes.ts";

const SECRET = "a secret";
const KEY = newKey("abcdefgh", SECRET);
const route: Route = {
  ...{ method: "POST", path: "/api/v1/things", permissions: ["emails:send"], commits: true },
  ...{ summary: "", success: 200, handle: () => ({ status: 200, body: "{}" }) },
};

async function refusalOf(contentLength: number): Promise<number> {
  const inHand = new WorkOfRoutes();
  while (inHand.take(route, "abcdefgh", BODY_BYTES_MAX));
  const rate = { limit: 10, per: "second", remaining: 9, resetSeconds: 1 };
  const caller = {
    workspaceId: "w",
    bearer: { handle: "abcdefgh" },
    permissions: toBits(["emails:send"]),
    plan: "free",
  };
  const parts: GateParts = {
    readKey: (key) => readKey(key, SECRET),
    admit: async () => ({ kind: "admitted", caller, rate }) as unknown as Admission,
    router: new Router([route]),
    parse: () => ({ kind: "not json" }),
    inHand,
    onUse: () => {},
  };
  const exchange = {
    ...{ method: "POST", path: route.path, query: "", hasBody: true, beganAt: 0, belongsTo() {} },
    head: {
      authorization: `Bearer ${KEY}`,
      contentLength,
      contentType: "application/json",
      contentEncoding: "",
    },
  };
  const refused = await pass(parts, exchange as unknown as Exchange).catch((error) => error);
  expect(refused).toBeInstanceOf(Refusal);
  return refused.problem.status;
}

test("one that would fit hears 503", async () => {
  expect(await refusalOf(BODY_BYTES_MAX)).toBe(503);
});

for (const length of [BODY_BYTES_MAX + 1, 1e300, Number.POSITIVE_INFINITY])
  test(`one of ${length} bytes hears 413`, async () => {
    expect(await refusalOf(length)).toBe(413);
  });
