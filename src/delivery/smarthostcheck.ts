/**
 * Whether the smarthost lets us in: a conversation as a mail would have it, up to where the mail would begin, and a
 * polite end. Finds a wrong password, a certificate that does not hold and a barred address, which a connection alone
 * does not.
 */

import { Conversation } from "../smtp/conversation.ts";
import type { Reply } from "../smtp/reply.ts";
import { readSmarthost, type SmarthostSettings } from "./smarthost.ts";

const TICK_MS = 100;

/** null when we are welcome, else what kept us out. Each step is given `stepMs`. */
export function knock(url: string, settings: SmarthostSettings, stepMs: number): Promise<Reply | null> {
  const { peer } = readSmarthost(url, settings);
  const patience = { connectMs: stepMs, greetingMs: stepMs, commandMs: stepMs, dotMs: stepMs };
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
    const ticker = setInterval(() => conversation.tick(now()), TICK_MS);
  });
}
