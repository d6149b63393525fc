import { Badge, Empty, Screen, Time } from "../parts/bits.tsx";
import { List } from "../parts/list.tsx";
import { plain } from "../words.ts";

type Change = {
  id: string;
  at: string;
  account: { id: string; email: string } | null;
  action: string;
  subject: string | null;
  detail: unknown;
  status: number | null;
};

export function AuditScreen() {
  return (
    <Screen title="Audit log" intro="Every change that somebody made in the console.">
      <List<Change>
        label="changes"
        path="audit"
        columns={[
          {
            name: "Who",
            cell: ({ account }) => account?.email ?? "nobody",
            csv: ({ account }) => account?.email,
          },
          { name: "What", cell: ({ action }) => plain(action), csv: ({ action }) => action },
          {
            name: "Of",
            wide: true,
            cell: ({ subject }) => subject && <code>{subject}</code>,
            csv: ({ subject }) => subject,
          },
          {
            name: "Detail",
            wide: true,
            cell: ({ detail }) => <span class="reply">{say(detail)}</span>,
            csv: ({ detail }) => say(detail),
          },
          {
            name: "Answer",
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

function say(detail: unknown): string {
  if (detail === null || detail === undefined) return "";
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}
