import { useState } from "preact/hooks";
import { call, inquire } from "../call.ts";
import { hasDrafts } from "../draft.ts";
import { Badge, Card, Copy, Screen } from "../parts/bits.tsx";
import { Confirm, Do, Form, Text, textOf } from "../parts/form.tsx";
import { qrCode } from "../parts/qrcode.ts";
import { useConsole } from "../session.ts";
import { PASSWORD_HINT } from "./reset.tsx";

export function ProfileScreen() {
  const { session } = useConsole();
  return (
    <Screen title="Your account" intro={session.account.email}>
      <div class="halves">
        <div>
          <Password />
          <Sessions />
        </div>
        <SecondFactor />
      </div>
    </Screen>
  );
}

function Password() {
  const [changes, setChanges] = useState(0);
  const change = async (fields: FormData) => {
    await call("POST", "password", {
      password: fields.get("password"),
      new_password: fields.get("new_password"),
    });
    setChanges(changes + 1);
  };
  return (
    <Card title="Password">
      {changes > 0 && <p class="banner">The password is changed. All other sessions have ended.</p>}
      <Form key={changes} button="Change the password" onSubmit={change}>
        <Text label="Current password" name="password" type="password" autoComplete="current-password" />
        <Text
          label="New password"
          name="new_password"
          type="password"
          autoComplete="new-password"
          hint={PASSWORD_HINT}
        />
      </Form>
    </Card>
  );
}

type Secret = { secret: string; uri: string };

function SecondFactor() {
  const { session, renew } = useConsole();
  const [secret, setSecret] = useState<Secret | null>(null);
  const turnOn = async (fields: FormData) => {
    await call("POST", "totp", {
      secret: secret?.secret,
      code: textOf(fields, "code"),
      password: fields.get("password"),
    });
    setSecret(null);
    await renew();
  };
  const turnOff = async (fields: FormData) => {
    await call("DELETE", "totp", { code: textOf(fields, "code"), password: fields.get("password") });
    await renew();
  };
  const proof = (
    <>
      <Text
        label="Code"
        name="code"
        autoComplete="one-time-code"
        hint="The six digits that your app shows now."
      />
      <Text label="Your password" name="password" type="password" autoComplete="current-password" />
    </>
  );
  if (session.account.has_totp)
    return (
      <Card title="Second factor">
        <p>
          <Badge state="on" tone="good" /> Signing in asks for a code.
        </p>
        <Form button="Turn it off" onSubmit={turnOff}>
          {proof}
        </Form>
      </Card>
    );
  if (!secret)
    return (
      <Card title="Second factor">
        <p>Signing in then also asks for a code, which an app on your phone shows.</p>
        <Do name="Turn it on" act={async () => setSecret(await inquire<Secret>("totp/secret"))} />
      </Card>
    );
  return (
    <Card title="Second factor">
      <ol>
        <li>
          Scan this code with your app, <a href={secret.uri}>open the app</a>, or enter the secret in it.
        </li>
        <li>Write down the secret, for the day when the phone is lost.</li>
      </ol>
      <QrCode text={secret.uri} label="The secret as a QR code" />
      <p class="copied">
        <code>{secret.secret}</code> <Copy text={secret.secret} />
      </p>
      <Form button="Turn it on" onSubmit={turnOn}>
        {proof}
      </Form>
    </Card>
  );
}

const QUIET_MODULES = 4;

/** Dark on light in both themes: some readers know no other. */
function QrCode({ text, label }: { text: string; label: string }) {
  const rows = qrCode(text);
  const size = rows.length + 2 * QUIET_MODULES;
  const path = rows
    .flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")))
    .join("");
  return (
    <svg
      class="qr-code"
      role="img"
      aria-label={label}
      viewBox={`${-QUIET_MODULES} ${-QUIET_MODULES} ${size} ${size}`}
    >
      <path d={path} />
    </svg>
  );
}

function Sessions() {
  const { signOutEverywhere } = useConsole();
  const [isAsked, setAsked] = useState(false);
  return (
    <Card title="Sessions">
      <p>Ends every session of this account, on every machine.</p>
      <button type="button" onClick={() => setAsked(true)}>
        Sign out everywhere
      </button>
      {isAsked && (
        <Confirm
          title="Sign out everywhere?"
          button="Sign out everywhere"
          onConfirm={signOutEverywhere}
          onClose={() => setAsked(false)}
        >
          This session ends, too.{hasDrafts() && " What was typed and not saved is discarded."}
        </Confirm>
      )}
    </Card>
  );
}
