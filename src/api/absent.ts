/**
 * What the official client can ask for and this engine does not do: refused in words, whatever the method.
 */
import { LIST_QUERY, pageOf } from "./page.ts";
import { problem, Refusal } from "./problem.ts";
import type { Route } from "./routes.ts";
import { listOf, Named } from "./shapes.ts";

const KEYS = problem(
  "restricted_api_key",
  "API keys are created and revoked by owners and admins, in the console or with `postrider key`, not by another API key.",
);

/** `*` stands for one segment; what follows is covered too. */
const ABSENT: readonly { path: string; what: string; instead: string }[] = [
  { path: "broadcasts", what: "Broadcasts are", instead: "Send to an audience with an automation." },
  { path: "topics", what: "Topics are", instead: "Use audiences or tags." },
  { path: "contacts/*/topics", what: "Topics are", instead: "Use audiences or tags." },
  { path: "inboxes", what: "Inboxes are", instead: "It sends e-mail and does not receive any." },
  {
    path: "emails/receiving",
    what: "Receiving e-mail is",
    instead: "It sends e-mail and does not receive any.",
  },
  { path: "oauth/grants/*", what: "OAuth is", instead: "Authenticate with an API key." },
];
/** Asked of every request: what has none of these words is let through at once. */
const WORDS = /broadcasts|topics|inboxes|receiving|oauth|api-keys/;
const PARTS = ABSENT.map((one) => ({ ...one, segments: one.path.split("/") }));

export function refuseAbsent(path: string): void {
  if (!WORDS.test(path)) return;
  const segments = path.split("/").filter((segment) => segment !== "");
  const asked = segments.slice(2); // below /api/v1
  if (asked[0] === "api-keys") throw new Refusal(KEYS);
  const absent = PARTS.find((one) =>
    one.segments.every((name, n) => (name === "*" ? asked[n] !== undefined : name === asked[n])),
  );
  if (absent)
    throw new Refusal(problem("not_found", `${absent.what} not part of this engine. ${absent.instead}`));
}

/** Nobody is granted access but by a key, so the list of grants is empty. */
export function grantRoutes(): Route[] {
  const nothing = JSON.stringify({ object: "list", data: [], has_more: false, next_cursor: null });
  return [
    {
      method: "GET",
      path: "/api/v1/oauth/grants",
      permissions: ["full"],
      summary: "List OAuth grants: there are none, since only API keys give access",
      success: 200,
      query: LIST_QUERY,
      answer: listOf(Named),
      handle({ query }) {
        pageOf(query);
        return { status: 200, body: nothing };
      },
    },
  ];
}
