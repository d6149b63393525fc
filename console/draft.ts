/**
 * What somebody has typed and not saved, for as long as the page is there: another screen, or signing in
 * again after the session has ended, takes nothing of it. To leave the page the browser asks first. What is
 * typed in a dialog goes with it: it is asked for before somebody leaves, or goes back, and the dialog waits
 * behind the sign-in for whoever signs in again.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { isSignedIn } from "./call.ts";

/** `base` is what the server had when the first letter was typed, `sent` what it was told to save last. */
type Typed = { text: string; base: string; sent?: string };
const ofAccounts = new Map<string, Map<string, Typed>>();
/** Of whoever is signed in, or was before the session ended. */
let drafts = new Map<string, Typed>();

/** A dialog goes with its screen, and with it what is typed or shown there. */
export type Holding = { isHeld(): boolean; ask(): void };
const dialogs = new Set<Holding>();

/** Until the answer is called. */
export function holdDialog(dialog: Holding): () => void {
  dialogs.add(dialog);
  return () => void dialogs.delete(dialog);
}

function heldDialogs(): Holding[] {
  return [...dialogs].filter(({ isHeld }) => isHeld());
}

/** Whether something would be lost with a dialog that is open. */
export function isHeldInDialog(): boolean {
  return heldDialogs().length > 0;
}

addEventListener("beforeunload", (event) => {
  if (drafts.size > 0 || isHeldInDialog()) event.preventDefault();
});
// not every browser has it, and none lets a page keep somebody who goes back twice
if ("navigation" in window)
  navigation.addEventListener("navigate", (event) => {
    if (event.navigationType !== "traverse" || !event.cancelable) return;
    const held = heldDialogs();
    if (held.length === 0) return;
    event.preventDefault();
    // behind the sign-in nobody could answer
    if (isSignedIn()) for (const { ask } of held) ask();
  });

/** The next person at this page starts with what is saved. */
export function draftsAreOf(accountId: string): void {
  drafts = ofAccounts.get(accountId) ?? new Map();
  ofAccounts.set(accountId, drafts);
}

export type Draft = {
  text: string;
  isChanged: boolean;
  /** Something else was saved meanwhile, which saving this would replace. */
  isOvertaken: boolean;
  /** Whether to save would replace what nobody has seen here. `now`: what the server has of it. */
  isUnseen(now: string): boolean;
  type(text: string): void;
  /** About to be saved: the answer may be lost. */
  saving(): void;
  /**
   * After it was saved as `text`: what was typed since then stays, and so does all of it until the server has
   * shown what it `keeps` now.
   */
  saved(text: string, keeps: string | null): void;
  discard(): void;
};

/** `key` names what is edited, and `kept` is what the server has of it. */
export function useDraft(key: string, kept: string): Draft {
  const [, draw] = useState({});
  const put = (typed: Typed | null) => {
    if (typed) drafts.set(key, typed);
    else drafts.delete(key);
    draw({});
  };
  const draft = drafts.get(key);
  const text = draft?.text ?? kept;
  const isChanged = text !== kept;
  // what was typed has been saved, although nobody may have been told: who sees that may leave at once
  useLayoutEffect(() => {
    if (drafts.get(key)?.text === kept) drafts.delete(key);
  }, [key, kept]);
  return {
    text,
    isChanged,
    isOvertaken: isChanged && draft?.base !== kept && draft?.sent !== kept,
    isUnseen: (now) => isChanged && now !== kept && now !== text && now !== draft?.sent,
    type(typed) {
      put(typed === kept ? null : { base: kept, ...drafts.get(key), text: typed });
    },
    saving() {
      const typed = drafts.get(key);
      if (typed) put({ ...typed, sent: typed.text });
    },
    saved(sent, keeps) {
      const typed = drafts.get(key);
      if (!typed) return;
      const isShown = keeps !== null && typed.text === sent;
      put(isShown ? null : { text: typed.text, base: keeps ?? sent });
    },
    discard() {
      put(null);
    },
  };
}

export function hasDrafts(): boolean {
  return drafts.size > 0;
}

/** Whether there is one of any of these. */
export function hasDraft(...keys: readonly string[]): boolean {
  return keys.some((key) => drafts.has(key));
}

/** What was typed and not saved of these. */
export function draftTexts(...keys: readonly string[]): string[] {
  return keys.flatMap((key) => drafts.get(key)?.text ?? []);
}

/** Of what was deleted or replaced. */
export function dropDrafts(...keys: readonly string[]): void {
  for (const key of keys) drafts.delete(key);
}

/** Of whoever is signed in: somebody else at this page, whose session has ended, can come back to theirs. */
export function forgetDrafts(): void {
  drafts.clear();
}
