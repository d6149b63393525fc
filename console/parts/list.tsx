/** A list of the API: filters in the URL, pages by cursor, live, exported as CSV page by page. */
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";
import { actsIn, type CallError, get, withQuery } from "../call.ts";
import { csvOf } from "../csv.ts";
import { useNews } from "../hooks.ts";
import { refine, usePlace } from "../place.ts";
import { saveFile } from "../savefile.ts";
import { count } from "../words.ts";
import { Refusal, Skeleton } from "./bits.tsx";
import { type Column, Table } from "./table.tsx";

const EXPORT_ROWS_MAX = 50_000;
/** A filtered page may be empty although others follow. */
const EMPTY_PAGES_MAX = 20;

export type Page<T> = { data: T[]; has_more: boolean; next_cursor: string | null };
export type Filter = {
  name: string;
  label: string;
  options?: readonly string[];
  placeholder?: string;
  /** A day of the calendar, of which the API is told this end. */
  day?: "first moment" | "last moment";
};
type Loaded<T> = { path: string; rows: T[]; cursor: string | null; newest: ReadonlySet<string> };

export function List<T extends { id: string }>({
  label,
  path,
  filters = [],
  columns,
  exported = columns,
  empty,
  refreshed,
}: {
  /** What the rows are, in the plural: "e-mails". */
  label: string;
  path: string;
  filters?: readonly Filter[];
  columns: readonly Column<T>[];
  exported?: readonly Column<T>[];
  empty: ComponentChildren;
  /** Read again whenever this changes. */
  refreshed?: unknown;
}) {
  const { query } = usePlace();
  const chosen = Object.fromEntries(filters.map(({ name }) => [name, query.get(name)]));
  const wanted = withQuery(path, chosen);
  const isFiltered = Object.values(chosen).some((value) => value);
  const { loaded, error, more, isBusy } = usePages<T>(wanted, refreshed);

  return (
    <div class="list">
      {filters.length > 0 && <Filters filters={filters} query={query} />}
      <Refusal error={error?.message ?? null} />
      {isFiltered && error?.status === 422 && <Unfilter filters={filters} />}
      {!loaded && !error && <Skeleton lines={8} />}
      {loaded && loaded.rows.length > 0 && (
        <Table
          label={label}
          columns={columns}
          rows={loaded.rows}
          keyOf={({ id }) => id}
          isNew={({ id }) => loaded.newest.has(id)}
        />
      )}
      {loaded &&
        loaded.rows.length === 0 &&
        (isFiltered ? <Unmatched filters={filters} label={label} /> : empty)}
      {loaded && loaded.rows.length > 0 && (
        <footer class="list-foot">
          <span class="muted">{count(loaded.rows.length)} shown</span>
          {loaded.cursor && (
            <button type="button" disabled={isBusy} onClick={more}>
              Show more
            </button>
          )}
          <Export label={label} columns={exported} rowsOf={(onProgress) => allRows<T>(wanted, onProgress)} />
        </footer>
      )}
    </div>
  );
}

function usePages<T extends { id: string }>(path: string, refreshed: unknown) {
  const [loaded, setLoaded] = useState<Loaded<T> | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const asked = useRef(path);
  asked.current = path;

  const refresh = useCallback(async () => {
    try {
      const page = await pageWithRows<T>(path, null);
      if (asked.current !== path) return;
      setError(null);
      setLoaded((before) => (before?.path === path ? merged(before, page) : fresh(path, page)));
    } catch (refusal) {
      if (asked.current === path) setError(refusal as CallError);
    }
  }, [path]);
  useEffect(() => void refresh(), [refresh, refreshed]);
  useNews(refresh);

  const more = async () => {
    if (!loaded) return;
    setBusy(true);
    try {
      const page = await pageWithRows<T>(path, loaded.cursor);
      setLoaded((before) => (before && isNext(before, loaded) ? continued(before, page) : before));
    } catch (refusal) {
      if (asked.current === path) setError(refusal as CallError);
    } finally {
      setBusy(false);
    }
  };
  return { loaded: loaded?.path === path ? loaded : null, error, more, isBusy };
}

async function pageWithRows<T>(path: string, cursor: string | null, limit = 50): Promise<Page<T>> {
  let from = cursor;
  for (let n = 0; ; n++) {
    const page = await get<Page<T>>(withMore(path, { limit, cursor: from }));
    if (page.data.length > 0 || !page.has_more || n === EMPTY_PAGES_MAX) return page;
    from = page.next_cursor;
  }
}

function withMore(path: string, query: Record<string, string | number | null>): string {
  const more = withQuery("", query).slice(1);
  return `${path}${path.includes("?") ? "&" : "?"}${more}`;
}

function fresh<T>(path: string, { data, next_cursor }: Page<T>): Loaded<T> {
  return { path, rows: data, cursor: next_cursor, newest: new Set() };
}

/** The list may have another filter by now, or end elsewhere. */
function isNext<T>(now: Loaded<T>, asked: Loaded<T>): boolean {
  return now.path === asked.path && now.cursor === asked.cursor;
}

function continued<T>(before: Loaded<T>, { data, next_cursor }: Page<T>): Loaded<T> {
  return { ...before, rows: [...before.rows, ...data], cursor: next_cursor };
}

/** The first page replaces the head of the list; what was loaded below it stays. */
function merged<T extends { id: string }>(before: Loaded<T>, { data, next_cursor }: Page<T>): Loaded<T> {
  const known = new Set(before.rows.map(({ id }) => id));
  const newest = new Set(data.map(({ id }) => id).filter((id) => !known.has(id)));
  const last = data.at(-1)?.id;
  const end = before.rows.findIndex(({ id }) => id === last);
  const below = next_cursor !== null && end >= 0 ? before.rows.slice(end + 1) : [];
  return {
    ...before,
    rows: [...data, ...below],
    cursor: below.length > 0 ? before.cursor : next_cursor,
    newest,
  };
}

/** Of rows that are all here. */
export type RowFilter<T> = Filter & { holds(row: T, value: string): boolean };

/** What somebody writes, in any case, somewhere in these. */
export function isIn(value: string, ...texts: readonly (string | null | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase().includes(value.toLowerCase()));
}

/** A list that is here as a whole: filters in the URL, as those of a longer one. */
export function ShortList<T>({
  label,
  filters,
  rows,
  columns,
  keyOf,
}: {
  label: string;
  filters: readonly RowFilter<T>[];
  rows: readonly T[];
  columns: readonly Column<T>[];
  keyOf(row: T): string;
}) {
  const { query } = usePlace();
  const shown = rows.filter((row) =>
    filters.every(({ name, holds }) => {
      const value = query.get(name);
      return !value || holds(row, value);
    }),
  );
  return (
    <div class="list">
      <Filters filters={filters} query={query} />
      {shown.length > 0 ? (
        <>
          <Table label={label} columns={columns} rows={shown} keyOf={keyOf} />
          <footer class="list-foot">
            <span class="muted">{count(shown.length)} shown</span>
            <Export
              label={label}
              columns={columns}
              rowsOf={async () => ({ rows: [...shown], isCut: false })}
            />
          </footer>
        </>
      ) : (
        <Unmatched filters={filters} label={label} />
      )}
    </div>
  );
}

function Filters({ filters, query }: { filters: readonly Filter[]; query: URLSearchParams }) {
  return (
    <search class="filters">
      {filters.map((filter) => (
        <FilterField key={filter.name} filter={filter} value={query.get(filter.name) ?? ""} />
      ))}
    </search>
  );
}

function FilterField({
  filter: { name, label, options, placeholder, day },
  value,
}: {
  filter: Filter;
  value: string;
}) {
  const id = useId();
  const inUrl = day ? dayIn(value) : value;
  const [text, setText] = useState(inUrl);
  useEffect(() => setText(inUrl), [inUrl]);
  return (
    <div>
      <label for={id}>{label}</label>
      {options ? (
        <select
          id={id}
          value={value}
          onChange={({ currentTarget }) => refine({ [name]: currentTarget.value })}
        >
          <option value="">any</option>
          {options.map((option) => (
            <option key={option} value={option}>
              {option.replaceAll("_", " ")}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type={(day ? "date" : "search") as "search"}
          max={day && LAST_DAY}
          value={text}
          placeholder={placeholder}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onChange={({ currentTarget: { value: given } }) =>
            refine({ [name]: day && given !== "" ? momentOf(given, day) : given.trim() })
          }
        />
      )}
    </div>
  );
}

/** Without it browsers let somebody type years of six digits, which are no time to the API. */
const LAST_DAY = "9999-12-31";

/**
 * In the calendar of the person who looks. While somebody types a year it is one like 0020: with fewer digits
 * the field would take it for no day, and empty itself.
 */
function dayIn(at: string): string {
  if (Number.isNaN(Date.parse(at))) return "";
  const [year, ...rest] = new Date(at).toLocaleDateString("sv").split("-");
  return [year?.padStart(4, "0"), ...rest].join("-");
}

/** A day that is no time to the API, as some browsers let somebody type it, stays for it to refuse. */
function momentOf(day: string, end: "first moment" | "last moment"): string {
  const at = new Date(`${day}T${end === "first moment" ? "00:00:00.000" : "23:59:59.999"}`);
  return Number.isNaN(at.getTime()) ? day : at.toISOString();
}

function Unmatched({ filters, label }: { filters: readonly Filter[]; label: string }) {
  return (
    <section class="empty">
      <h2>No {label} match this filter</h2>
      <Unfilter filters={filters} />
    </section>
  );
}

function Unfilter({ filters }: { filters: readonly Filter[] }) {
  const clear = () => refine(Object.fromEntries(filters.map(({ name }) => [name, null])));
  return (
    <button type="button" onClick={clear}>
      Remove the filter
    </button>
  );
}

type Exported<T> = { rows: T[]; isCut: boolean };

function Export<T>({
  label,
  columns,
  rowsOf,
}: {
  label: string;
  columns: readonly Column<T>[];
  /** null: there is nothing to save any more. */
  rowsOf(onProgress: (rows: number) => void): Promise<Exported<T> | null>;
}) {
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  const named = columns.filter((column) => column.csv);
  if (named.length === 0) return null;
  const save = async () => {
    setError(null);
    setDone(0);
    try {
      const exported = await rowsOf(setDone);
      if (exported === null) return;
      const head = named.map(({ name }) => name);
      const file = csvOf([head, ...exported.rows.map((row) => named.map(({ csv }) => csv?.(row)))]);
      saveFile(`${label.replaceAll(" ", "-")}.csv`, "text/csv", file);
      if (exported.isCut)
        setError(
          `The file ends after ${count(exported.rows.length)} rows, and there are more. Filter the list, and export each part.`,
        );
    } catch (refusal) {
      setError((refusal as Error).message);
    } finally {
      setDone(null);
    }
  };
  return (
    <div class="export">
      <button type="button" class="small" disabled={done !== null} onClick={save}>
        {done === null ? "Export CSV" : `${count(done)} rows`}
      </button>
      <Refusal error={error} />
    </div>
  );
}

/** null: somebody chose another workspace, and what follows would be of that one. */
async function allRows<T>(path: string, onProgress: (rows: number) => void): Promise<Exported<T> | null> {
  const workspace = actsIn();
  const rows: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await get<Page<T>>(withMore(path, { limit: 100, cursor }));
    rows.push(...page.data);
    onProgress(rows.length);
    cursor = page.has_more ? page.next_cursor : null;
    if (actsIn() !== workspace) return null;
  } while (cursor !== null && rows.length < EXPORT_ROWS_MAX);
  return { rows, isCut: cursor !== null };
}
