import { useState } from "preact/hooks";
import { useGet } from "../hooks.ts";
import { Card, Code, Facts, Refusal, Screen, Skeleton, Tabs } from "../parts/bits.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { Preview } from "../parts/preview.tsx";
import { timeColumn } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import { bytes } from "../words.ts";
import { FirstEmail } from "./emails.tsx";
import { faultsIn } from "./mailcheck.ts";

type Person = { name: string; address: string };
type CaughtItem = {
  id: string;
  received_at: string;
  from: Person | null;
  to: Person[];
  subject: string;
  bytes: number;
  envelope: { from: string; to: string[] };
};
type Caught = CaughtItem & {
  html: string | null;
  text: string | null;
  headers: { name: string; value: string }[];
  attachments: { filename: string | null; content_type: string; bytes: number }[];
  raw: string;
};

const FILTERS: readonly RowFilter<CaughtItem>[] = [
  { name: "to", label: "Recipient", holds: ({ envelope }, value) => isIn(value, ...envelope.to) },
  { name: "from", label: "Sender", holds: ({ from }, value) => isIn(value, from?.address, from?.name) },
  { name: "subject", label: "Subject", holds: ({ subject }, value) => isIn(value, subject) },
];

export function MailboxScreen() {
  const { data, error } = useGet<{ data: CaughtItem[] }>("mailbox");
  return (
    <Screen title="Mailbox" intro="What was sent and caught on this machine. None of it has left.">
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && data.data.length === 0 && <FirstEmail />}
      {data && data.data.length > 0 && (
        <ShortList
          label="caught mail"
          filters={FILTERS}
          rows={data.data}
          keyOf={({ id }) => id}
          columns={[
            {
              name: "To",
              shrinks: true,
              cell: ({ id, envelope, subject }) => (
                <>
                  <a class="row-link ellipsis" href={`${BASE}/mailbox/${id}`}>
                    {envelope.to.join(", ")}
                  </a>
                  <span class="narrow ellipsis" dir="auto">
                    {subject}
                  </span>
                </>
              ),
              csv: ({ envelope }) => envelope.to.join(" "),
            },
            {
              name: "Subject",
              wide: true,
              shrinks: true,
              cell: ({ subject }) => (
                <span class="ellipsis" dir="auto">
                  {subject}
                </span>
              ),
              csv: ({ subject }) => subject,
            },
            {
              name: "From",
              wide: true,
              cell: ({ from }) => <span class="muted">{from?.address}</span>,
              csv: ({ from }) => from?.address,
            },
            {
              name: "Size",
              wide: true,
              numeric: true,
              cell: ({ bytes: size }) => bytes(size),
              csv: ({ bytes: size }) => size,
            },
            timeColumn<CaughtItem>("Caught", ({ received_at }) => received_at),
          ]}
        />
      )}
    </Screen>
  );
}

const SPAM_RELEVANT = [
  ...["from", "reply-to", "return-path", "sender", "to", "date", "message-id", "subject", "mime-version"],
  ...[
    "dkim-signature",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "feedback-id",
    "auto-submitted",
    "precedence",
  ],
];

export function MailScreen({ id }: { id: string }) {
  const { data, error } = useGet<Caught>(`mailbox/${id}`);
  const [chosen, choose] = useState("preview");
  const back = { href: `${BASE}/mailbox`, name: "Mailbox" };
  if (!data)
    return (
      <Screen title="Mail" back={back}>
        {error ? <Refusal error={error} /> : <Skeleton />}
      </Screen>
    );
  const tabs = [
    { id: "preview", name: "Preview" },
    { id: "text", name: "Text" },
    { id: "headers", name: "Headers" },
    { id: "raw", name: "Raw" },
  ];
  return (
    <Screen title={data.subject || "No subject"} intro={<>to {data.envelope.to.join(", ")}</>} back={back}>
      <div class="columns">
        <Card>
          <Tabs label="Contents" tabs={tabs} chosen={chosen} onChoose={choose} />
          {chosen === "preview" &&
            (data.html ? (
              <Preview path={`mailbox/${id}/html`} title="Preview of the mail" />
            ) : (
              <Code label="Text" text={data.text ?? ""} />
            ))}
          {chosen === "text" && <Code label="Text" text={data.text ?? "There is no text part."} />}
          {chosen === "headers" && (
            <Code
              label="Headers"
              text={data.headers.map(({ name, value }) => `${name}: ${value}`).join("\n")}
            />
          )}
          {chosen === "raw" && <Code label="Raw source" text={data.raw} />}
        </Card>
        <div>
          <Check caught={data} />
          <Card title="Headers that filters look at">
            <Facts
              facts={data.headers
                .filter(({ name }) => SPAM_RELEVANT.includes(name))
                .map(({ name, value }): [string, string] => [name, value])}
            />
          </Card>
          {data.attachments.length > 0 && (
            <Card title="Attachments">
              <Facts
                facts={data.attachments.map(({ filename, content_type, bytes: size }): [string, string] => [
                  filename ?? "unnamed",
                  `${content_type}, ${bytes(size)}`,
                ])}
              />
            </Card>
          )}
        </div>
      </div>
    </Screen>
  );
}

function Check({ caught: { html, text, subject } }: { caught: Caught }) {
  const faults = faultsIn({ html, text, subject });
  return (
    <Card title="HTML check">
      {faults.length === 0 ? (
        <p>Nothing that mail programs are known to refuse.</p>
      ) : (
        <ul>
          {faults.map((fault) => (
            <li key={fault}>{fault}</li>
          ))}
        </ul>
      )}
    </Card>
  );
}
