/** The small parts that every screen uses. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useNow } from "../hooks.ts";
import { ago, capital, fullTime, plain, type Tone, toneOf } from "../words.ts";

export function Screen({
  title,
  intro,
  actions,
  back,
  children,
}: {
  title: string;
  intro?: ComponentChildren;
  actions?: ComponentChildren;
  back?: { href: string; name: string };
  children: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <>
      <header class="screen-head">
        <div>
          {back && (
            <a class="back" href={back.href}>
              ← {back.name}
            </a>
          )}
          <h1>{title}</h1>
          {intro && <p class="muted">{intro}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Badge({ state, tone, words }: { state: string; tone?: Tone; words?: string }) {
  return <span class={`badge ${tone ?? toneOf(state)}`}>{words ?? capital(plain(state))}</span>;
}

export function Time({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span class="muted">never</span>;
  return (
    <time dateTime={at} title={fullTime(at)}>
      {ago(at, now)}
    </time>
  );
}

/** A time that somebody may have to tell others. A phone has no tooltips. */
export function Moment({ at }: { at: string }) {
  return (
    <>
      <Time at={at} /> <span class="muted small-text nowrap">{fullTime(at)}</span>
    </>
  );
}

const TOLD_MS = 1_500;

export function Copy({ text, name = "Copy" }: { text: string; name?: string }) {
  const [told, tell] = useState<string | null>(null);
  const copy = async (button: HTMLElement) => {
    tell((await isCopied(text, button)) ? "Copied" : "Not copied");
    setTimeout(() => tell(null), TOLD_MS);
  };
  return (
    <button
      type="button"
      class="small"
      aria-label={name === "Copy" ? `Copy ${text.slice(0, 60)}` : undefined}
      onClick={({ currentTarget }) => copy(currentTarget)}
    >
      {told ?? name}
    </button>
  );
}

/** Through a selection where the browser has no clipboard, as without TLS, or refuses it. */
async function isCopied(text: string, button: HTMLElement): Promise<boolean> {
  const written = navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  if (await written) return true;
  const area = document.createElement("textarea");
  area.value = text;
  // in the dialog, if the button is in one: nothing else can be selected then
  button.after(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  button.focus();
  return isDone;
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
      <Copy text={text} name="Copy" />
    </div>
  );
}

export function Refusal({ error }: { error: string | null }) {
  if (!error) return null;
  return (
    <p class="refusal" role="alert">
      {error}
    </p>
  );
}

/** What was done, where the screen would look as before. */
export function Told({ words }: { words: string | null }) {
  return <div role="status">{words && <p class="banner">{words}</p>}</div>;
}

export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, n) => (
        <span key={n} class={`w${n % 4}`} />
      ))}
    </div>
  );
}

/** What a screen shows when there is nothing yet: what it is for, and how to get something into it. */
export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function Card({
  title,
  actions,
  children,
}: {
  title?: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      {(title || actions) && (
        <header>
          {title && <h2>{title}</h2>}
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** Of how much is used: `limit` of null is no limit. */
export function Meter({
  name,
  used,
  limit,
  note,
}: {
  name: string;
  used: number;
  limit: number | null;
  note?: ComponentChildren;
}) {
  const share = limit === null || limit === 0 ? 0 : Math.min(1, used / limit);
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good";
  return (
    <div class="meter">
      <div class="meter-words">
        <span>{name}</span>
        <span class="figures">
          {used.toLocaleString("en")}
          <span class="muted">{limit === null ? ", no limit" : ` of ${limit.toLocaleString("en")}`}</span>
        </span>
      </div>
      <progress class={tone} max={1} value={share} aria-label={name} />
      {note && <p class="muted small-text">{note}</p>}
    </div>
  );
}

export type TabOf = { id: string; name: string };

export function Tabs({
  tabs,
  chosen,
  label,
  onChoose,
}: {
  tabs: readonly TabOf[];
  chosen: string;
  label: string;
  onChoose(id: string): void;
}) {
  const list = useRef<HTMLDivElement>(null);
  // on narrow screens the row scrolls, and the page itself stays where it is
  useEffect(() => {
    const [row, tab] = [list.current, list.current?.querySelector('[aria-selected="true"]')];
    if (!row || !tab) return;
    const [around, own] = [row.getBoundingClientRect(), tab.getBoundingClientRect()];
    row.scrollLeft += Math.max(0, own.right - around.right) + Math.min(0, own.left - around.left);
  }, [chosen]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(({ id }) => id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length] as TabOf;
    onChoose(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map(({ id, name }) => (
        <button
          key={id}
          type="button"
          role="tab"
          data-tab={id}
          aria-selected={id === chosen}
          tabIndex={id === chosen ? 0 : -1}
          onClick={() => onChoose(id)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

/** A name of DNS, which is broken behind its dots where it must be. */
export function Host({ name }: { name: string }) {
  const labels = name.split(/(?<=\.)/);
  return (
    <span class="host">{labels.flatMap((label, n) => (n === 0 ? [label] : [<wbr key={n} />, label]))}</span>
  );
}
