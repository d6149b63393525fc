/**
 * HTML of others in a frame of the page. Its own policy closes it in: no script, no form, no frame, nothing
 * from elsewhere but pictures where they are asked for; and `sandbox` gives it an origin that nobody shares,
 * and keeps it from going elsewhere by itself.
 */
import { randomBytes } from "node:crypto";
import { concatInTurns, turn } from "../turn.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const KEPT_MS = 60_000;
const KEPT_MAX = 1_000;
/** Whoever looks at many ends no look of others. */
const KEPT_EACH_MAX = 10;
const KEPT_BYTES_MAX = 32 * 1024 * 1024;
const NAME_BYTES = 18;

/**
 * What the policy refuses may still cost a connection, which tells its host that the mail is read:
 * Chromium opens one for a frame before it asks the policy, and no policy holds for `preconnect`. A tag's
 * name ends so, and in no other way; elsewhere in the text the replacement harms nothing.
 */
const CONNECTING = /<(?=(?:link|i?frame|object|embed)[\s/>])/gi;
const CONNECTING_CHARS_MAX = "<iframe>".length;
const PIECE_CHARS = 128 * 1024;

/** `images=true` in the query: pictures may be loaded. */
export async function framed(html: string, query: URLSearchParams): Promise<ConsoleAnswer> {
  const pictures = query.get("images") === "true" ? "data: https: http:" : "data:";
  const policy = [
    "sandbox",
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    `img-src ${pictures}`,
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ].join("; ");
  return {
    status: 200,
    body: await withoutConnecting(html),
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": policy,
      "X-Frame-Options": "SAMEORIGIN",
      "Referrer-Policy": "no-referrer",
      // nor are the hosts of links looked up
      "X-DNS-Prefetch-Control": "off",
    },
  };
}

/** Others have their turn in between: a mail may be two megabytes of such tags. */
async function withoutConnecting(html: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < html.length; ) {
    const end = pieceEnd(html, at);
    pieces.push(Buffer.from(html.slice(at, end).replace(CONNECTING, "<no-")));
    at = end;
    await turn();
  }
  return concatInTurns(pieces);
}

/** Neither the beginning of a tag nor a character of two units is torn. */
function pieceEnd(html: string, at: number): number {
  const end = at + PIECE_CHARS;
  if (end >= html.length) return html.length;
  const open = html.lastIndexOf("<", end);
  if (open > end - CONNECTING_CHARS_MAX) return open;
  return /[\udc00-\udfff]/.test(html.charAt(end)) ? end + 1 : end;
}

type KeptFrame = { html: string; accountId: string; until: number };

/** HTML that was made for a look: for whoever made it, for a minute, in this process. */
export class Frames {
  readonly #kept = new Map<string, KeptFrame>();
  #bytes = 0;

  keep(html: string, accountId: string, now: number): string {
    const own = [...this.#kept].filter(([, kept]) => kept.accountId === accountId);
    for (const [oldest] of own.slice(0, Math.max(0, own.length - KEPT_EACH_MAX + 1))) this.#drop(oldest);
    const name = randomBytes(NAME_BYTES).toString("base64url");
    this.#kept.set(name, { html, accountId, until: now + KEPT_MS });
    this.#bytes += html.length;
    for (const [oldest, { until }] of this.#kept) {
      if (until > now && this.#kept.size <= KEPT_MAX && this.#bytes <= KEPT_BYTES_MAX) break;
      this.#drop(oldest);
    }
    return name;
  }

  find(name: string, accountId: string, now: number): string {
    const kept = this.#kept.get(name);
    if (!kept || kept.accountId !== accountId || kept.until <= now)
      throw deny(
        "not_found",
        "This console process has no such preview: it has ended, or another console process made it. Make another.",
      );
    return kept.html;
  }

  #drop(name: string): void {
    this.#bytes -= this.#kept.get(name)?.html.length ?? 0;
    this.#kept.delete(name);
  }
}
