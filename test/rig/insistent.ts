/** A caller who repeats a send under its idempotency key until it is accepted or refused for good, at any api in turn. */
import { Client } from "./workspace.ts";

const RETRY_MS = 50;
/** The outcome is unknown, another try is under way, or a store is away. */
const NOT_FOR_GOOD = [409, 500, 503];

/** The id of the e-mail; null: there is no quota for it. */
export async function sendInsistently(
  urls: readonly string[],
  key: string,
  idempotencyKey: string,
  body: unknown,
): Promise<string | null> {
  for (let tries = 0; ; tries++) {
    const client = new Client(urls[tries % urls.length] as string, key);
    const { status, body: answer } = await client.post<{ id: string }>("/emails", body, {
      "idempotency-key": idempotencyKey,
    });
    if (status === 200) return answer.id;
    if (status === 429) return null;
    if (!NOT_FOR_GOOD.includes(status)) throw new Error(`answered ${status}: ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}
