/**
 * A caller who repeats a request under its idempotency key until it is accepted or refused for good, at any
 * api in turn.
 */
import { Client } from "./workspace.ts";

const RETRY_MS = 50;
/** The outcome is unknown, another try is under way, or a store is away. */
const NOT_FOR_GOOD = [409, 500, 503];

/** The answer; null: there is no quota for it. */
export async function insist<T>(
  urls: readonly string[],
  key: string,
  path: string,
  body: unknown,
  idempotencyKey: string,
): Promise<T | null> {
  for (let tries = 0; ; tries++) {
    const client = new Client(urls[tries % urls.length] as string, key);
    const answer = await client.post<T>(path, body, { "idempotency-key": idempotencyKey });
    if (answer.status < 300) return answer.body;
    if (answer.status === 429) return null;
    if (!NOT_FOR_GOOD.includes(answer.status))
      throw new Error(`answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}
