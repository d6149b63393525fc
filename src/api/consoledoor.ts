/**
 * The API for people in the console: the same routes, checks and handlers as under a key, as plain calls. Who
 * is asking, and what their role allows, the console says.
 */

import type { Caller } from "../admission/admit.ts";
import { inTime } from "../clock.ts";
import { ledgerSubmitter, ownSubmitter } from "../submit.ts";
import { type HandlerParts, openHandlers } from "./api.ts";
import { type KnownRequest, notRead, passKnown, SUSPENDED } from "./gate.ts";
import { WorkOfRoutes } from "./inhand.ts";
import type { Json } from "./json.ts";
import { type Body, JsonParser } from "./jsonthread.ts";
import { openapi } from "./openapi.ts";
import {
  bodyOf,
  INTERNAL,
  OUTCOME_UNKNOWN,
  type Problem,
  problemOf,
  Refusal,
  unavailable,
} from "./problem.ts";
import { type Answer, type Route, shortPath } from "./routes.ts";
import { deadlineOf } from "./server.ts";

/** Of a call of the console's own: done twice it may be two, such as a key that nobody has seen. */
const NOT_TOLD: Problem = {
  ...OUTCOME_UNKNOWN,
  message: "It is unknown whether this was done. Reload the page and look, before you try it again.",
};

/** Answers of the console carry no `X-Request-Id`. */
const UNEXPECTED: Problem = {
  ...INTERNAL,
  message: "An unexpected error occurred on our side. The engine's log has it: tell your operator the time.",
};

/** `erases`: it erases people, which is asked for by the query. */
export type AskedRoute = { name: string; erases: boolean };

/** What the console has to say before a handler runs. */
export type Chaperone = {
  /** Why the role does not allow it; null: it does. */
  refusal(asked: AskedRoute): Answer | null;
  /** It is allowed, well formed, and about to happen. Why it does not happen; null: it does. */
  before(asked: AskedRoute): Promise<Answer | null>;
};

/** Thrown to leave the gate early. */
class RefusedByConsole {
  readonly answer: Answer;
  constructor(answer: Answer) {
    this.answer = answer;
  }
}

export function openConsoleDoor(parts: HandlerParts, onFault: (error: unknown) => void) {
  const handlers = openHandlers(parts, ledgerSubmitter, onFault);
  const { router } = handlers;
  const inHand = new WorkOfRoutes();
  let json: JsonParser | null = null;
  const parse = (body: Body) => {
    json ??= new JsonParser(); // a thread, which most processes never need
    return json.parse(body);
  };

  async function pass(request: KnownRequest, caller: Caller, chaperone: Chaperone): Promise<Answer> {
    const isRead = request.method === "GET";
    if (caller.isSuspended && !isRead) throw new Refusal(SUSPENDED);
    let asked: AskedRoute = { name: "", erases: false };
    const { route, call, end } = await passKnown(
      { router, parse, inHand },
      request,
      caller,
      (found, query) => {
        asked = askedRoute(found, query);
        const refused = chaperone.refusal(asked);
        if (refused) throw new RefusedByConsole(refused);
      },
    );
    try {
      const refused = await chaperone.before(asked);
      if (refused) throw new RefusedByConsole(refused);
      return await within(deadlineOf(route, parts.timeoutMs), isRead, () => route.handle(call));
    } finally {
      end();
    }
  }

  return {
    document: openapi(router.routes),
    contacts: handlers.contacts,
    writeOwn: ownSubmitter(handlers.sending.submit),
    /** Bodies of the console's own calls, under the same limits. */
    async parse(chunks: Buffer[], size: number, workspaceId: string): Promise<Json> {
      const reading = { fields: null, itemsMax: 0 };
      const parsed = await parse({ chunks, size, workspaceId, reading, digestPrefix: "", onGone: () => {} });
      if (parsed.kind !== "json") throw notRead(parsed);
      return parsed.value;
    },
    failure(error: unknown, isRead: boolean): Answer {
      if (!(error instanceof Refusal)) onFault(error);
      const problem = problemOf(error, isRead);
      return answerOf(problem === OUTCOME_UNKNOWN ? NOT_TOLD : worded(problem));
    },
    async call(request: KnownRequest, caller: Caller, chaperone: Chaperone): Promise<Answer> {
      try {
        return await pass(request, caller, chaperone);
      } catch (error) {
        if (error instanceof RefusedByConsole) return error.answer;
        if (!(error instanceof Refusal)) onFault(error);
        return answerOf(worded(problemOf(error, request.method === "GET")));
      }
    },
    async close() {
      await handlers.close();
      await json?.close();
    },
  };
}

function worded(problem: Problem): Problem {
  return problem === INTERNAL ? UNEXPECTED : problem;
}

function askedRoute(route: Route, query: URLSearchParams): AskedRoute {
  return {
    name: `${route.method} ${shortPath(route)}`,
    erases: route.permissionByQuery?.(query) === "full",
  };
}

/** A late answer is ignored, since the caller is answered by then. */
async function within(ms: number, isRead: boolean, work: () => Promise<Answer> | Answer): Promise<Answer> {
  return inTime(ms, Promise.resolve(work()), () => {
    throw new Refusal(isRead ? unavailable("stores") : OUTCOME_UNKNOWN);
  });
}

function answerOf(found: Problem): Answer {
  return { status: found.status, body: bodyOf(found), ...(found.headers && { headers: found.headers }) };
}
