import { useEffect, useState } from "preact/hooks";
import { call, inquire, withQuery } from "../call.ts";
import { Refusal, Skeleton } from "../parts/bits.tsx";
import { Form, Text } from "../parts/form.tsx";
import { go, WORKSPACE } from "../place.ts";
import type { Session } from "../session.ts";
import { Door } from "./door.tsx";
import { PASSWORD_HINT } from "./reset.tsx";
import { SignIn } from "./signin.tsx";

type Invitation = { email: string; role: string; workspace: { name: string }; has_account: boolean };

/** What the link of an invitation opens. */
export function AcceptInvitation({
  session,
  fault,
  onAccepted,
  onSignOut,
}: {
  session: Session | null;
  /** Why signing out did not work. */
  fault: string | null;
  onAccepted(session?: Session): Promise<void>;
  onSignOut(): Promise<void>;
}) {
  const [token] = useState(() => location.hash.slice(1));
  const [invitation, setInvitation] = useState<Invitation | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    inquire<Invitation>("invitation", { token }).then(setInvitation, ({ message }: Error) =>
      setError(message),
    );
  }, [token]);
  if (error)
    return (
      <Door title="This invitation does not work">
        <Refusal error={error} />
        <p>
          If you have joined already, <a href="/console/emails">go to the console</a>.
        </p>
      </Door>
    );
  if (!invitation)
    return (
      <Door title="Invitation">
        <Skeleton lines={3} />
      </Door>
    );
  if (invitation.has_account && !session) return <SignIn onSignedIn={onAccepted} />;
  const others = session && !isSame(session.account.email, invitation.email) ? session.account.email : null;
  if (invitation.has_account && others !== null)
    return (
      <Door title={`Join ${invitation.workspace.name}`}>
        <p>
          This invitation is for {invitation.email}, and you are signed in as {others}.
        </p>
        <Form button="Sign out, and sign in again" onSubmit={onSignOut}>
          <Refusal error={fault} />
        </Form>
      </Door>
    );
  const accept = async (fields: FormData) => {
    const password = invitation.has_account ? undefined : String(fields.get("password"));
    const joined = await call<Session>("POST", "invitation/accept", { token, password });
    const before = new Set(session?.workspaces.map(({ id }) => id));
    const added = joined.workspaces.find(({ id }) => !before.has(id)) ?? joined.workspaces[0];
    await onAccepted(joined);
    go(withQuery("/emails", { [WORKSPACE]: added?.id }), { replace: true });
  };
  return (
    <Door title={`Join ${invitation.workspace.name}`}>
      <p>
        {invitation.email} is invited as {invitation.role}.{" "}
        {others !== null && `You are signed in as ${others}: joining ends that session.`}
      </p>
      <Form button="Join" onSubmit={accept}>
        {!invitation.has_account && (
          <Text
            label="Password"
            name="password"
            type="password"
            autoComplete="new-password"
            hint={PASSWORD_HINT}
          />
        )}
      </Form>
    </Door>
  );
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
