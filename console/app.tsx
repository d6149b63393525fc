/** Sign-in first, then the shell with a screen in it. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { actAs, type CallError, call, get } from "./call.ts";
import { draftsAreOf, forgetDrafts, hasDrafts } from "./draft.ts";
import { keep, kept } from "./kept.ts";
import { listen } from "./live.ts";
import { Refusal, Skeleton } from "./parts/bits.tsx";
import { Boundary } from "./parts/boundary.tsx";
import { Confirm } from "./parts/form.tsx";
import { refine, usePlace, WORKSPACE } from "./place.ts";
import { Door } from "./screens/door.tsx";
import { AcceptInvitation } from "./screens/invitation.tsx";
import { ResetPassword } from "./screens/reset.tsx";
import { SignIn } from "./screens/signin.tsx";
import { screenAt } from "./screens.tsx";
import { ConsoleContext, type Session, type Workspace } from "./session.ts";
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
  const askedAt = useRef(0);
  /** The token of the session that is being signed out of. */
  const leaving = useRef<string | null>(null);
  const onOutdated = () => {
    if (!session || Date.now() - askedAt.current < OUTDATED_EVERY_MS) return;
    askedAt.current = Date.now();
    get<Session>("session").then(setSession, () => {}); // whoever was refused is told why already
  };
  if (session) draftsAreOf(session.account.id);
  // before any screen asks for anything
  actAs(
    { workspaceId: workspace?.id ?? null, csrf: session?.csrf ?? "" },
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
    try {
      setSession(await get<Session>("session"));
      setError(null);
    } catch (refusal) {
      const isSignedOut = (refusal as CallError).status === 401;
      if (isSignedOut) setSession(null);
      setError(isSignedOut ? null : (refusal as Error).message);
    }
  }, []);
  useEffect(() => void renew(), [renew]);
  useEffect(() => {
    const shown = ({ persisted }: PageTransitionEvent) => {
      if (!persisted) return;
      // somebody went back to a page that the browser kept: the session may have ended, or be another's
      setSession(undefined);
      void renew();
    };
    addEventListener("pageshow", shown);
    return () => removeEventListener("pageshow", shown);
  }, [renew]);

  const workspaceId = workspace?.id;
  useEffect(() => {
    if (!workspaceId) return;
    keep(LAST_WORKSPACE, workspaceId);
    return listen(workspaceId);
  }, [workspaceId]);

  if (error) return <Away error={error} onAgain={renew} />;
  if (session === undefined) return <Skeleton lines={4} />;
  if (path === "/reset") return <ResetPassword />;
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
    setEnded(false);
    setSession(null);
  };
  const end = () => leave("session").catch(({ message }: Error) => setFault(message));
  const signOutEverywhere = () => leave("sessions");
  const signOut = async () => (hasDrafts() ? ask(true) : end());
  if (path === "/invite")
    return <AcceptInvitation session={session} fault={fault} onAccepted={renew} onSignOut={end} />;
  if (session === null) return <SignIn hasEnded={hasEnded} onSignedIn={renew} />;
  const choose = (id: string) => refine({ [WORKSPACE]: id });
  return (
    <ConsoleContext.Provider value={{ session, workspace, choose, renew, signOut, signOutEverywhere }}>
      {/* another workspace is another page: nothing of the one before stays on it */}
      <Shell key={workspaceId} fault={fault}>
        <Boundary key={path}>{screenAt(path)}</Boundary>
      </Shell>
      {isAsked && (
        <Confirm title="Sign out?" button="Sign out" onConfirm={end} onClose={() => ask(false)}>
          What was typed and not saved is discarded.
        </Confirm>
      )}
    </ConsoleContext.Provider>
  );
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
