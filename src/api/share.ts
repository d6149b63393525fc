/**
 * /emails/{id}/share: a signed link to what an e-mail looks like. Who has the link needs no key, so it holds
 * for a while only. The page closes the mail in as a mail program does: no script, no form, and links lead
 * nowhere. It shows nothing of a suspended workspace, whose mail may be why it is.
 */
import Type from "typebox";
import { allows } from "../admission/permissions.ts";
import type { Links } from "../audience/links.ts";
import { type Clock, DAY_MS } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { findEmail, type WholeEmail } from "../record/mail/read.ts";
import { suspendedOf } from "../record/workspaces/suspension.ts";
import { turn } from "../turn.ts";
import { checker } from "./check.ts";
import { type Downloads, TOO_MANY_DOWNLOADS } from "./downloads.ts";
import { emailId, unknownEmail } from "./emails.ts";
import type { Exchange } from "./exchange.ts";
import { lacks } from "./gate.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Text, told } from "./shapes.ts";
import { parseTime } from "./time.ts";

export const SHARED_PATH = "/shared/";
const EXPIRES_DEFAULT = "48 hours";
const LIVES_MS_MAX = 7 * DAY_MS;
const PIECES = /.{1,32768}/gsu;

const ShareEmail = Type.Object(
  {
    expires_in: Type.Optional(
      Type.String({
        description: "`2 hours`, `30 minutes`, `7 days`: at most 7 days",
        default: EXPIRES_DEFAULT,
      }),
    ),
  },
  { $id: "ShareEmail" },
);
const checkShare = checker(ShareEmail);

export type ShareParts = { reads: Sql; clock: Clock; links: Links };

export function shareRoutes(parts: ShareParts): Route[] {
  return [
    {
      method: "POST",
      path: "/api/v1/emails/{id}/share",
      permissions: ["emails:send"],
      summary: "Make a link that shows an e-mail to whoever has it",
      success: 200,
      request: ShareEmail,
      answer: told("email", { url: Text }),
      handle: (call) => share(parts, call),
    },
  ];
}

async function share({ reads, clock, links }: ShareParts, { caller, params, body }: Call): Promise<Answer> {
  const id = emailId(params);
  const until = expiryOf(checkShare(body).expires_in ?? EXPIRES_DEFAULT, clock.now());
  const { workspaceId } = caller;
  const email = await findEmail(reads, workspaceId, id);
  if (!email) throw unknownEmail();
  if (email.keyId !== caller.keyId && !allows(caller.permissions, "full")) throw lacks("full");
  if (!hasContents(email)) throw refuse("not_found", "The contents of this e-mail are no longer kept.");
  const url = links.sharedUrl({ workspaceId, emailId: id, until });
  return { status: 200, body: JSON.stringify({ object: "email", id, url }) };
}

function expiryOf(text: string, now: number): number {
  const until = parseTime(`in ${text.trim()}`, now);
  if (until === null || until <= now || until > now + LIVES_MS_MAX)
    throw refuse(
      "validation_error",
      "The `expires_in` field must be a time up to 7 days, such as `2 hours`.",
    );
  return until;
}

function hasContents({ html, plain }: WholeEmail): boolean {
  return html !== null || plain !== null;
}

/** What a link leads to. */
export function sharedPage({ reads, clock, links }: ShareParts, downloads: Downloads) {
  return async (exchange: Exchange): Promise<Answer> => {
    const target = links.readShared(exchange.path.slice(SHARED_PATH.length));
    if (!target || target.until < clock.now() || exchange.method !== "GET" || exchange.hasBody) return gone();
    if (!downloads.begin(exchange, target.workspaceId)) return page(503, said(TOO_MANY_DOWNLOADS));
    const answer = await downloads.read(async () =>
      exchange.isGone ? null : shown(reads, target.workspaceId, target.emailId),
    );
    if (!answer) return gone();
    return downloads.grow(exchange, answer.body.length) ? answer : page(503, said(TOO_MANY_DOWNLOADS));
  };
}

async function shown(reads: Sql, workspaceId: string, emailId: string): Promise<Answer | null> {
  const [email, suspended] = await Promise.all([
    findEmail(reads, workspaceId, emailId),
    suspendedOf(reads, [workspaceId]),
  ]);
  const isShown = email && hasContents(email) && suspended.size === 0;
  return isShown ? page(200, ...(await contents(email))) : null;
}

function gone(): Answer {
  return page(404, said("This link has expired, or the e-mail is no longer kept."));
}

/** What the frame holds inherits the policy of the page. Pictures are loaded, as a mail program would. */
const HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Cache-Control": "private, no-store",
  "Content-Security-Policy":
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: https:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
  "Cross-Origin-Opener-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Robots-Tag": "noindex",
};

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;margin:0;display:flex;flex-direction:column;height:100vh;color:#1c2330;background:#fff}
header{padding:1rem 1.5rem;border-bottom:1px solid #ccd}h1{font-size:1.2rem;margin:0}p{margin:0;overflow-wrap:anywhere}
iframe,pre{flex:1;border:0;margin:0}pre{padding:1rem 1.5rem;white-space:pre-wrap}`;

const PAGE_BEGIN = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A shared e-mail</title><style>${STYLE}</style></head><body>`;
const PAGE_END = "</body></html>";

function page(status: number, ...contents: (string | Buffer)[]): Answer {
  const pieces = [PAGE_BEGIN, ...contents, PAGE_END].map((one) =>
    typeof one === "string" ? Buffer.from(one) : one,
  );
  return { status, body: Buffer.concat(pieces), headers: HEADERS };
}

function said(words: string): string {
  return `<header><h1>A shared e-mail</h1><p>${words}</p></header>`;
}

async function contents({ head, html, plain, createdAt }: WholeEmail): Promise<(string | Buffer)[]> {
  const { subject, from, to } = head;
  const about = `<p>From ${escaped(from)} to ${escaped(to.join(", "))}, ${createdAt.toISOString()}</p>`;
  const title = `<header><h1>${escaped(subject ?? "")}</h1>${about}</header>`;
  if (html === null) return [`${title}<pre>`, ...(await escapedInTurns(plain ?? "")), "</pre>"];
  return [
    `${title}<iframe title="The e-mail" sandbox srcdoc="`,
    ...(await escapedInTurns(html)),
    '"></iframe>',
  ];
}

/** Others have their turn in between: 2 MB in one go would hold them up for half a second. */
async function escapedInTurns(text: string): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  for (const [piece] of text.matchAll(PIECES)) {
    pieces.push(Buffer.from(escaped(piece)));
    await turn();
  }
  return pieces;
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
}
