/** Lists of the console's own: the parameters and the envelope of the API. */
import { isUuid } from "../ids.ts";
import type { Page } from "../record/mail/read.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

export function limitIn(query: URLSearchParams): number {
  const limit = Number(query.get("limit") ?? LIMIT_DEFAULT);
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
    throw deny("invalid_parameter", `\`limit\` must be a whole number from 1 to ${LIMIT_MAX}.`);
  return limit;
}

export function pageIn(query: URLSearchParams): Page {
  const limit = limitIn(query);
  const after = query.get("cursor");
  if (after !== null && !isUuid(after))
    throw deny("invalid_parameter", "`cursor` must be `next_cursor` of the page before.");
  return { after: after?.toLowerCase() ?? null, before: null, limit };
}

/** `rows` holds one more than the page when more follow. */
export function pageOfRows<Row extends { id: string }>(
  rows: readonly Row[],
  { limit }: Page,
  show: (row: Row) => object,
): ConsoleAnswer {
  const shown = rows.slice(0, limit);
  const isMore = rows.length > limit;
  const body = {
    ...{ object: "list", data: shown.map(show), has_more: isMore },
    next_cursor: isMore ? (shown.at(-1)?.id ?? null) : null,
  };
  return { status: 200, body };
}

export function wholeList(data: readonly unknown[]): ConsoleAnswer {
  return { status: 200, body: { object: "list", data, has_more: false, next_cursor: null } };
}
