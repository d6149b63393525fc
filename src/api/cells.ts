/**
 * One server for several cells. Each cell has handlers of its own; a request is answered by those of the cell
 * that its workspace is in: the key names the workspace, and so does a link. Where a cell does not know a key
 * that it was asked for before, the others are asked again, and what a move refuses is done in the cell where
 * the workspace is then.
 */
import type { Bearer } from "../admission/bearer.ts";
import { Links } from "../audience/links.ts";
import { isMoving } from "../record/cells/moving.ts";
import { ATTACHMENTS_PATH } from "./attachments.ts";
import type { Exchange } from "./exchange.ts";
import { INVALID_KEY, keyTextOf, type PassedRequest, pass } from "./gate.ts";
import { CONFIRM_PATH, UNSUBSCRIBE_PATH } from "./pages.ts";
import { Refusal } from "./problem.ts";
import { type Answer, isOfApi, type PageAnswer } from "./routes.ts";
import { answerOf, handlePassed, openPage, type Server, type ServerParts } from "./server.ts";
import { SHARED_PATH } from "./share.ts";

/** Says in which cell, by its number, a workspace is; null: in none. */
export type CellFinder = {
  ofHandle(handle: string): Promise<number | null>;
  ofWorkspace(id: string): Promise<number | null>;
  /** What is remembered of it, by its handle or its id, was wrong. */
  forget(name: string): void;
};

const HOME = 0;
/** A request waits so long for its workspace to arrive: a pause is under a second. */
export const HELD_MS_MAX = 3_000;
export const HELD_LOOK_MS = 25;

export class CellServer {
  readonly #server: Server;
  readonly #finder: CellFinder;
  readonly #links: Links;
  readonly #cells: ServerParts[] = [];
  readonly #answeredBy = new WeakMap<Exchange, ServerParts>();

  constructor(server: Server, finder: CellFinder, serverSecret: string) {
    this.#server = server;
    this.#finder = finder;
    this.#links = new Links(serverSecret, "");
  }

  /** What the handlers of a cell, by its number, take for the server. */
  cell(n: number): Server {
    return {
      port: this.#server.port,
      serve: (parts) => {
        this.#cells[n] = parts;
      },
      stop: async () => {}, // it ends with the server
    };
  }

  /** Every cell that the finder may name has its handlers, home among them. */
  open(): void {
    const home = this.#cells[HOME] as ServerParts;
    this.#server.serve({
      ...home,
      answer: (exchange) => this.#answer(exchange),
      onAnswer: (exchange, ms) => (this.#answeredBy.get(exchange) ?? home).onAnswer(exchange, ms),
    });
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  async #answer(exchange: Exchange): Promise<PageAnswer> {
    const home = this.#cells[HOME] as ServerParts;
    if (openPage(home, exchange)) return answerOf(home, exchange);
    if (!isOfApi(exchange.path)) return this.#answerLink(exchange);
    const text = keyTextOf(exchange.head.authorization);
    const bearer = text === null ? null : home.gate.readKey(text);
    if (!bearer) return answerOf(home, exchange);
    const { cell, passed } = await this.#pass(exchange, bearer);
    try {
      return await handlePassed(this.#partsOf(exchange, cell), exchange, passed);
    } catch (error) {
      return this.#handleAgain(exchange, bearer, passed, cell, error);
    }
  }

  async #pass(exchange: Exchange, bearer: Bearer): Promise<{ cell: number | null; passed: PassedRequest }> {
    const cell = await this.#finder.ofHandle(bearer.handle);
    try {
      return { cell, passed: await pass(this.#partsOf(exchange, cell).gate, exchange) };
    } catch (error) {
      if (!(error instanceof Refusal) || error.problem !== INVALID_KEY) throw error;
      const now = await this.#cellNow(bearer);
      if (now === null || now === cell) throw error;
      return { cell: now, passed: await pass(this.#partsOf(exchange, now).gate, exchange) };
    }
  }

  /**
   * Of a workspace that has moved, or is about to: what was refused because of that is done where it is then.
   */
  async #handleAgain(
    exchange: Exchange,
    bearer: Bearer,
    passed: PassedRequest,
    cell: number | null,
    refused: unknown,
  ): Promise<Answer> {
    let error = refused;
    let at = cell;
    let { caller } = passed.call;
    const until = performance.now() + HELD_MS_MAX;
    while (mayBeOfMove(error) && performance.now() < until) {
      const now = await this.#cellNow(bearer);
      if (now === null || (now === at && !isMoving(error))) throw error;
      const parts = this.#partsOf(exchange, now);
      if (now === at) await new Promise((resolve) => setTimeout(resolve, HELD_LOOK_MS));
      else {
        // once in each cell, since it counts for the rate; the request was admitted before
        const admission = await parts.gate.admit(bearer);
        if (admission.kind === "unknown key") throw error;
        caller = admission.caller;
      }
      at = now;
      exchange.caller = caller;
      const match = parts.gate.router.find(exchange.method, exchange.path);
      if (match.kind !== "route") throw error;
      try {
        const again = { route: match.route, call: { ...passed.call, caller }, end: passed.end };
        return await handlePassed(parts, exchange, again);
      } catch (next) {
        error = next;
      }
    }
    throw error;
  }

  #cellNow({ handle }: Bearer): Promise<number | null> {
    this.#finder.forget(handle);
    return this.#finder.ofHandle(handle);
  }

  /**
   * Who follows a link may not come again: what is refused because of a move is done where the workspace is
   * then.
   */
  async #answerLink(exchange: Exchange): Promise<PageAnswer> {
    const workspaceId = this.#workspaceOf(exchange.path);
    if (workspaceId === null) return answerOf(this.#partsOf(exchange, null), exchange);
    for (const until = performance.now() + HELD_MS_MAX; ; ) {
      const cell = await this.#finder.ofWorkspace(workspaceId);
      try {
        return await answerOf(this.#partsOf(exchange, cell), exchange);
      } catch (error) {
        if (!isMoving(error) || performance.now() > until) throw error;
        this.#finder.forget(workspaceId);
        await new Promise((resolve) => setTimeout(resolve, HELD_LOOK_MS));
      }
    }
  }

  /** Of a link that was signed here; else it is no workspace's. */
  #workspaceOf(path: string): string | null {
    const links = this.#links;
    const read: [string, (token: string) => { workspaceId: string } | null][] = [
      [UNSUBSCRIBE_PATH, (token) => links.readUnsubscribe(token)],
      [CONFIRM_PATH, (token) => links.readConfirm(token)],
      [ATTACHMENTS_PATH, (token) => links.readAttachment(token)],
      [SHARED_PATH, (token) => links.readShared(token)],
    ];
    const found = read.find(([prefix]) => path.startsWith(prefix));
    return found?.[1](path.slice(found[0].length))?.workspaceId ?? null;
  }

  #partsOf(exchange: Exchange, cell: number | null): ServerParts {
    const parts = this.#cells[cell ?? HOME] as ServerParts;
    this.#answeredBy.set(exchange, parts);
    return parts;
  }
}

/** A request that was under way when its workspace left may miss what has left with it. */
const STATUSES_OF_MISSING: readonly number[] = [401, 403, 404];

function mayBeOfMove(error: unknown): boolean {
  return error instanceof Refusal ? STATUSES_OF_MISSING.includes(error.problem.status) : isMoving(error);
}
