/**
 * The two pages that mail links to: unsubscribe and confirm. Opening one changes nothing, since mail scanners
 * open every link. Its button acts, or a mail program's one-click request (RFC 8058). The page for an erased
 * contact is the same, so a link does not reveal who is known. Only the page's own button works in a browser:
 * another site that has a link cannot submit the form for a visitor, nor show the page in a frame.
 */
import { Unavailable } from "../admission/unavailable.ts";
import type { Links, LinkTarget } from "../audience/links.ts";
import type { Clock } from "../clock.ts";
import type { ContactCommit, ContactVerdict } from "../record/contacts/commit.ts";
import type { ContactChange, LinkVisitor } from "../rules/contact.ts";
import type { Exchange } from "./exchange.ts";
import type { Answer } from "./routes.ts";

const FORM_BYTES_MAX = 16 * 1024;
const ENTRY_BYTES = 500;
const USER_AGENT_CHARS_MAX = 500;

export type PageParts = {
  links: Links;
  commit: ContactCommit;
  clock: Clock;
  /** The public url of these pages. */
  publicUrl: string;
  /** A proxy in front names the visitor. */
  trustProxy: boolean;
};

type Words = { title: string; text: string; button?: string };

const METHODS = ["GET", "HEAD", "POST"];
export const UNSUBSCRIBE_PATH = "/u/";
export const CONFIRM_PATH = "/confirm/";
const UNKNOWN: Words = {
  title: "This link is not valid",
  text: "Part of it may be missing. Please open it again from the e-mail.",
};

const ELSEWHERE: Words = {
  title: "Please press the button on our own page",
  text: "This request came from another site, so nothing was changed. Please open the link from the e-mail.",
};

type PageHandler = (parts: PageParts, exchange: Exchange) => Promise<Answer>;

export function linkPages(parts: PageParts): ReadonlyMap<string, (exchange: Exchange) => Promise<Answer>> {
  const answering = (shown: PageHandler) => async (exchange: Exchange) =>
    METHODS.includes(exchange.method) ? shown(parts, exchange) : NO_SUCH_METHOD;
  return new Map([
    [UNSUBSCRIBE_PATH, answering(unsubscribe)],
    [CONFIRM_PATH, answering(confirm)],
  ]);
}

async function unsubscribe(parts: PageParts, exchange: Exchange): Promise<Answer> {
  const sealed = new URLSearchParams(exchange.query).get("to") ?? "";
  const addressee = parts.links.readUnsubscribe(exchange.path.slice(UNSUBSCRIBE_PATH.length), sealed);
  if (!addressee) return page(404, UNKNOWN);
  if (!isPost(exchange))
    return page(200, {
      title: "Unsubscribe?",
      text: "Do you want to stop receiving these e-mails? Nothing changes until you press the button.",
      button: "Unsubscribe",
    });
  if (isFromElsewhere(parts, exchange)) return page(403, ELSEWHERE);
  await act(parts, exchange, addressee, {
    kind: "unsubscribe",
    source: "link",
    visitor: visitorOf(parts, exchange),
    ...(addressee.identity !== undefined && { identity: addressee.identity }),
  });
  return page(200, { title: "You are unsubscribed", text: "You will not receive these e-mails any more." });
}

async function confirm(parts: PageParts, exchange: Exchange): Promise<Answer> {
  const invitation = parts.links.readConfirm(exchange.path.slice(CONFIRM_PATH.length));
  if (!invitation) return page(404, UNKNOWN);
  if (!isPost(exchange))
    return page(200, {
      title: "Confirm your subscription?",
      text: "Do you want to receive these e-mails? Nothing changes until you press the button.",
      button: "Confirm",
    });
  if (isFromElsewhere(parts, exchange)) return page(403, ELSEWHERE);
  const { askedAt } = invitation;
  const verdict = await act(parts, exchange, invitation, {
    kind: "confirm",
    askedAt,
    visitor: visitorOf(parts, exchange),
  });
  if (verdict.kind === "changed" || verdict.kind === "known")
    return page(200, { title: "Thank you", text: "Your subscription is confirmed." });
  return page(410, {
    title: "This link no longer works",
    text:
      "A newer e-mail replaced it, it is more than 7 days old, or you have unsubscribed since. " +
      "If you have confirmed already, there is nothing more to do. Otherwise please sign up again.",
  });
}

async function act(
  { commit, clock }: PageParts,
  exchange: Exchange,
  { workspaceId, audienceId, contactId }: LinkTarget,
  change: ContactChange,
): Promise<ContactVerdict> {
  // the body is read and ignored: a mail program's says nothing more
  if (exchange.hasBody) await exchange.body(FORM_BYTES_MAX);
  const room = commit.takeRoom(1, ENTRY_BYTES);
  if (!room) throw new Unavailable("capacity", "the commit is full");
  try {
    const entry = { workspaceId, audienceId, who: { id: contactId }, change, keyId: null };
    const verdict = await commit.submit({ ...entry, given: clock.given(), bytes: ENTRY_BYTES });
    if (verdict.kind === "failed" || verdict.kind === "unknown")
      throw new Unavailable("postgres", "the commit did not go through", verdict.error);
    return verdict;
  } finally {
    room.release();
  }
}

function isPost({ method }: Exchange): boolean {
  return method === "POST";
}

/**
 * A mail program names no origin. One that is hidden is a frame's or a redirect's: our own page shows its
 * own.
 */
function isFromElsewhere({ publicUrl }: PageParts, { visitor: { origin, host } }: Exchange): boolean {
  if (origin === "" || origin === new URL(publicUrl).origin) return false;
  return !URL.canParse(origin) || new URL(origin).host !== host.toLowerCase();
}

function visitorOf({ trustProxy }: PageParts, { visitor }: Exchange): LinkVisitor {
  const forwarded = visitor.forwardedFor.split(",").at(-1)?.trim() ?? "";
  const { address, userAgent } = visitor;
  return {
    ipAddress: trustProxy && forwarded !== "" ? forwarded.slice(0, 64) : address,
    userAgent: userAgent === "" ? null : userAgent.slice(0, USER_AGENT_CHARS_MAX).replace(/\p{Cc}/gu, " "),
  };
}

const HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Cache-Control": "no-store",
  "Content-Security-Policy":
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  // with `no-referrer` browsers would hide the origin of the page's own form, too
  "Referrer-Policy": "same-origin",
  "X-Frame-Options": "DENY",
  "Cross-Origin-Opener-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Robots-Tag": "noindex",
};

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:28rem;margin:15vh auto 0;padding:0 1.5rem;color:#1c2330;background:#fff}
h1{font-size:1.4rem}button{font:inherit;padding:.6rem 1.4rem;border:0;border-radius:.4rem;background:#1c5fd4;color:#fff;cursor:pointer}
@media(prefers-color-scheme:dark){body{color:#e4e8f0;background:#14181f}}`;

const NO_SUCH_METHOD: Answer = {
  ...page(405, { title: "Nothing was changed", text: "Please open the link from the e-mail." }),
  headers: { ...HEADERS, Allow: METHODS.join(", ") },
};

function page(status: number, { title, text, button }: Words): Answer {
  const form = button ? `<form method="post"><button>${button}</button></form>` : "";
  const body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>${STYLE}</style></head><body><h1>${title}</h1><p>${text}</p>${form}</body></html>`;
  return { status, body, headers: HEADERS };
}
