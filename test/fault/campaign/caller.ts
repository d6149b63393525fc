/** Callers of the API: one request to one process, and what became of it, whatever that was. */
import { Agent, request as requestHttp } from "node:http";
import type { Answer } from "./history.ts";
import { TIMED_OUT } from "./rules/answers.ts";

/** Rather more than the deadlines of the engine add up to. */
const ANSWER_MS_MAX = 20_000;

export type Request = {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  body?: string;
  headers?: Record<string, string>;
};

export class Caller {
  readonly #agent = new Agent({ keepAlive: true });

  /** `abortMs`: hangs up after so long, as callers do whose own patience ends. */
  ask(port: number, key: string, request: Request, abortMs: number | null): Promise<Answer> {
    const { method, path, body, headers } = request;
    return new Promise((resolve) => {
      const sent = requestHttp({
        host: "127.0.0.1",
        port,
        path: `/api/v1${path}`,
        method,
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
          ...headers,
        },
      });
      const giveUp = (why: string) => () => sent.destroy(new Error(why));
      // from when it has a connection: many that wait for one are the campaign's own doing
      let patience: NodeJS.Timeout | undefined;
      sent.once("socket", () => {
        patience = setTimeout(giveUp(TIMED_OUT), ANSWER_MS_MAX);
      });
      const hangUp = abortMs === null ? undefined : setTimeout(giveUp("the caller hung up"), abortMs);
      const over = (answer: Answer) => {
        clearTimeout(patience);
        clearTimeout(hangUp);
        resolve(answer);
      };
      sent.once("error", (error: NodeJS.ErrnoException) =>
        over(error.code === "ECONNREFUSED" ? { kind: "refused" } : { kind: "lost", why: error.message }),
      );
      sent.once("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.once("error", (error) => over({ kind: "lost", why: error.message }));
        response.once("end", () =>
          over({ kind: "answered", status: response.statusCode ?? 0, body: parsed(text) }),
        );
      });
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
