/** Sign-in first, then the shell with a screen in it. */
import type { ComponentChildren } from "preact";
import {
  type Dispatch,
  type StateUpdater,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "preact/hooks";
import { actAs, type CallError, call, get, sessionToken } from "./call.ts";
import { draftsAreOf, forgetDrafts, hasDrafts, isHeldInDialog } from "./draft.ts";
import { keep, kept } from "./kept.ts";
import { listen } from "./live.ts";
import { Refusal, Skeleton } from "./parts/bits.tsx";
import { Boundary } from "./parts/boundary.tsx";
import { Confirm } from "./parts/form.tsx";
import { type Secret, ShownOnce } from "./parts/once.tsx";
import { refine, usePlace, WORKSPACE } from "./place.ts";
import { Door } from "./screens/door.tsx";
import { AcceptInvitation } from "./screens/invitation.tsx";
import { ResetPassword } from "./screens/reset.tsx";
import { SignIn } from "./screens/signin.tsx";
import { screenAt } from "./screens.tsx";
import { type Console, ConsoleContext, type Session, type Workspace } from "./session.ts";
import { Shell } from "./shell.tsx";

const LAST_WORKSPACE = "workspace";
/** A server that was away is asked so often whether it is back. */
const AGAIN_MS = 5_000;
const OUTDATED_EVERY_MS = 1_000;

export function App() {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [error, setError] = useState<string | null>(null);
  const { path, query } = usePlace();
  const workspace = session ? workspaceOf(session, query.get(WORKSPACE)) : null;
  const [fault, setFault] = useState<string | null>(null);
  const [hasEnded, setEnded] = useState(false);
  const [isAsked, ask] = useState(false);
  /** The token of the session that is being signed out of. */
  const leaving = useRef<string | null>(null);
  /** Whose page is there: nothing of it can be seen or used while they have to sign in again. */
  const shown = useRef<Session | null>(null);
  if (session) draftsAreOf(session.account.id);
  const onOutdated = useRenewal(setSession);
  // before any screen asks for anything
  actAs(
    {
      workspaceId: workspace?.id ?? null,
      accountId: session?.account.id ?? null,
      csrf: session?.csrf ?? "",
    },
    () => {
      // whoever signs out waits for that answer, while other calls may be refused already
      if (session?.csrf === leaving.current) return;
      // several calls may be refused at once, the later ones when nobody is signed in any more
      if (session) setEnded(true);
      // what was said of signing out was of the session that has ended
      ask(false);
      setFault(null);
      setSession(null);
    },
    onOutdated,
  );

  const renew = useCallback(async (given?: Session) => {
    if (given) return setSession(given);
    const token = sessionToken();
    // a late answer tells nothing of a session that began meanwhile
    const isLate = () => sessionToken() !== token;
    try {
      const now = await get<Session>("session");
      if (isLate()) return;
      setSession(now);
      setError(null);
    } catch (refusal) {
      if (isLate()) return;
      const isSignedOut = (refusal as CallError).status === 401;
      if (isSignedOut) setSession(null);
      setError(isSignedOut ? null : (refusal as Error).message);
    }
  }, []);
  const isUnknown = session === undefined;
  useEffect(() => {
    if (isUnknown) void renew();
  }, [isUnknown, renew]);
  useEffect(() => {
    // somebody went back to a page that the browser kept: the session may have ended, or be another's
    const shownAgain = ({ persisted }: PageTransitionEvent) => {
      if (persisted) setSession(undefined);
    };
    addEventListener("pageshow", shownAgain);
    return () => removeEventListener("pageshow", shownAgain);
  }, []);

  const workspaceId = workspace?.id;
  const accountId = session?.account.id;
  useEffect(() => {
    if (!workspaceId || !accountId) return;
    keep(LAST_WORKSPACE, workspaceId);
    return listen(accountId, workspaceId);
  }, [accountId, workspaceId]);

  const leave = async (ended: "session" | "sessions") => {
    leaving.current = session?.csrf ?? null;
    try {
      await call("DELETE", ended);
    } catch (refusal) {
      // it had ended already
      if ((refusal as CallError).status !== 401) {
        leaving.current = null;
        throw refusal;
      }
    }
    setFault(null);
    forgetDrafts();
    shown.current = null;
    setEnded(false);
    setSession(null);
  };
  const end = () => leave("session").catch(({ message }: Error) => setFault(message));
  const signOutEverywhere = () => leave("sessions");
  const signOut = async () => (hasDrafts() ? ask(true) : end());

  /** What stands before the page. */
  const door = () => {
    if (error) return <Away error={error} onAgain={renew} />;
    if (session === undefined) return <Skeleton lines={4} />;
    if (path === "/reset") return <ResetPassword />;
    if (path === "/invite")
      return <AcceptInvitation session={session} fault={fault} onAccepted={renew} onSignOut={end} />;
    return session === null ? <SignIn hasEnded={hasEnded} onSignedIn={renew} /> : null;
  };
  const isOpening = session === undefined && error === null;
  useLayoutEffect(() => {
    if (!isOpening) document.getElementById("opening")?.remove();
  }, [isOpening]);
  const before = door();
  if (!before) shown.current = session ?? null;
  else if (!isHeldInDialog()) shown.current = null;
  const of = shown.current;
  return (
    <>
      {of && (
        <Page
          // what is typed or shown once in a dialog is for the same person only
          key={of.account.id}
          session={of}
          workspace={workspaceOf(of, query.get(WORKSPACE))}
          isAway={before !== null}
          {...{ path, fault, renew, signOut, signOutEverywhere }}
        >
          {isAsked && (
            <Confirm title="Sign out?" button="Sign out" onConfirm={end} onClose={() => ask(false)}>
              What was typed and not saved is discarded.
            </Confirm>
          )}
        </Page>
      )}
      {before}
    </>
  );
}

type PageProps = Omit<Console, "choose" | "showOnce"> & {
  path: string;
  fault: string | null;
  children: ComponentChildren;
};

/** `children`: dialogs that are of no screen. */
function Page({ path, fault, children, ...parts }: PageProps) {
  const [secrets, setSecrets] = useState<readonly Secret[]>([]);
  const [secret] = secrets;
  const choose = (id: string) => refine({ [WORKSPACE]: id });
  const showOnce = (made: Secret) => setSecrets((before) => [...before, made]);
  return (
    <ConsoleContext.Provider value={{ ...parts, choose, showOnce }}>
      <div hidden={parts.isAway}>
        {/* another workspace is another page: nothing of the one before stays on it */}
        <Shell key={parts.workspace?.id} fault={fault}>
          <Boundary key={path}>{screenAt(path)}</Boundary>
        </Shell>
        {children}
        {/* of no screen, since it is there until somebody has it: to go back takes nothing of it */}
        {secret && (
          <ShownOnce key={secret.secret} {...secret} onClose={() => setSecrets((all) => all.slice(1))} />
        )}
      </div>
    </ConsoleContext.Provider>
  );
}

/**
 * Asks again who is signed in, as what is known of them may no longer hold: at once, and then once a second.
 * No refusal is left out, since the answer to an earlier one may be older than what it is about.
 */
function useRenewal(set: Dispatch<StateUpdater<Session | null | undefined>>): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const askedAt = useRef(0);
  return () => {
    if (timer.current !== null) return;
    const renew = () => {
      timer.current = null;
      askedAt.current = Date.now();
      const token = sessionToken();
      get<Session>("session").then(
        // whoever has signed out meanwhile stays out, also where somebody else has signed in
        (now) => set((before) => (before?.csrf === token ? now : before)),
        () => {}, // whoever was refused is told why already
      );
    };
    timer.current = setTimeout(renew, Math.max(0, askedAt.current + OUTDATED_EVERY_MS - Date.now()));
  };
}

function Away({ error, onAgain }: { error: string; onAgain(): Promise<void> }) {
  useEffect(() => {
    const timer = setInterval(() => void onAgain(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [onAgain]);
  return (
    <Door title="The console cannot be loaded">
      <Refusal error={error} />
      <p>It is tried again every five seconds.</p>
      <button type="button" onClick={() => void onAgain()}>
        Try now
      </button>
    </Door>
  );
}

function workspaceOf({ workspaces }: Session, named: string | null): Workspace | null {
  const find = (wanted: string | null) => workspaces.find(({ id }) => id === wanted);
  return find(named) ?? find(kept(LAST_WORKSPACE)) ?? workspaces[0] ?? null;
}
