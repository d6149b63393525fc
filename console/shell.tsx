/** What surrounds every screen: navigation, workspace switcher, palette, theme, sign-out. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isSignedIn } from "./call.ts";
import { Palette } from "./palette.tsx";
import { Empty, Refusal } from "./parts/bits.tsx";
import { BASE, usePlace } from "./place.ts";
import { NAV, type NavItem, needsWorkspace } from "./screens.tsx";
import { apart, type Console, useConsole } from "./session.ts";
import { applyTheme, nextTheme, theme } from "./theme.ts";
import { capital } from "./words.ts";

/** `fault`: why signing out did not work. */
export function Shell({ fault, children }: { fault: string | null; children: ComponentChildren }) {
  const { workspace } = useConsole();
  const { path } = usePlace();
  const [isOpen, setOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  // on narrow screens the navigation covers the screen that was chosen
  useEffect(() => setOpen(false), [path]);
  const content = useRef<HTMLElement>(null);
  const shown = useRef(path);
  // who had the focus is gone with the screen before: the keyboard goes on at the new one
  useEffect(() => {
    if (shown.current !== path && document.activeElement === document.body)
      content.current?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  // before the first paint: a key may come as soon as there is something to see
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => {
      // a browser that fills in a form sends an event without a key
      if (event.key?.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      // AltGr is Control and Alt, and writes a letter on some keyboards
      if (event.altKey || event.shiftKey) return;
      // the page may wait behind the sign-in
      if (!isSignedIn()) return;
      event.preventDefault();
      // to go elsewhere would take a dialog along, with what is typed or shown once in it
      if (!document.querySelector("dialog[open]")) setPaletteOpen(true);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <button
          type="button"
          class="plain"
          aria-expanded={isOpen}
          aria-controls="sidebar"
          onClick={() => setOpen(!isOpen)}
        >
          ☰ Menu
        </button>
        <Brand />
        <button type="button" class="plain" onClick={() => setPaletteOpen(true)}>
          Search
        </button>
      </header>
      <Sidebar isOpen={isOpen} onSearch={() => setPaletteOpen(true)} />
      <main id="content" tabIndex={-1} ref={content}>
        <Refusal error={fault} />
        {workspace?.is_suspended && (
          <p class="banner warn">
            This workspace is suspended: it can be read, and sends nothing. Ask your operator.
          </p>
        )}
        {workspace || !needsWorkspace(path) ? children : <NoWorkspace />}
      </main>
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
    </div>
  );
}

function Brand() {
  return (
    <a class="brand" href={`${BASE}/emails`}>
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
        <rect width="32" height="32" rx="7" />
        <path d="M6 10h20v12H6z" />
        <path d="M6 10l10 8 10-8" />
      </svg>
      Postrider
    </a>
  );
}

function Sidebar({ isOpen, onSearch }: { isOpen: boolean; onSearch(): void }) {
  const parts = useConsole();
  const { path } = usePlace();
  return (
    <aside id="sidebar" class={isOpen ? "sidebar open" : "sidebar"} aria-label="Console">
      <Brand />
      <Switcher {...parts} />
      <button type="button" class="search" onClick={onSearch}>
        <span>Search</span>
        <kbd>{/Mac/.test(navigator.platform) ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <nav aria-label="Screens">
        {shownOf(parts).map(({ name, items }) => (
          <section key={name}>
            <h2>{name}</h2>
            <ul>
              {items.map((item) => (
                <li key={item.path}>
                  <a href={BASE + item.path} aria-current={isAt(item.path, path) ? "page" : undefined}>
                    {item.name}
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </nav>
      <Foot {...parts} />
    </aside>
  );
}

/** The navigation without what this person cannot use. */
export function shownOf(parts: Console): typeof NAV {
  return NAV.map(({ name, items }) => ({ name, items: items.filter((item) => isShown(item, parts)) })).filter(
    ({ items }) => items.length > 0,
  );
}

function isShown({ only, path }: NavItem, { session, workspace }: Console): boolean {
  if (!workspace && needsWorkspace(path)) return false;
  if (only === "development") return session.development;
  return only === undefined || session.is_operator;
}

function isAt(item: string, path: string): boolean {
  const current = path === "" ? "/emails" : path;
  return current === item || current.startsWith(`${item}/`);
}

function Switcher({ session: { workspaces }, workspace, choose }: Console) {
  if (workspaces.length < 2) return <p class="workspace">{workspace?.name ?? "No workspace"}</p>;
  return (
    <label class="workspace">
      <span class="unseen">Workspace</span>
      <select value={workspace?.id} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {workspaces.map((each) => (
          <option key={each.id} value={each.id}>
            {apart(each, workspaces)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Foot({ session: { account }, signOut }: Console) {
  const [chosen, setChosen] = useState(theme);
  const turn = () => {
    applyTheme(nextTheme());
    setChosen(theme());
  };
  return (
    <footer>
      <a class="account" href={`${BASE}/profile`} title={account.email}>
        {account.email}
      </a>
      <a class="account" href="/docs">
        Guides and reference
      </a>
      <div class="buttons">
        <button type="button" class="small" onClick={turn}>
          {capital(chosen)} theme
        </button>
        <button type="button" class="small" onClick={() => void signOut()}>
          {capital("sign out")}
        </button>
      </div>
    </footer>
  );
}

function NoWorkspace() {
  const { session } = useConsole();
  return (
    <>
      <h1>No workspace</h1>
      <Empty title="You are not a member of a workspace">
        <p>An owner or an admin of one can invite you, under Members.</p>
        {session.is_operator && (
          <p>
            As an operator you can <a href={`${BASE}/operator`}>see the whole installation</a>.
          </p>
        )}
      </Empty>
    </>
  );
}
