/** A list of the API: filters in the URL, pages by cursor, live, exported as CSV page by page. */
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";
import { actsIn, type CallError, get, withQuery } from "../call.ts";
import { csvOf } from "../csv.ts";
import { useFocusAfter, useNews } from "../hooks.ts";
import { refine, usePlace } from "../place.ts";
import { saveFile } from "../savefile.ts";
import { count, counted } from "../words.ts";
import { Refusal, Skeleton } from "./bits.tsx";
import type { Option } from "./form.tsx";
import { type Column, Table } from "./table.tsx";

const EXPORT_ROWS_MAX = 50_000;
/** Of which those that match are exported: 2,000 calls, of the 3,000 that an account may make in a minute. */
const EXPORT_READ_ROWS_MAX = 200_000;
const SHOWN_ROWS = 50;
const PAGE_ROWS_MAX = 100;
/** Of a list that is here as a whole, until somebody asks for more. */
const SHORT_ROWS_SHOWN = 100;
/** A filtered page may be empty although others follow: so many are read until somebody asks for more. */
const PAGES_MAX = 20;

export type Page<T> = { data: T[]; has_more: boolean; next_cursor: string | null };
export type Filter = {
  name: string;
  label: string;
  options?: readonly string[];
  placeholder?: string;
  /** What may be meant, for whoever does not know it by heart. Asked for when the field is entered. */
  suggestions?(): Promise<readonly Option[]>;
  /** A day of the calendar, of which the API is told this end. */
  day?: "first moment" | "last moment";
};
/** `rows` are all that were read, also those that the filter leaves out: they tell where the list goes on. */
type Loaded<T> = { wanted: string; rows: T[]; cursor: string | null; newest: ReadonlySet<string> };
/** `path` is asked for; `holds`: what of it is shown, where the API cannot filter. `name`: of both. */
type Wanted<T> = { name: string; path: string; holds: ((row: T) => boolean) | null };

export function List<T extends { id: string }>({
  label,
  path,
  filters = [],
  rowFilters = [],
  columns,
  exported = columns,
  draw,
  empty,
  refreshed,
}: {
  /** What the rows are, in the plural: "e-mails". */
  label: string;
  path: string;
  /** The API's. */
  filters?: readonly Filter[];
  /** Those for which pages are looked through here. */
  rowFilters?: readonly RowFilter<T>[];
  columns: readonly Column<T>[];
  exported?: readonly Column<T>[];
  /** What is no table. */
  draw?: Drawn<T> | undefined;
  empty: ComponentChildren;
  /** Read again whenever this changes. */
  refreshed?: unknown;
}) {
  const { query } = usePlace();
  const wanted = wantedOf(path, filters, rowFilters, query);
  const all = [...filters, ...rowFilters];
  const isFiltered = all.some(({ name }) => query.get(name));
  const { loaded, error, more, isBusy } = usePages(wanted, refreshed);
  useFocusAfter(isBusy);
  const rows = loaded && (wanted.holds ? loaded.rows.filter(wanted.holds) : loaded.rows);

  return (
    <div class="list">
      {all.length > 0 && <Filters filters={all} query={query} />}
      <Matches rows={isFiltered && rows ? rows.length : null} isCut={loaded?.cursor != null} />
      <Refusal error={error?.message ?? null} />
      {isFiltered && error?.status === 422 && <Unfilter filters={filters} />}
      {!loaded && !error && <Skeleton lines={8} />}
      {loaded &&
        rows &&
        rows.length > 0 &&
        (draw ? (
          draw(rows)
        ) : (
          <Table
            label={label}
            columns={columns}
            rows={rows}
            keyOf={({ id }) => id}
            isNew={({ id }) => loaded.newest.has(id)}
          />
        ))}
      {loaded &&
        rows?.length === 0 &&
        (isFiltered ? (
          <Unmatched filters={all} label={label} onMore={loaded.cursor ? more : null} isBusy={isBusy} />
        ) : (
          empty
        ))}
      {loaded && rows && rows.length > 0 && (
        <footer class="list-foot">
          <span class="muted">{count(rows.length)} shown</span>
          {loaded.cursor && (
            <button type="button" disabled={isBusy} onClick={more}>
              Show more
            </button>
          )}
          <Export label={label} columns={exported} rowsOf={(onPage) => readAll(wanted, onPage)} />
        </footer>
      )}
    </div>
  );
}

function wantedOf<T>(
  path: string,
  filters: readonly Filter[],
  rowFilters: readonly RowFilter<T>[],
  query: URLSearchParams,
): Wanted<T> {
  const chosen = (of: readonly Filter[]) => Object.fromEntries(of.map(({ name }) => [name, query.get(name)]));
  const asked = withQuery(path, chosen(filters));
  const name = withQuery(asked, chosen(rowFilters));
  return { name, path: asked, holds: name === asked ? null : (row) => holdsAll(rowFilters, query, row) };
}

function holdsAll<T>(filters: readonly RowFilter<T>[], query: URLSearchParams, row: T): boolean {
  return filters.every(({ name, holds }) => {
    const value = query.get(name);
    return !value || holds(row, value);
  });
}

function usePages<T extends { id: string }>(wanted: Wanted<T>, refreshed: unknown) {
  const [loaded, setLoaded] = useState<Loaded<T> | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  const [busy, setBusy] = useState<string | null>(null);
  const [asked, shown, looking] = [useRef(wanted), useRef(loaded), useRef<string | null>(null)];
  asked.current = wanted;
  shown.current = loaded;
  const [questions, answered] = [useRef(0), useRef(0)];
  const { name } = wanted;

  const read = useCallback(
    async (
      of: () => Promise<(before: Loaded<T> | null) => Loaded<T> | null>,
      question: number | null = null,
    ) => {
      const isWanted = () =>
        asked.current.name === name && (question === null || question >= answered.current);
      try {
        const after = await of();
        if (!isWanted()) return;
        answered.current = question ?? answered.current;
        setError(null);
        setLoaded((before) => after(before?.wanted === name ? before : null));
      } catch (refusal) {
        if (isWanted()) setError(refusal as CallError);
      }
    },
    [name],
  );
  /** Of the newest rows. An answer that was overtaken by another question is older, and of no use. */
  const readHead = useCallback(
    (of: () => Promise<Page<T>>) =>
      read(
        async () => {
          const page = await of();
          return (before) => (before ? merged(before, page) : fresh(name, page));
        },
        ++questions.current,
      ),
    [read, name],
  );
  const load = useCallback(async () => {
    looking.current = name;
    await readHead(() => pageWithRows(asked.current, null));
    if (looking.current === name) looking.current = null;
  }, [readHead, name]);
  /** Where pages are looked through, only the newest is read again: they may be many. */
  const refresh = useCallback(async () => {
    const before = shown.current;
    if (!asked.current.holds) return load();
    if (looking.current === name) return;
    if (before?.wanted !== name) return load();
    return readHead(async () => {
      const page = await get<Page<T>>(withMore(asked.current.path, { limit: PAGE_ROWS_MAX }));
      return reaches(page, before) ? page : pageWithRows(asked.current, null);
    });
  }, [load, readHead, name]);
  useEffect(() => void load(), [load, refreshed]);
  useNews(refresh);

  const more = async () => {
    if (!loaded) return;
    setBusy(name);
    await read(async () => {
      const page = await pageWithRows(asked.current, loaded.cursor);
      return (before) => (before && isNext(before, loaded) ? continued(before, page) : before);
    });
    setBusy((now) => (now === name ? null : now));
  };
  return { loaded: loaded?.wanted === name ? loaded : null, error, more, isBusy: busy === name };
}

/** All that was read on the way to enough rows that match. */
async function pageWithRows<T>({ path, holds }: Wanted<T>, cursor: string | null): Promise<Page<T>> {
  const [limit, enough] = holds ? [PAGE_ROWS_MAX, SHOWN_ROWS] : [SHOWN_ROWS, 1];
  const data: T[] = [];
  let found = 0;
  let from = cursor;
  for (let n = 1; ; n++) {
    const page = await get<Page<T>>(withMore(path, { limit, cursor: from }));
    data.push(...page.data);
    found += holds ? page.data.filter(holds).length : page.data.length;
    if (found >= enough || !page.has_more || n >= PAGES_MAX) return { ...page, data };
    from = page.next_cursor;
  }
}

function withMore(path: string, query: Record<string, string | number | null>): string {
  const more = withQuery("", query).slice(1);
  return `${path}${path.includes("?") ? "&" : "?"}${more}`;
}

function fresh<T>(wanted: string, { data, next_cursor }: Page<T>): Loaded<T> {
  return { wanted, rows: data, cursor: next_cursor, newest: new Set() };
}

/** The list may have another filter by now, or end elsewhere. */
function isNext<T>(now: Loaded<T>, asked: Loaded<T>): boolean {
  return now.wanted === asked.wanted && now.cursor === asked.cursor;
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

/** Whether there is no gap between these newest rows and those that are here. */
function reaches<T extends { id: string }>({ data, next_cursor }: Page<T>, { rows }: Loaded<T>): boolean {
  const last = data.at(-1)?.id;
  return next_cursor === null || rows.some(({ id }) => id === last);
}

/** Of rows that are here. */
export type RowFilter<T> = Filter & { holds(row: T, value: string): boolean };

/** What somebody writes, in any case, somewhere in these. */
export function isIn(value: string, ...texts: readonly (string | null | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase().includes(value.toLowerCase()));
}

/** The rows as something else than a table. */
type Drawn<T> = (rows: readonly T[]) => ComponentChildren;

/** A list that is here as a whole: filters in the URL, as those of a longer one. */
export function ShortList<T>({
  label,
  region = label,
  filters = [],
  rows,
  columns,
  exported = columns,
  draw,
  keyOf = () => "",
  atAGlance = 0,
}: {
  label: string;
  /** What its table is called, where that is not what the rows are. */
  region?: string;
  filters?: readonly RowFilter<T>[];
  rows: readonly T[];
  columns: readonly Column<T>[];
  exported?: readonly Column<T>[];
  draw?: Drawn<T>;
  /** Without `draw`. */
  keyOf?(row: T): string;
  /** So many rows, as a part of something else, need neither a filter nor a file. */
  atAGlance?: number;
}) {
  const { query } = usePlace();
  const [most, setMost] = useState(SHORT_ROWS_SHOWN);
  const isFiltered = filters.some(({ name }) => query.get(name));
  const found = rows.filter((row) => holdsAll(filters, query, row));
  const shown = found.slice(0, most);
  const isWhole = rows.length <= atAGlance && !isFiltered;
  return (
    <div class="list">
      {!isWhole && filters.length > 0 && <Filters filters={filters} query={query} />}
      <Matches rows={isFiltered ? found.length : null} isCut={false} />
      {shown.length === 0 && isFiltered && <Unmatched filters={filters} label={label} />}
      {shown.length > 0 &&
        (draw ? draw(shown) : <Table label={region} columns={columns} rows={shown} keyOf={keyOf} />)}
      {shown.length > 0 && !isWhole && (
        <footer class="list-foot">
          <span class="muted">
            {count(shown.length)}
            {shown.length < found.length && ` of ${count(found.length)}`} shown
          </span>
          {shown.length < found.length && (
            <button type="button" onClick={() => setMost(most + SHORT_ROWS_SHOWN)}>
              Show more
            </button>
          )}
          <Export
            label={label}
            columns={exported}
            rowsOf={async (onPage) => {
              onPage(found, found.length);
              return { isCut: false };
            }}
          />
        </footer>
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
  filter: { name, label, options, placeholder, suggestions, day },
  value,
}: {
  filter: Filter;
  value: string;
}) {
  const id = useId();
  const inUrlAs = (given: string) => (day ? dayIn(given) : given);
  const inUrl = inUrlAs(value);
  const [typed, type] = useState({ over: inUrl, text: inUrl });
  const text = typed.over === inUrl ? typed.text : inUrl;
  const [suggested, suggest] = useState<readonly Option[] | null>(null);
  // without them it is typed
  const lookUp = () => suggested ?? suggestions?.().then(suggest, () => {});
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
          list={suggested ? `${id}-list` : undefined}
          onFocus={lookUp}
          onInput={({ currentTarget }) => type({ over: inUrl, text: currentTarget.value })}
          onChange={({ currentTarget: { value: given } }) => {
            const wanted = day && given !== "" ? momentOf(given, day) : given.trim();
            // what was typed is in the URL now, and goes when it goes from there
            type({ over: inUrlAs(wanted), text: inUrlAs(wanted) });
            refine({ [name]: wanted });
          }}
        />
      )}
      {suggested && (
        <datalist id={`${id}-list`}>
          {suggested.map((one) => (
            <option key={one.value} value={one.value}>
              {one.name}
            </option>
          ))}
        </datalist>
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

/** For whoever does not see the list. null: it is not filtered. */
function Matches({ rows, isCut }: { rows: number | null; isCut: boolean }) {
  return (
    <p class="unseen" role="status">
      {rows !== null && `Matches: ${count(rows)}${isCut ? " so far" : ""}`}
    </p>
  );
}

/** `onMore`: not all of the list was looked through. */
function Unmatched({
  filters,
  label,
  onMore = null,
  isBusy = false,
}: {
  filters: readonly Filter[];
  label: string;
  onMore?: (() => void) | null;
  isBusy?: boolean;
}) {
  return (
    <section class="empty">
      <h2>
        No {label} match this filter{onMore && " so far"}
      </h2>
      {onMore && (
        <button type="button" disabled={isBusy} onClick={onMore}>
          Look further
        </button>
      )}
      <Unfilter filters={filters} />
    </section>
  );
}

function Unfilter({ filters }: { filters: readonly Filter[] }) {
  return (
    <button
      type="button"
      onClick={({ currentTarget }) => {
        // the button goes away with the filter
        currentTarget.closest(".list")?.querySelector<HTMLElement>("search input, search select")?.focus();
        refine(Object.fromEntries(filters.map(({ name }) => [name, null])));
      }}
    >
      Remove the filter
    </button>
  );
}

/** `read`: how many were looked through for them so far. false stops it. */
type OnPage<T> = (rows: readonly T[], read: number) => boolean;
type Exported = { isCut: boolean };

function Export<T>({
  label,
  columns,
  rowsOf,
}: {
  label: string;
  columns: readonly Column<T>[];
  /** null: there is nothing to save any more. */
  rowsOf(onPage: OnPage<T>): Promise<Exported | null>;
}) {
  const [rowsRead, setRead] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  /** Counts them: one that was stopped or overtaken is of no use. */
  const exports = useRef(0);
  // of a list that somebody has left, or filters otherwise, nobody could stop it
  useEffect(() => () => void exports.current++, []);
  const named = columns.filter((column) => column.csv);
  if (named.length === 0) return null;
  const save = async () => {
    setError(null);
    setRead(0);
    const own = ++exports.current;
    const isWanted = () => own === exports.current;
    // as text, which is what is saved: rows may hold much that no column shows
    const file = [csvOf([named.map(({ name }) => name)])];
    let [saved, looked] = [0, 0];
    try {
      const exported = await rowsOf((rows, read) => {
        if (!isWanted()) return false;
        file.push(csvOf(rows.map((row) => named.map(({ csv }) => csv?.(row)))));
        saved += rows.length;
        looked = read;
        setRead(read);
        return true;
      });
      if (exported === null || !isWanted()) return;
      saveFile(`${label.replaceAll(" ", "-")}.csv`, "text/csv", file);
      if (exported.isCut) setError(cutWords(saved, looked));
    } catch (refusal) {
      if (isWanted()) setError((refusal as Error).message);
    } finally {
      if (isWanted()) setRead(null);
    }
  };
  const stop = () => {
    exports.current++;
    setRead(null);
  };
  return (
    <div class="export">
      {rowsRead !== null && (
        <span class="muted" role="status">
          {count(rowsRead)} rows read
        </span>
      )}
      <button type="button" class="small" onClick={rowsRead === null ? save : stop}>
        {rowsRead === null ? "Export CSV" : "Stop the export"}
      </button>
      <Refusal error={error} />
    </div>
  );
}

function cutWords(saved: number, read: number): string {
  return saved < read
    ? `The file has ${counted(saved, "row", "rows")} that match among the newest ${count(read)}, and there are more.`
    : `The file ends after ${count(saved)} rows, and there are more. Filter the list, and export each part.`;
}

/** null: it was stopped, or somebody chose another workspace, and what follows would be of that one. */
async function readAll<T>({ path, holds }: Wanted<T>, onPage: OnPage<T>): Promise<Exported | null> {
  const workspace = actsIn();
  let [found, read] = [0, 0];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await get<Page<T>>(withMore(path, { limit: PAGE_ROWS_MAX, cursor }));
    if (actsIn() !== workspace) return null;
    const rows = holds ? page.data.filter(holds) : page.data;
    found += rows.length;
    read += page.data.length;
    if (!onPage(rows, read)) return null;
    cursor = page.has_more ? page.next_cursor : null;
  } while (cursor !== null && found < EXPORT_ROWS_MAX && read < EXPORT_READ_ROWS_MAX);
  return { isCut: cursor !== null };
}
