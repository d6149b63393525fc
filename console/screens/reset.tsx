import { useState } from "preact/hooks";
import { call } from "../call.ts";
import { Form, Text } from "../parts/form.tsx";
import { Door } from "./door.tsx";

export const PASSWORD_HINT = "12 to 200 characters.";

/** What the mail of a reset links to. */
export function ResetPassword() {
  const [token] = useState(() => location.hash.slice(1));
  const [isDone, setDone] = useState(false);
  if (isDone)
    return (
      <Door title="The password is changed">
        <p>You are signed out everywhere.</p>
        <a href="/console/emails" onClick={() => location.assign("/console/emails")}>
          Sign in
        </a>
      </Door>
    );
  const reset = async (fields: FormData) => {
    await call("POST", "reset/confirm", { token, password: String(fields.get("password")) });
    setDone(true);
  };
  return (
    <Door title="Choose a new password">
      <Form button="Change the password" onSubmit={reset}>
        <Text
          label="New password"
          name="password"
          type="password"
          autoComplete="new-password"
          hint={PASSWORD_HINT}
        />
      </Form>
      {/* where another link is asked for, if this one works no more */}
      <a href="/console/emails">Back to sign-in</a>
    </Door>
  );
}
