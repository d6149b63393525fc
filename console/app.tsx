/** Sign-in first, then the shell with a screen in it. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { actAs, type CallError, call, get } from "./call.ts";
import { listen } from "./live.ts";
import { Refusal, Skeleton } from "./parts/bits.tsx";
import { refine, usePlace, WORKSPACE } from "./place.ts";
import { AcceptInvitation } from "./screens/invitation.tsx";
import { ResetPassword } from "./screens/reset.tsx";
import { SignIn } from "./screens/signin.tsx";
import { screenAt } from "./screens.tsx";
import { ConsoleContext, type Session, type Workspace } from "./session.ts";
import { Shell } from "./shell.tsx";

const LAST_WORKSPACE = "workspace";

export function App() {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [error, setError] = useState<string | null>(null);
  const { path, query } = usePlace();
  const workspace = session ? workspaceOf(session, query.get(WORKSPACE)) : null;
  // before any screen asks for anything
  actAs({ workspaceId: workspace?.id ?? null, csrf: session?.csrf ?? "" }, () => setSession(null));

  const renew = useCallback(async (given?: Session) => {
    if (given) return setSession(given);
    try {
      setSession(await get<Session>("session"));
    } catch (refusal) {
      if ((refusal as CallError).status === 401) setSession(null);
      else setError((refusal as Error).message);
    }
  }, []);
  useEffect(() => void renew(), [renew]);

  const workspaceId = workspace?.id;
  useEffect(() => {
    if (!workspaceId) return;
    localStorage.setItem(LAST_WORKSPACE, workspaceId);
    return listen(workspaceId);
  }, [workspaceId]);

  if (error) return <Refusal error={error} />;
  if (session === undefined) return <Skeleton lines={4} />;
  if (path === "/reset") return <ResetPassword />;
  if (path === "/invite") return <AcceptInvitation session={session} onAccepted={renew} />;
  if (session === null) return <SignIn onSignedIn={renew} />;
  const signOut = async () => {
    await call("DELETE", "session");
    setSession(null);
  };
  const choose = (id: string) => refine({ [WORKSPACE]: id });
  return (
    <ConsoleContext.Provider value={{ session, workspace, choose, renew, signOut }}>
      {/* another workspace is another page: nothing of the one before stays on it */}
      <Shell key={workspaceId}>{screenAt(path)}</Shell>
    </ConsoleContext.Provider>
  );
}

function workspaceOf({ workspaces }: Session, named: string | null): Workspace | null {
  const find = (wanted: string | null) => workspaces.find(({ id }) => id === wanted);
  return find(named) ?? find(localStorage.getItem(LAST_WORKSPACE)) ?? workspaces[0] ?? null;
}
