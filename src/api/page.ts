/**
 * Lists: the query parameters every list takes, and the envelope every list answers with. Newest first, by
 * id.
 */
import { identity, parseMailbox } from "../address.ts";
import { hasMoreChars } from "../chars.ts";
import { isUuid } from "../ids.ts";
import type { Page } from "../record/mail/read.ts";
import { refuse } from "./problem.ts";
import type { Parameter } from "./routes.ts";

/** What parameters hold that are no plain text, for the description of the API. */
export const PARAMETERS: Readonly<Record<string, object>> = {
  limit: { type: "integer", minimum: 1, maximum: 100, default: 20 },
  cursor: { type: "string", format: "uuid" },
  before: { type: "string", format: "uuid" },
  mode: { type: "string", enum: ["archive", "erase"] },
  since: { type: "string", format: "date-time" },
  until: { type: "string", format: "date-time" },
  api_key_id: { type: "string", format: "uuid" },
  granularity: { type: "string", enum: ["daily", "weekly", "monthly"], default: "daily" },
};

export const LIST_QUERY = [
  {
    name: "limit",
    description: "1 to 100, default 20; a page of long items may hold fewer: `has_more` tells",
  },
  { name: "cursor", alias: "after", description: "`next_cursor` of the page before; `after` means the same" },
  { name: "before", description: "an id: pages back" },
];

/** Whoever writes one of these as a parameter wants the items with that value. A test knows all lists. */
const FIELDS_OF_ITEMS = [
  "object attempts waiting_for next_attempt_at reason", // e-mails
  "delivered_at delayed_at bounced_at complained_at failed_at",
  "filename size content_type content_disposition content_id download_url expires_at", // attachments
  "variables published_at current_version_id has_unpublished_versions", // templates
  "schema key type fallback_value", // definitions
  "region capabilities open_tracking click_tracking", // domains
  "endpoint method response_status user_agent duration_ms request_id", // requests
  "contact_email version started_at next_step_at completed_at counts", // runs and imports
  "origin scope evidence source_id", // suppressions
  "sequence data types events event_type event_types event_id http_status_code response error", // webhooks
];

/**
 * Names of filters. A list that ignored one would answer with everything, as if it all matched: it is refused
 * by lists that do not have it. Any other unknown parameter is ignored. Names are compared without case and
 * separators, up to the first bracket or dot: `apiKeyId` and `status[]` are found too.
 */
const FILTERS: ReadonlySet<string> = new Set(
  [
    "status to subject tag api_key_id stream since until", // e-mails
    "email unsubscribed first_name last_name property properties", // contacts
    "from cc bcc reply_to recipient tags key_id last_event event message_id",
    "name alias external_id template_id audience_id segment_id contact_id id ids",
    "created_at updated_at scheduled_at sent_at created_after created_before date start end start_date end_date",
    "state filter filters where q query search",
    ...FIELDS_OF_ITEMS,
  ].flatMap((names) => names.split(" ").map(plainName)),
);
const POSITIONS = ["cursor", "after", "before"];
const FILTER_CHARS_SHOWN = 50;
const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

/** `filters`: those that the list has. */
export function pageOf(query: URLSearchParams, filters: readonly string[] = []): Page {
  refuseIgnored(query, filters);
  const after = cursor(query, "cursor") ?? cursor(query, "after");
  const before = cursor(query, "before");
  return { after, before, limit: limitOf(query) };
}

/**
 * What a list would ignore, and its caller would not expect it to: other filters, a second position, and a
 * position it does not know, with which a caller would read the same page for ever.
 */
export function refuseIgnored(
  query: URLSearchParams,
  filters: readonly string[] = [],
  positions: readonly string[] = POSITIONS,
): void {
  refuseFilters(query, filters, "by this list. Remove it and filter the items you receive.");
  const given = POSITIONS.filter((name) => query.has(name));
  const unknown = given.find((name) => !positions.includes(name));
  if (unknown !== undefined)
    throw refuse(
      "invalid_parameter",
      `The \`${unknown}\` parameter is not supported by this list. Use \`${positions.join("` or `")}\`.`,
    );
  if (given.length > 1)
    throw refuse("invalid_parameter", `Only one of \`${given.join("` and `")}\` may be given.`);
}

/** `rows` holds one more than the page when more follow. */
export function envelope<Row extends { id: string }>(
  rows: readonly Row[],
  page: Page,
  show: (row: Row) => unknown,
): string {
  return envelopeOf(rows.slice(0, page.limit), rows.length > page.limit, page, show);
}

/** A page read backwards comes in ascending order. `next`: where to go on, if that is not the last item. */
export function envelopeOf<Row extends { id: string }>(
  rows: readonly Row[],
  isMore: boolean,
  page: Page,
  show: (row: Row) => unknown,
  next: string | null = null,
): string {
  const items = page.before === null ? rows : [...rows].reverse();
  const last = items.at(-1);
  return JSON.stringify({
    object: "list",
    data: items.map(show),
    has_more: isMore,
    next_cursor: isMore ? (next ?? last?.id ?? null) : null,
  });
}

/** The value of a filter; null when it is not given. */
export function oneOf<T extends string>(
  query: URLSearchParams,
  name: string,
  values: readonly T[],
): T | null {
  const given = query.get(name);
  if (given === null) return null;
  const known = values.find((one) => one === given);
  if (!known) throw refuse("invalid_parameter", `\`${name}\` must be one of \`${values.join("`, `")}\`.`);
  return known;
}

export function textIn(query: URLSearchParams, name: string, charsMax: number): string | null {
  const text = query.get(name);
  if (text !== null && (text === "" || hasMoreChars(text, charsMax) || text.includes("\0")))
    throw refuse("invalid_parameter", `\`${name}\` must have 1 to ${charsMax} characters, without U+0000.`);
  return text;
}

/** Of an address. A `+` that came unescaped is one, since no address holds a space. */
export function identityIn(query: URLSearchParams, name: string): string | null {
  const text = query.get(name);
  if (text === null) return null;
  const mailbox = parseMailbox(text.replaceAll(" ", "+"));
  if (!mailbox || mailbox.name !== null)
    throw refuse("invalid_parameter", `\`${name}\` must be an address: \`a@x.com\`.`);
  return identity(mailbox.address);
}

/** `filters`: those that are known here. */
export function refuseFilters(query: URLSearchParams, filters: readonly string[], words: string): void {
  for (const name of query.keys())
    if (FILTERS.has(plainName(name)) && !filters.includes(name))
      throw refuse(
        "invalid_parameter",
        `The \`${name.slice(0, FILTER_CHARS_SHOWN)}\` parameter is not supported ${words}`,
      );
}

/** Of two values one would be ignored. */
export function refuseRepeated(query: URLSearchParams, parameters: readonly Parameter[]): void {
  for (const { name, alias } of parameters) {
    const names = alias === undefined ? [name] : [name, alias];
    const given = names.flatMap((one) => query.getAll(one).map(() => one));
    if (given.length < 2) continue;
    throw refuse(
      "invalid_parameter",
      given[0] === given[1]
        ? `The \`${given[0]}\` parameter may be given only once.`
        : `Only one of \`${name}\` and \`${alias}\` may be given.`,
    );
  }
}

function plainName(name: string): string {
  return name
    .replace(/[[.].*$/s, "")
    .replace(/[_-]/g, "")
    .toLowerCase();
}

export function limitOf(query: URLSearchParams): number {
  const text = query.get("limit");
  if (text === null) return LIMIT_DEFAULT;
  const limit = Number(text);
  if (!/^\d{1,3}$/.test(text) || limit < 1 || limit > LIMIT_MAX)
    throw refuse("invalid_parameter", `\`limit\` must be a whole number from 1 to ${LIMIT_MAX}.`);
  return limit;
}

function cursor(query: URLSearchParams, name: string): string | null {
  const text = query.get(name);
  if (text === null) return null;
  if (!isUuid(text)) throw refuse("invalid_parameter", `\`${name}\` must be the id of an item of this list.`);
  return text.toLowerCase();
}
