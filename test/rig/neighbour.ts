/** A workspace that sends one e-mail after the other while somebody else does harm. */
import { expect } from "vitest";
import { type Answer, mail, type TestWorkspace } from "./workspace.ts";

/**
 * Behind a request of the attack, a send would take as long as one of these. A busy machine slows both down,
 * so that they are compared with each other.
 */
const TIMES_AS_QUICK = 4;

/** Sends until `attack`, of so many requests, is over: beside them, and not behind them. */
export async function sendsBeside(
  neighbour: TestWorkspace,
  requests: number,
  attack: Promise<unknown>,
): Promise<void> {
  let isOver = false;
  const over = attack.finally(() => {
    isOver = true;
  });
  const times: number[] = [];
  const start = performance.now();
  while (!isOver) {
    const began = performance.now();
    expect((await neighbour.client.post("/emails", mail())).status).toBe(200);
    times.push(performance.now() - began);
  }
  const attackMs = performance.now() - start;
  await over;
  const median = times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  expect(median).toBeLessThan(attackMs / requests / TIMES_AS_QUICK);
}

/**
 * Posts a large body as callers do who are told to come again: on a busy machine the thread that parses it,
 * which goes behind all others, may not come to its end in time.
 */
export async function insisted<T>({ client }: TestWorkspace, path: string, body: string): Promise<Answer<T>> {
  for (;;) {
    const answer = await client.post<T>(path, body);
    if (answer.status !== 503) return answer;
  }
}
