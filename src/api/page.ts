/** Lists: the query parameters every list takes, and the envelope every list answers with. Newest first, by id. */
import { isUuid } from "../ids.ts";
import type { Page } from "../record/readmail.ts";
import { refuse } from "./problem.ts";

export const LIST_QUERY = [
  { name: "limit", description: "1 to 100, default 20" },
  { name: "cursor", description: "`next_cursor` of the page before; `after` means the same" },
  { name: "before", description: "an id: pages back" },
];
const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

export function pageOf(query: URLSearchParams): Page {
  const after = cursor(query, "cursor") ?? cursor(query, "after");
  const before = cursor(query, "before");
  const given = ["cursor", "after", "before"].filter((name) => query.has(name));
  if (given.length > 1)
    throw refuse("invalid_parameter", `Only one of \`${given.join("` and `")}\` may be given.`);
  return { after, before, limit: limitOf(query) };
}

/** `rows` holds one more than the page when more follow; a page read backwards comes in ascending order. */
export function envelope<Row extends { id: string }>(
  rows: readonly Row[],
  page: Page,
  show: (row: Row) => unknown,
): string {
  const more = rows.length > page.limit;
  const items = rows.slice(0, page.limit);
  if (page.before !== null) items.reverse();
  const last = items.at(-1);
  return JSON.stringify({
    object: "list",
    data: items.map(show),
    has_more: more,
    next_cursor: more && last ? last.id : null,
  });
}

function limitOf(query: URLSearchParams): number {
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
