import { useEffect, useState } from "preact/hooks";
import { call } from "../call.ts";
import { Refusal, Skeleton } from "../parts/bits.tsx";
import { Form, Text } from "../parts/form.tsx";
import { go } from "../place.ts";
import type { Session } from "../session.ts";
import { Door } from "./door.tsx";
import { PASSWORD_HINT } from "./reset.tsx";
import { SignIn } from "./signin.tsx";

type Invitation = { email: string; role: string; workspace: { name: string }; has_account: boolean };

/** What the link of an invitation opens. */
export function AcceptInvitation({
  session,
  onAccepted,
}: {
  session: Session | null;
  onAccepted(session?: Session): Promise<void>;
}) {
  const [token] = useState(() => location.hash.slice(1));
  const [invitation, setInvitation] = useState<Invitation | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    call<Invitation>("POST", "invitation", { token }).then(setInvitation, ({ message }: Error) =>
      setError(message),
    );
  }, [token]);
  if (error)
    return (
      <Door title="This invitation does not work">
        <Refusal error={error} />
      </Door>
    );
  if (!invitation)
    return (
      <Door title="Invitation">
        <Skeleton lines={3} />
      </Door>
    );
  if (invitation.has_account && !session) return <SignIn onSignedIn={onAccepted} />;
  const accept = async (fields: FormData) => {
    const password = invitation.has_account ? undefined : String(fields.get("password"));
    await onAccepted(await call<Session>("POST", "invitation/accept", { token, password }));
    go("/emails", { replace: true });
  };
  return (
    <Door title={`Join ${invitation.workspace.name}`}>
      <p>
        {invitation.email} is invited as {invitation.role}.
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
