/** Who is signed in, and in which workspace. */
import { createContext } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";
import { askWhoIsSignedIn } from "./call.ts";
import type { Secret } from "./parts/once.tsx";

export type Role = "owner" | "admin" | "member";
export type Workspace = { id: string; name: string; plan: string; role: Role; is_suspended: boolean };
export type Session = {
  account: { id: string; email: string; is_operator: boolean; has_totp: boolean };
  workspaces: Workspace[];
  csrf: string;
  is_operator: boolean;
  development: boolean;
  base_url: string;
  console_url: string;
  /** Of the demo workspace, in development. */
  demo_key: string | null;
};

/** Its name, and where another one has the same name the end of its id. */
export function apart({ id, name }: Workspace, all: readonly Workspace[]): string {
  return all.some((other) => other.name === name && other.id !== id) ? `${name} (…${id.slice(-6)})` : name;
}

export type Console = {
  session: Session;
  workspace: Workspace | null;
  /** The session has ended, and the page waits behind the sign-in. */
  isAway: boolean;
  choose(workspaceId: string): void;
  /** Takes what a call answered, or asks again. */
  renew(session?: Session): Promise<void>;
  signOut(): Promise<void>;
  /** Ends every session of the account, without a question. A refusal is thrown. */
  signOutEverywhere(): Promise<void>;
  /** What nobody can see again, on whatever screen they are by then. */
  showOnce(secret: Secret): void;
};

export const ConsoleContext = createContext<Console | null>(null);

export function useConsole(): Console {
  return useContext(ConsoleContext) as Console;
}

/**
 * Owners and admins change what members may only read. `answer`: it says the same; where that is news, the
 * role is asked for again.
 */
export function useMayManage(answer?: { may_manage: boolean } | null): boolean {
  const { workspace } = useConsole();
  const mayManage = workspace?.role === "owner" || workspace?.role === "admin";
  const known = useRef(mayManage);
  known.current = mayManage;
  useEffect(() => {
    if (answer && answer.may_manage !== known.current) askWhoIsSignedIn();
  }, [answer]);
  return mayManage;
}
