import { useState } from "preact/hooks";
import { type CallError, call, inquire } from "../call.ts";
import { Form, Text, textOf } from "../parts/form.tsx";
import type { Session } from "../session.ts";
import { Door } from "./door.tsx";

/** `hasEnded`: somebody was signed in on this page, and did not sign out here. */
export function SignIn({
  hasEnded = false,
  onSignedIn,
}: {
  hasEnded?: boolean;
  onSignedIn(session: Session): Promise<void>;
}) {
  const [asksCode, setAsksCode] = useState(false);
  const [isForgotten, setForgotten] = useState(false);
  if (isForgotten) return <Forgotten onBack={() => setForgotten(false)} />;
  const signIn = async (fields: FormData) => {
    const code = textOf(fields, "code");
    const given = { email: textOf(fields, "email"), password: String(fields.get("password") ?? "") };
    try {
      await onSignedIn(await inquire<Session>("session", { ...given, ...(code !== "" && { code }) }));
    } catch (refusal) {
      if ((refusal as CallError).code === "code_required") setAsksCode(true);
      throw refusal;
    }
  };
  return (
    <Door title="Sign in">
      {hasEnded && (
        <p class="banner" role="status">
          Your session has ended. Sign in to go on where you were.
        </p>
      )}
      <Form
        button="Sign in"
        onSubmit={signIn}
        secondary={() => (
          <button type="button" class="plain" onClick={() => setForgotten(true)}>
            Forgot the password?
          </button>
        )}
      >
        <Text label="Email" name="email" type="email" autoComplete="username" />
        <Text label="Password" name="password" type="password" autoComplete="current-password" />
        {asksCode && (
          <Text
            label="Code"
            name="code"
            autoComplete="one-time-code"
            hint="The six digits that your app shows now. If the phone is lost, enter the secret that you wrote down into another app, or ask your operator to turn codes off."
          />
        )}
      </Form>
    </Door>
  );
}

function Forgotten({ onBack }: { onBack(): void }) {
  const [isAsked, setAsked] = useState(false);
  const ask = async (fields: FormData) => {
    await call("POST", "reset", { email: textOf(fields, "email") });
    setAsked(true);
  };
  const back = (
    <button type="button" class="plain" onClick={onBack}>
      Back to sign-in
    </button>
  );
  if (isAsked)
    return (
      <Door title="Check your mail">
        <p>
          If this address has an account, a mail with a link is on its way to it. The link works for an hour.
        </p>
        <p>If none comes within some minutes, ask your operator for a new password.</p>
        {back}
      </Door>
    );
  return (
    <Door title="Reset your password">
      <Form button="Send the link" onSubmit={ask} secondary={() => back}>
        <Text label="Email" name="email" type="email" autoComplete="username" />
      </Form>
    </Door>
  );
}
