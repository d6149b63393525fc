/** The command palette: go to a screen, find mail, switch the workspace. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { BASE, go } from "./place.ts";
import { apart, type Console, useConsole } from "./session.ts";
import { shownOf } from "./shell.tsx";
import { applyTheme, nextTheme } from "./theme.ts";

/** Of an e-mail, by itself or as the Message-ID that receivers name. */
const EMAIL_ID = /^<?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?:@[^@>]*)?>?$/i;
type Command = { name: string; hint: string; act(): void };

export function Palette({ onClose }: { onClose(): void }) {
  const parts = useConsole();
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  // before the next key: it is already part of what is looked for
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const found = commandsFor(text.trim(), parts);
  useLayoutEffect(() => document.getElementById(`command-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const run = (command: Command | undefined) => {
    if (!command) return;
    // gives the focus back to who had it, and tells onClose
    dialog.current?.close();
    command.act();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((at + step + found.length) % Math.max(1, found.length));
    }
    // Enter may end a word of an input method
    if (event.key === "Enter" && !event.isComposing) run(found[at]);
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Command palette" onClose={onClose} onKeyDown={onKeyDown}>
      <input
        type="text"
        role="combobox"
        aria-label="Go to a screen, or find mail"
        aria-expanded="true"
        aria-controls="commands"
        aria-activedescendant={found[at] ? `command-${at}` : undefined}
        placeholder="A screen, an address or a Message-ID"
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          setAt(0);
        }}
      />
      <div id="commands" role="listbox" aria-label="Commands">
        {found.map((command, n) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          <div
            key={command.name}
            id={`command-${n}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === at}
            onClick={() => run(command)}
          >
            <span>{command.name}</span>
            <span class="muted">{command.hint}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p class="muted">Nothing is called that.</p>}
    </dialog>
  );
}

function commandsFor(text: string, parts: Console): Command[] {
  const words = text.toLowerCase().split(/\s+/);
  const matching = [...screens(parts), ...actions(parts)].filter(({ name, hint }) =>
    words.every((word) => `${name} ${hint}`.toLowerCase().includes(word)),
  );
  return [...matching, ...searches(text)];
}

function searches(text: string): Command[] {
  const to = (name: string, path: string): Command => ({ name, hint: "find", act: () => go(path) });
  const id = EMAIL_ID.exec(text)?.[1]?.toLowerCase();
  if (id !== undefined) return [to(`Open the e-mail ${id}`, `/emails/${id}`)];
  if (!text.includes("@"))
    return text.length < 3
      ? []
      : [to(`E-mails about “${text}”`, `/emails?${new URLSearchParams({ subject: text })}`)];
  return [to(`E-mails to ${text}`, `/emails?${new URLSearchParams({ to: text })}`)];
}

function screens(parts: Console): Command[] {
  return shownOf(parts).flatMap(({ name: hint, items }) =>
    items.map(({ name, path }) => ({ name, hint, act: () => go(path) })),
  );
}

function actions({ session: { workspaces }, choose, signOut }: Console): Command[] {
  return [
    { name: "Create an API key", hint: "action", act: () => go("/keys?new=1") },
    { name: "Simulate caps", hint: "action", act: () => go("/caps/simulator") },
    { name: "Change the theme", hint: "action", act: () => applyTheme(nextTheme()) },
    { name: "Your account", hint: "action", act: () => go("/profile") },
    {
      name: "Reference of the API",
      hint: "action",
      act: () => location.assign(BASE.replace("console", "docs")),
    },
    { name: "Sign out", hint: "action", act: () => void signOut() },
    ...(workspaces.length < 2
      ? []
      : workspaces.map((workspace) => ({
          name: `Switch to ${apart(workspace, workspaces)}`,
          hint: "workspace",
          act: () => choose(workspace.id),
        }))),
  ];
}
