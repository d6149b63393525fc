import { Badge, Empty, Screen, Time } from "../parts/bits.tsx";
import { isIn, List } from "../parts/list.tsx";

type Change = {
  id: string;
  at: string;
  account: { id: string; email: string } | null;
  action: string;
  subject: string | null;
  detail: unknown;
  status: number | null;
};

/** The calls that matter most; others are shown as they were made. */
const WORDS: Record<string, string> = {
  "POST session": "signed in",
  "DELETE session": "signed out",
  "DELETE sessions": "signed out everywhere",
  "POST reset/confirm": "chose a new password by mail",
  "POST keys": "created a key",
  "DELETE keys/{id}": "revoked a key",
  "POST members": "invited somebody",
  "PATCH members/{id}": "changed a role",
  "DELETE members/{id}": "removed a member",
  "DELETE invitations/{id}": "withdrew an invitation",
  "POST invitation/accept": "joined",
  "POST password": "changed the password",
  "POST totp": "turned the second factor on",
  "DELETE totp": "turned the second factor off",
};
const TELLING = ["name", "email", "role", "destination", "domain", "endpoint", "subject", "reason"];

export function AuditScreen() {
  return (
    <Screen title="Audit log" intro="Every change that somebody made in the console.">
      <List<Change>
        label="changes"
        path="audit"
        rowFilters={[
          { name: "who", label: "By", holds: ({ account }, value) => isIn(value, account?.email) },
          {
            name: "what",
            label: "Find",
            holds: ({ action, subject, detail }, value) =>
              isIn(value, WORDS[action], action, subject, say(detail)),
          },
        ]}
        columns={[
          {
            name: "Who",
            wide: true,
            cell: ({ account }) => <Who account={account} />,
            csv: ({ account }) => account?.email,
          },
          {
            name: "What",
            cell: ({ action, account }) => (
              <>
                {WORDS[action] ?? action}
                <span class="narrow muted small-text">
                  <Who account={account} />
                </span>
              </>
            ),
            csv: ({ action }) => action,
          },
          {
            name: "Id",
            wide: true,
            cell: ({ subject }) =>
              subject && (
                <code class="ellipsis" title={subject}>
                  {subject.slice(-12)}
                </code>
              ),
            csv: ({ subject }) => subject,
          },
          {
            name: "Detail",
            wide: true,
            cell: ({ detail }) => <span class="reply">{shortly(detail)}</span>,
            csv: ({ detail }) => say(detail),
          },
          {
            name: "Status",
            cell: ({ status }) => (
              <Badge
                state="answer"
                words={status === null ? "unknown" : String(status)}
                tone={status !== null && status < 400 ? "good" : "bad"}
              />
            ),
            csv: ({ status }) => status,
          },
          { name: "When", numeric: true, cell: ({ at }) => <Time at={at} />, csv: ({ at }) => at },
        ]}
        empty={
          <Empty title="Nobody has changed anything yet">
            <p>Creating a key, inviting somebody or undoing a suppression shows here, with who did it.</p>
          </Empty>
        }
      />
    </Screen>
  );
}

function Who({ account }: Pick<Change, "account">) {
  return <span class="ellipsis">{account?.email ?? "nobody"}</span>;
}

function say(detail: unknown): string {
  if (detail === null || detail === undefined) return "";
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

/** The fields that name what was changed; the export has all of them. */
function shortly(detail: unknown): string {
  if (detail === null || typeof detail !== "object") return say(detail);
  return TELLING.flatMap((name) => {
    const value = (detail as Record<string, unknown>)[name];
    return typeof value === "string" ? [value] : [];
  }).join(", ");
}
