/**
 * /emails/{id}/attachments: what an e-mail carries, with a signed link to each. Who has a link needs no key,
 * so a link holds for a while only, and what it leads to is never shown by a browser. Those of a suspended
 * workspace lead nowhere.
 */
import { createHash } from "node:crypto";
import Type from "typebox";
import { allows } from "../admission/permissions.ts";
import type { Links } from "../audience/links.ts";
import type { Clock } from "../clock.ts";
import { HOUR_MS } from "../clock.ts";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { readPiece } from "../record/mail/attachments.ts";
import type { AttachmentRef } from "../record/mail/emails.ts";
import { attachmentsOf } from "../record/mail/read.ts";
import { suspendedOf } from "../record/workspaces/suspension.ts";
import { type Downloads, TOO_MANY_DOWNLOADS } from "./downloads.ts";
import type { Exchange } from "./exchange.ts";
import { lacks } from "./gate.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { bodyOf, problem, refuse } from "./problem.ts";
import type { Answer, Call, PageAnswer, Route } from "./routes.ts";
import { Count, Id, listOf, shape, Text, Time } from "./shapes.ts";
import { iso } from "./time.ts";

const LINK_LIVES_MS = HOUR_MS;
export const ATTACHMENTS_PATH = "/attachments/";

export type AttachmentParts = { reads: Sql; clock: Clock; links: Links };
type NamedAttachment = AttachmentRef & { id: string; place: number };

const attachmentFields = {
  id: Id,
  filename: Text,
  size: Count,
  content_type: Text,
  content_disposition: Type.Enum(["inline", "attachment"]),
  content_id: Type.Optional(Text),
  download_url: Type.String({ description: "holds for an hour, and needs no key" }),
  expires_at: Time,
};

export function attachmentRoutes(parts: AttachmentParts): Route[] {
  const shared = { permissions: ["emails:send"], success: 200 } as const;
  const path = "/api/v1/emails/{id}/attachments";
  return [
    {
      ...shared,
      method: "GET",
      path,
      summary: "List the attachments of an e-mail",
      query: LIST_QUERY,
      answer: listOf(shape("AttachmentItem", attachmentFields)),
      handle: (call) => list(parts, call),
    },
    {
      ...shared,
      method: "GET",
      path: `${path}/{attachment_id}`,
      summary: "Get an attachment of an e-mail, with a link to its contents",
      answer: shape("Attachment", { object: Type.Literal("attachment"), ...attachmentFields }),
      handle: (call) => get(parts, call),
    },
  ];
}

async function list(parts: AttachmentParts, call: Call): Promise<Answer> {
  const emailId = idOf(call.params[0]);
  const page = pageOf(call.query);
  const all = await namedOf(parts, call, emailId);
  const from = page.after === null ? 0 : placeOf(all, page.after) + 1;
  const to = page.before === null ? all.length : placeOf(all, page.before);
  // a page read backwards is the last of those before, as every list answers it
  const some = page.before === null ? all.slice(from) : all.slice(0, to).reverse();
  const body = envelope(some.slice(0, page.limit + 1), page, (one) => show(parts, call, emailId, one));
  return { status: 200, body };
}

/** These ids have no order, so one that is not there names no place between others. */
function placeOf(all: readonly NamedAttachment[], wanted: string): number {
  const place = all.findIndex(({ id }) => id === wanted);
  if (place < 0)
    throw refuse("invalid_parameter", "This e-mail has no attachment with the id that the page begins at.");
  return place;
}

async function get(parts: AttachmentParts, call: Call): Promise<Answer> {
  const emailId = idOf(call.params[0]);
  const wanted = idOf(call.params[1]);
  const found = (await namedOf(parts, call, emailId)).find(({ id }) => id === wanted);
  if (!found) throw refuse("not_found", "There is no attachment with this id.");
  const body = { object: "attachment", ...show(parts, call, emailId, found) };
  return { status: 200, body: JSON.stringify(body) };
}

async function namedOf(
  { reads }: AttachmentParts,
  { caller }: Call,
  emailId: string,
): Promise<NamedAttachment[]> {
  const found = await attachmentsOf(reads, caller.workspaceId, emailId);
  if (!found) throw refuse("not_found", "There is no e-mail with this id.");
  if (found.keyId !== caller.keyId && !allows(caller.permissions, "full")) throw lacks("full");
  return found.attachments.map((one, place) => ({ ...one, place, id: attachmentId(emailId, place) }));
}

/** The same whenever it is asked for; it names a place, not contents that two e-mails may share. */
export function attachmentId(emailId: string, place: number): string {
  const hex = createHash("sha256").update(`${emailId} ${place}`).digest("hex");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
}

function show({ links, clock }: AttachmentParts, { caller }: Call, emailId: string, one: NamedAttachment) {
  const until = clock.now() + LINK_LIVES_MS;
  const { id, place, filename, bytes, content_type, content_id } = one;
  return {
    id,
    filename,
    size: bytes,
    content_type: content_type ?? "application/octet-stream",
    content_disposition: content_id === null ? "attachment" : "inline",
    ...(content_id !== null && { content_id }),
    download_url: links.attachmentUrl({ workspaceId: caller.workspaceId, emailId, place, until }),
    expires_at: iso(new Date(until)),
  };
}

function idOf(text = ""): string {
  if (!isUuid(text)) throw refuse("invalid_parameter", "Ids of e-mails and of attachments must be UUIDs.");
  return text.toLowerCase();
}

const HEADERS = {
  "Content-Type": "application/octet-stream",
  "Content-Security-Policy": "default-src 'none'; sandbox",
  "Cache-Control": "private, no-store",
  "X-Content-Type-Options": "nosniff",
  "X-Robots-Tag": "noindex",
};

/** What a link leads to. */
export function attachmentPage({ reads, clock, links }: AttachmentParts, downloads: Downloads) {
  return async (exchange: Exchange): Promise<PageAnswer> => {
    const target = links.readAttachment(exchange.path.slice(ATTACHMENTS_PATH.length));
    if (!target || target.until < clock.now() || exchange.method !== "GET" || exchange.hasBody) return gone();
    const { workspaceId, emailId, place } = target;
    if (!downloads.begin(exchange, workspaceId)) return refused("service_unavailable", TOO_MANY_DOWNLOADS);
    const [found, suspended] = await Promise.all([
      attachmentsOf(reads, workspaceId, emailId),
      suspendedOf(reads, [workspaceId]),
    ]);
    const ref = suspended.size === 0 ? found?.attachments[place] : undefined;
    if (!ref) return gone();
    const next = (from: number) =>
      downloads.read(async () =>
        exchange.isGone ? null : readPiece(reads, { workspaceId, key: ref, from }),
      );
    const first = await next(0);
    if (!first) return gone();
    const { bytes } = ref;
    return {
      status: 200,
      body: first.byteLength < bytes ? { bytes, first, next } : first,
      headers: { ...HEADERS, "Content-Disposition": disposition(ref.filename) },
    };
  };
}

/** RFC 6266, with a name that every client can read. */
function disposition(filename: string): string {
  const plain = filename.replace(/[^\w.() -]/g, "_");
  return `attachment; filename="${plain}"; filename*=UTF-8''${encodeURIComponent(filename).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`)}`;
}

function gone(): Answer {
  return refused(
    "not_found",
    "This link has expired, or the attachment is no longer kept. Ask for another link.",
  );
}

function refused(name: "not_found" | "service_unavailable", message: string): Answer {
  const found = problem(name, message);
  return { status: found.status, body: bodyOf(found) };
}
