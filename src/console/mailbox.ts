/** The mail that `npm start` caught, in development. Elsewhere there is none. */
import { accountCall, type ConsoleCall } from "./calls.ts";
import { framed } from "./frames.ts";
import { wholeList } from "./pages.ts";
import { deny } from "./refusal.ts";

const ANSWER_MS_MAX = 5_000;

export function mailboxCalls(mailboxUrl: string | null): ConsoleCall[] {
  return [
    accountCall({
      ...{ method: "GET", path: "mailbox" },
      handle: async () => wholeList((await ask(mailboxUrl, "messages")) as unknown[]),
    }),
    accountCall({
      ...{ method: "GET", path: "mailbox/{id}" },
      handle: async ({ params }) => ({ status: 200, body: await caught(mailboxUrl, params[0]) }),
    }),
    accountCall({
      ...{ method: "GET", path: "mailbox/{id}/html" },
      handle: async ({ params, query }) => framed((await caught(mailboxUrl, params[0])).html ?? "", query),
    }),
  ];
}

async function caught(mailboxUrl: string | null, id = ""): Promise<{ html: string | null }> {
  if (!/^\d{1,12}$/.test(id)) throw deny("not_found", "There is no such mail.");
  return (await ask(mailboxUrl, `messages/${id}`)) as { html: string | null };
}

async function ask(mailboxUrl: string | null, path: string): Promise<unknown> {
  if (mailboxUrl === null)
    throw deny("not_found", "There is no mailbox: only `npm start` catches mail, for development.");
  const url = `${mailboxUrl.replace(/\/+$/, "")}/${path}`;
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) }).catch(() => null);
  if (response === null)
    throw deny("service_unavailable", "The mailbox does not answer. Try again in 1 second.");
  if (!response.ok) throw deny("not_found", "There is no such mail.");
  return response.json();
}
