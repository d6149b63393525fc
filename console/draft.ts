/**
 * What somebody has typed and not saved, for as long as the page is there: another screen, or signing in
 * again after the session has ended, takes nothing of it. To leave the page the browser asks first.
 */
import { useState } from "preact/hooks";
import { useConsole } from "./session.ts";

const drafts = new Map<string, string>();
addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

export type Draft = {
  text: string;
  isChanged: boolean;
  type(text: string): void;
  /** After it was saved as `text`: what was typed since then stays. */
  saved(text: string): void;
  discard(): void;
};

/** `key` names what is edited, and `kept` is what the server has of it. */
export function useDraft(key: string, kept: string): Draft {
  const name = useDraftName(key);
  const [, draw] = useState({});
  const drop = () => {
    drafts.delete(name);
    draw({});
  };
  const text = drafts.get(name) ?? kept;
  return {
    text,
    isChanged: text !== kept,
    type(typed) {
      if (typed === kept) return drop();
      drafts.set(name, typed);
      draw({});
    },
    saved(sent) {
      if (drafts.get(name) === sent) drop();
    },
    discard: drop,
  };
}

/** Whether there is one of any of these. */
export function useHasDraft(...keys: readonly string[]): boolean {
  const names = keys.map(useDraftName);
  return names.some((name) => drafts.has(name));
}

/** Of this person: the next one at this page starts with what is saved. */
function useDraftName(key: string): string {
  const { session } = useConsole();
  return `${session.account.id} ${key}`;
}

export function forgetDrafts(): void {
  drafts.clear();
}
