/** Fetching for screens: an answer, the refusal in words, and reading again. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type CallError, get, isSignedIn, randomKey } from "./call.ts";
import { serverNow } from "./clock.ts";
import { onNews } from "./live.ts";
import { fieldName } from "./words.ts";

const REFRESH_MS = 15_000;

export type Fetched<T> = {
  data: T | null;
  error: string | null;
  /** It was answered that there is no such thing. */
  isMissing: boolean;
  /** null where it was not answered, or overtaken by another question. */
  reload(): Promise<T | null>;
};

/** null: nothing to ask for yet. Read again when news come, and now and then, unless it never changes. */
export function useGet<T>(
  path: string | null,
  read: (path: string) => Promise<T> = get,
  isFixed = false,
): Fetched<T> {
  const [state, setState] = useState<Answer<T> & { path: string | null }>({
    path,
    ...{ data: null, error: null, isMissing: false },
  });
  const asked = useRef(path);
  asked.current = path;
  const [questions, answered] = [useRef(0), useRef(0)];
  const reload = useCallback(async () => {
    if (path === null || !isSignedIn()) return null;
    const question = ++questions.current;
    const answer = await read(path).then(
      (data): Answer<T> => ({ data, error: null, isMissing: false }),
      ({ message, status }: CallError): Answer<T> => ({
        ...{ data: null, error: message, isMissing: status === 404 },
      }),
    );
    // an answer that was overtaken by another question is of no use
    if (asked.current !== path || question < answered.current) return null;
    answered.current = question;
    setState((before) => ({
      path,
      ...answer,
      data: answer.data ?? (before.path === path ? before.data : null),
    }));
    return answer.data;
  }, [path, read]);
  useEffect(() => void reload(), [reload]);
  const isCurrent = state.path === path;
  useNews(isFixed && isCurrent && state.data !== null ? nothing : reload);
  const { data, error, isMissing } = state;
  return isCurrent
    ? { data, error, isMissing, reload }
    : { data: null, error: null, isMissing: false, reload };
}

type Answer<T> = Omit<Fetched<T>, "reload">;

async function nothing(): Promise<void> {}

/**
 * Reads when something happened in the workspace and every 15 seconds, while the page is looked at, and when
 * somebody looks at it again.
 */
export function useNews(read: () => Promise<unknown>): void {
  useEffect(() => {
    const readWhileSeen = whileSeen(read);
    const stop = onNews(oneByOne(readWhileSeen));
    const timer = setInterval(readWhileSeen, REFRESH_MS);
    document.addEventListener("visibilitychange", readWhileSeen);
    return () => {
      stop();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", readWhileSeen);
    };
  }, [read]);
}

/** Reads every so often, while the page is looked at; null: not now. */
export function useReadingEvery(ms: number | null, read: () => Promise<unknown>): void {
  useEffect(() => {
    if (ms === null) return;
    const timer = setInterval(oneByOne(whileSeen(read)), ms);
    return () => clearInterval(timer);
  }, [ms, read]);
}

function whileSeen(read: () => Promise<unknown>): () => Promise<void> {
  return async () => {
    if (document.visibilityState === "visible" && isSignedIn()) await read();
  };
}

/** While an answer is slow, whatever happens is one reason to read again: after it. */
function oneByOne(read: () => Promise<void>): () => void {
  let [isReading, isDue] = [false, false];
  return async () => {
    isDue = true;
    if (isReading) return;
    isReading = true;
    try {
      while (isDue) {
        isDue = false;
        await read();
      }
    } finally {
      isReading = false;
    }
  };
}

/** What a button does, with its refusal in words and whether it is under way. */
export function useAction<A extends unknown[]>(act: (...given: A) => Promise<unknown>) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useFocusAfter(isBusy);
  const run = async (...given: A): Promise<boolean> => {
    setBusy(true);
    setError(null);
    try {
      await act(...given);
      return true;
    } catch (refusal) {
      setError((refusal as Error).message);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { run, isBusy, error };
}

/**
 * The key of a request: the same one for the same request as long as its screen or dialog is there, so that
 * whoever repeats it after an answer was lost does it once.
 */
export function useOnceKeys(): (request: unknown) => string {
  const keys = useRef(new Map<string, string>());
  return (request) => {
    const text = JSON.stringify(request);
    const key = keys.current.get(text) ?? randomKey();
    keys.current.set(text, key);
    return key;
  };
}

const THEIRS_SHOWN_MAX = 80;

/**
 * What the fields of a form began with. Only what was changed of it is sent, since somebody else may have
 * changed the rest; and what they have changed of the same is told before it is replaced.
 */
export function useChanges<T extends Record<string, string>>(first: T, read: () => Promise<T>) {
  const [before, setBefore] = useState(first);
  const changesTo = async (given: T): Promise<Partial<T>> => {
    const changed = Object.keys(given).filter((name) => given[name] !== before[name]);
    if (changed.length === 0) return {};
    const now = await read();
    // what is there may be one's own, of which no answer came
    const theirs = changed.filter((name) => now[name] !== before[name] && now[name] !== given[name]);
    if (theirs.length === 0)
      return Object.fromEntries(changed.map((name) => [name, given[name]])) as Partial<T>;
    setBefore(now); // which is told
    const told = theirs.map((name) => `${fieldName(name)}: “${now[name]?.slice(0, THEIRS_SHOWN_MAX)}”`);
    throw new Error(
      `Nothing was saved: somebody else has changed this meanwhile. ${told.join(", ")}. Save again to replace it.`,
    );
  };
  return { before, changesTo };
}

/** A button that is off while it works loses the focus, and the keyboard its place: it has it again after. */
export function useFocusAfter(isBusy: boolean): void {
  useLayoutEffect(() => {
    if (!isBusy) return;
    const before = document.activeElement;
    return () => {
      if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
    };
  }, [isBusy]);
}

/** The time, for words such as "2 min ago". */
export function useNow(): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), 10_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
