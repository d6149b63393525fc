/**
 * Load that does not wait for answers: requests are due at even times, and each one's latency counts from
 * when it was due, not from when it could be sent. So a server that stalls is charged for everybody who would
 * have come meanwhile (no coordinated omission).
 */
import { Agent as HttpAgent, request as requestHttp } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import { after } from "./until.ts";

const CONNECTIONS_MAX = 256;
const ANSWER_MS_MAX = 30_000;
const NO_ANSWER = { status: 0, body: "" };
/** Timers are this coarse: what has become due since the last look is sent at once. */
const LOOK_EVERY_MS = 2;

export type Shot = {
  url: string;
  key: string;
  method: "GET" | "POST" | "PUT" | "DELETE";
  body: string | null;
};
/** Status 0: it was given up without an answer, after `waitMs`. */
export type Hit = { status: number; body: string; waitMs: number };
export type Arrivals = {
  rate: number;
  count: number;
  /** Ends the arrivals; what was sent is still waited for. */
  signal?: AbortSignal;
  /** After so long a silence a request is given up. */
  answerMsMax?: number;
  /** Connections at most: a request beyond them waits for one, and that counts. */
  connections?: number;
};
export type Fired = { waits: number[]; failures: number; perSecond: number };

/**
 * `next` says what to send; `onHit` hears what became of every request. A status below 200 or from 300 on is
 * a failure, and so is no answer.
 */
export async function openLoop(
  { rate, count, signal, answerMsMax = ANSWER_MS_MAX, connections = CONNECTIONS_MAX }: Arrivals,
  next: (n: number) => Shot,
  onHit: (hit: Hit, n: number) => void = () => {},
): Promise<Fired> {
  const pool = { keepAlive: true, maxSockets: connections, scheduling: "lifo" as const };
  const agents = { "http:": new HttpAgent(pool), "https:": new HttpsAgent(pool) };
  const waits: number[] = [];
  const answers: Promise<void>[] = [];
  let failures = 0;
  const began = performance.now();
  for (let n = 0; n < count && !signal?.aborted; ) {
    const due = began + (n * 1000) / rate;
    if (performance.now() < due) {
      await after(LOOK_EVERY_MS);
      continue;
    }
    const number = n++;
    const answered = fire(next(number), agents, answerMsMax).catch(() => NO_ANSWER);
    const noted = answered.then(({ status, body }) => {
      const waitMs = performance.now() - due;
      waits.push(waitMs);
      if (status < 200 || status > 299) failures++;
      onHit({ status, body, waitMs }, number);
    });
    answers.push(noted);
  }
  await Promise.all(answers);
  const perSecond = (waits.length - failures) / ((performance.now() - began) / 1000);
  for (const agent of Object.values(agents)) agent.destroy();
  return { waits, failures, perSecond };
}

function fire(
  { url, key, method, body }: Shot,
  agents: { "http:": HttpAgent; "https:": HttpsAgent },
  answerMsMax: number,
): Promise<{ status: number; body: string }> {
  const isTls = url.startsWith("https:");
  const headers = {
    authorization: `Bearer ${key}`,
    ...(body === null
      ? {}
      : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
  };
  return new Promise((resolve, reject) => {
    const options = { method, headers, timeout: answerMsMax };
    const request = isTls
      ? requestHttps(url, { ...options, agent: agents["https:"] })
      : requestHttp(url, { ...options, agent: agents["http:"] });
    request.once("error", reject);
    request.once("timeout", () => request.destroy(new Error("no answer in time")));
    request.once("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.once("end", () => resolve({ status: response.statusCode ?? 0, body: text }));
      response.once("error", reject);
    });
    request.end(body ?? undefined);
  });
}
