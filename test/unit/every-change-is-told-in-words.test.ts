/** What people changed stands in the audit log in plain words, whatever call of the two tables it was. */
import { expect, test } from "vitest";
import { changeInWords } from "../../console/changes.ts";
import { routesOf } from "../../src/api/api.ts";
import { shortPath } from "../../src/api/routes.ts";
import { type ConsoleParts, callTable } from "../../src/console/console.ts";
import type { Sessions } from "../../src/console/sessions.ts";

const NO_PARTS = { serverSecret: "no secret at all", apiUrl: "", door: {} } as unknown as ConsoleParts;
/** Routes are only looked at: none is called, and what they would use is not there. */
const NOTHING = {} as never;
const ROUTES = routesOf(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING);

test("every call that changes something has words", () => {
  const ofConsole = callTable(NO_PARTS, {} as Sessions, { url: "" })
    .filter(({ method, changesNothing }) => method !== "GET" && !changesNothing)
    .map(({ method, path }) => `${method} ${path}`);
  const ofApi = ROUTES.filter(({ method }) => method !== "GET").map(
    (route) => `${route.method} ${shortPath(route)}`,
  );
  expect(ofConsole.length).toBeGreaterThan(20);
  expect(ofApi.length).toBeGreaterThan(50);
  const mute = [...ofConsole, ...ofApi].filter((action) => changeInWords(action) === action);
  expect(mute).toEqual([]);
});
