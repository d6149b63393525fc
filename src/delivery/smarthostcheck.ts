/**
 * Checks that the smarthost accepts us: a conversation up to the point where a mail would start, then QUIT.
 * Unlike a plain connection this finds a wrong password, an invalid certificate and a blocked address.
 */

import { Conversation } from "../smtp/conversation.ts";
import type { Reply } from "../smtp/reply.ts";
import { watchDeadlines } from "../smtp/watch.ts";
import { readSmarthost, type SmarthostSettings } from "./smarthost.ts";

const TICK_MS = 100;

/** null: accepted; else the reason. Each step may take `stepMs`. */
export function smarthostTrouble(
  url: string,
  settings: SmarthostSettings,
  stepMs: number,
): Promise<Reply | null> {
  const { peer } = readSmarthost(url, settings);
  const patience = {
    ...{ connectMs: stepMs, greetingMs: stepMs, commandMs: stepMs, dotMs: stepMs },
    beforeDataMs: Number.POSITIVE_INFINITY,
  };
  const now = () => performance.now();
  return new Promise((resolve) => {
    const conversation: Conversation = new Conversation(
      peer,
      patience,
      {
        now,
        onReady: (ready) => ready.retire(),
        onLeaving: () => null,
        onReturn: () => {},
        onOver: (_, failure) => {
          clearInterval(ticker);
          resolve(failure);
        },
      },
      0,
    );
    const ticker = watchDeadlines(TICK_MS, now, (at) => conversation.tick(at));
  });
}
