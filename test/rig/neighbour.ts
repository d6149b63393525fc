/** A workspace that sends one e-mail after the other while somebody else does harm. */
import { expect } from "vitest";
import { mail, type TestWorkspace } from "./workspace.ts";

/** How long its sends take until `attack` is over, the quickest first. */
export async function sendsWhile(neighbour: TestWorkspace, attack: Promise<unknown>): Promise<number[]> {
  let isOver = false;
  const over = attack.finally(() => {
    isOver = true;
  });
  const times: number[] = [];
  while (!isOver) {
    const began = performance.now();
    expect((await neighbour.client.post("/emails", mail())).status).toBe(200);
    times.push(performance.now() - began);
  }
  await over;
  return times.sort((a, b) => a - b);
}
