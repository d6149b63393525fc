import { ENDINGS, OPEN_STATUSES } from "../../src/rules/email.ts";
import { get } from "../call.ts";
import { Badge, Code, Empty, Screen } from "../parts/bits.tsx";
import { type Filter, List } from "../parts/list.tsx";
import { type Column, timeColumn } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import { useConsole } from "../session.ts";
import type { EmailItem, ListOf } from "../shapes.ts";
import { withFullTimes } from "../words.ts";

const STATUSES = [...OPEN_STATUSES, ...ENDINGS.map(([, status]) => status)];
const FILTERS: readonly Filter[] = [
  { name: "status", label: "Status", options: STATUSES },
  { name: "to", label: "To", placeholder: "address" },
  { name: "subject", label: "Subject", placeholder: "words" },
  { name: "tag", label: "Tag", placeholder: "name:value" },
  { name: "api_key_id", label: "Key", placeholder: "id of a key", suggestions: newestKeys },
  { name: "stream", label: "Stream", placeholder: "transactional" },
  { name: "since", label: "Since", day: "first moment" },
  { name: "until", label: "Until", day: "last moment" },
];

const COLUMNS: readonly Column<EmailItem>[] = [
  { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
  {
    name: "To",
    shrinks: true,
    cell: (email) => (
      <>
        <a class="row-link ellipsis" href={`${BASE}/emails/${email.id}`}>
          {email.to[0]}
          {email.to.length > 1 && <span class="muted"> +{email.to.length - 1}</span>}
        </a>
        <span class="narrow">
          <Subject email={email} />
        </span>
      </>
    ),
    csv: ({ to }) => to.join(" "),
  },
  {
    name: "Subject",
    wide: true,
    shrinks: true,
    cell: (email) => <Subject email={email} />,
    csv: ({ subject }) => subject,
  },
  timeColumn("Accepted", ({ created_at }) => created_at),
];
const EXPORTED: readonly Column<EmailItem>[] = [
  ...COLUMNS,
  { name: "From", cell: () => null, csv: ({ from }) => from },
  { name: "Id", wide: true, cell: () => null, csv: ({ id }) => id },
];

function Subject({ email: { subject, reason } }: { email: EmailItem }) {
  return (
    <>
      <span class="ellipsis" dir="auto">
        {subject ?? <em class="muted">no subject</em>}
      </span>
      {reason && <span class="ellipsis muted small-text">{withFullTimes(reason)}</span>}
    </>
  );
}

async function newestKeys() {
  const { data } = await get<ListOf<{ id: string; name: string; shown: string }>>("keys?limit=100");
  return data.map(({ id, name, shown }) => ({ value: id, name: `${name} (${shown}…)` }));
}

export function EmailsScreen() {
  return (
    <Screen title="Emails" intro="Everything this workspace has sent, newest first. It updates by itself.">
      <List
        label="e-mails"
        path="v1/emails"
        filters={FILTERS}
        columns={COLUMNS}
        exported={EXPORTED}
        empty={<FirstEmail />}
      />
    </Screen>
  );
}

export function FirstEmail() {
  const { session } = useConsole();
  return (
    <Empty title="Send the first e-mail">
      <p>Paste this into a terminal. The e-mail appears here at once.</p>
      <Code label="A command that sends an e-mail" text={sendingCurl(session.base_url, session.demo_key)} />
      {session.demo_key === null && (
        <p>
          <a href={`${BASE}/keys?new=1`}>Create an API key</a> and put it in place of{" "}
          <code>YOUR_API_KEY</code>.
        </p>
      )}
      {!session.development && (
        <p>
          Put an address of one of your <a href={`${BASE}/domains`}>domains</a> in place of{" "}
          <code>demo@example.com</code>: mail from other domains is refused.
        </p>
      )}
      <p>
        Without a terminal: write a <a href={`${BASE}/templates`}>template</a>, and send a test of it.
      </p>
    </Empty>
  );
}

export function sendingCurl(baseUrl: string, key: string | null): string {
  return `curl ${baseUrl}/api/v1/emails \\
  -H 'Authorization: Bearer ${key ?? "YOUR_API_KEY"}' \\
  -H 'Content-Type: application/json' \\
  -d '{"from":"Demo <demo@example.com>","to":"you@example.com","subject":"Hello","html":"<p>It works.</p>"}'`;
}
