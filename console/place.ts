/** Where the browser is. The URL holds the screen and its filter, so every view is a link. */
import { useEffect, useState } from "preact/hooks";

export const BASE = "/console";
/** Of the URL, beside the filters of the screens. */
export const WORKSPACE = "workspace";

export type Place = { path: string; query: URLSearchParams };
const listeners = new Set<() => void>();

function here(): Place {
  return {
    path: location.pathname.slice(BASE.length).replace(/\/+$/, ""),
    query: new URLSearchParams(location.search),
  };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const update = () => setPlace(here());
    listeners.add(update);
    return () => void listeners.delete(update);
  }, []);
  return place;
}

function told(): void {
  for (const listener of listeners) listener();
}

/** `path` is below the console. The workspace goes along, so that the URL can be sent to somebody else. */
export function go(path: string, { replace = false } = {}): void {
  const to = new URL(BASE + path, location.href);
  const workspace = new URLSearchParams(location.search).get(WORKSPACE);
  if (workspace !== null && !to.searchParams.has(WORKSPACE)) to.searchParams.set(WORKSPACE, workspace);
  const isElsewhere = to.pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  told();
  if (isElsewhere) scrollTo(0, 0);
}

/** Sets or removes parameters of the URL. */
export function refine(changes: Record<string, string | null>): void {
  const { path, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  go(`${path}${query.size > 0 ? `?${query}` : ""}`, { replace: true });
}

/** Links within the console change the screen without loading the page. */
export function interceptLinks(): void {
  addEventListener("popstate", told);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest<HTMLAnchorElement>(`a[href^="${BASE}/"]`);
    if (link?.target !== "" || link.download !== "") return;
    event.preventDefault();
    go(link.pathname.slice(BASE.length) + link.search);
  });
}
