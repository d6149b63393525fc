import { useState } from "preact/hooks";
import { isOpen } from "../../src/rules/email.ts";
import { call, getText } from "../call.ts";
import { useGet, useOnceKeys } from "../hooks.ts";
import {
  Badge,
  Card,
  Code,
  Copy,
  Facts,
  Moment,
  Refusal,
  Screen,
  Skeleton,
  Tabs,
  Time,
} from "../parts/bits.tsx";
import { Confirm, Dialog, Do, Form, OWN_TIME, Text, textOf } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { Preview } from "../parts/preview.tsx";
import { type Column, hidden } from "../parts/table.tsx";
import { BASE, go } from "../place.ts";
import { useConsole } from "../session.ts";
import type { Email, ListOf } from "../shapes.ts";
import { bytes, capital, fullTime, plain, withFullTimes } from "../words.ts";

type Why = { status: string; sentence: string; earliest_at: string | null };
type Attempt = {
  at: string;
  recipient: string | null;
  host: string | null;
  ip: string | null;
  tls: string | null;
  tls_verified: boolean;
  phase: string;
  reply: string | null;
  duration_ms: number | null;
};
type Attached = { id: string; filename: string; size: number; download_url: string };
type Asked = "cancel" | "reschedule" | "again" | null;

export function EmailScreen({ id }: { id: string }) {
  const { data: email, error, reload } = useGet<Email>(`v1/emails/${id}`);
  const [asked, ask] = useState<Asked>(null);
  const keyOf = useOnceKeys();
  const close = () => ask(null);
  const back = { href: `${BASE}/emails`, name: "Emails" };
  if (!email)
    return (
      <Screen title="E-mail" back={back}>
        <Refusal error={error} />
        {!error && <Skeleton />}
      </Screen>
    );
  const again = async () => {
    const path = `emails/${id}/again`;
    const { id: copy } = await call<{ id: string }>("POST", path, undefined, keyOf(path));
    go(`/emails/${copy}`);
  };
  return (
    <Screen
      title={email.subject ?? "No subject"}
      intro={<Heading email={email} />}
      back={back}
      actions={<Actions email={email} ask={ask} onDone={reload} />}
    >
      <Refusal error={error} />
      {isOpen(email.status) && <Waiting id={id} />}
      <Suppression email={email} />
      <div class="columns">
        <div>
          <Content email={email} />
          <Attempts email={email} />
        </div>
        <div>
          <Timeline email={email} />
          <Details email={email} />
        </div>
      </div>
      {asked === "reschedule" && <Reschedule email={email} onDone={reload} onClose={close} />}
      {asked === "cancel" && (
        <Confirm
          title="Cancel this e-mail?"
          button="Cancel the e-mail"
          onClose={close}
          onConfirm={() => call("POST", `v1/emails/${id}/cancel`).then(reload)}
        >
          It is not sent to {email.to.join(", ")}.
        </Confirm>
      )}
      {asked === "again" && (
        <Confirm title="Send it again?" button="Send again" onClose={close} onConfirm={again}>
          A new e-mail with the same contents goes to {[...email.to, ...email.cc, ...email.bcc].join(", ")}.
        </Confirm>
      )}
    </Screen>
  );
}

function Heading({ email }: { email: Email }) {
  return (
    <>
      <Badge state={email.status} /> to {email.to.join(", ")} · <Time at={email.created_at} />
    </>
  );
}

function Actions({
  email,
  ask,
  onDone,
}: {
  email: Email;
  ask(what: Asked): void;
  onDone(): Promise<unknown>;
}) {
  const { id, status } = email;
  const retry = () => call("POST", `emails/${id}/retry`).then(onDone);
  return (
    <>
      {status === "deferred" && <Do name="Retry now" isPrimary act={retry} />}
      {status === "scheduled" && (
        <button type="button" onClick={() => ask("reschedule")}>
          Reschedule
        </button>
      )}
      {(status === "scheduled" || status === "waiting") && (
        <button type="button" onClick={() => ask("cancel")}>
          Cancel
        </button>
      )}
      <button type="button" onClick={() => ask("again")}>
        Send again
      </button>
    </>
  );
}

function Waiting({ id }: { id: string }) {
  const { data } = useGet<Why>(`emails/${id}/why`);
  if (!data) return null;
  return (
    <p class="banner">
      {withFullTimes(data.sentence)}
      {data.earliest_at && (
        <>
          {" "}
          <strong>
            Earliest <Time at={data.earliest_at} />.
          </strong>
        </>
      )}
    </p>
  );
}

const SUPPRESSING = ["bounced", "complained", "suppressed"];

/** Who looks at a bounce asks next whether mail goes to this address again. */
function Suppression({ email }: { email: Email }) {
  const address = email.events.findLast(({ type }) => SUPPRESSING.includes(type))?.recipient;
  if (!address) return null;
  return (
    <p class="banner">
      Bounces and complaints may suppress an address.{" "}
      <a href={`${BASE}/suppressions?${new URLSearchParams({ find: address })}`}>Is {address} suppressed?</a>
    </p>
  );
}

/** Of an e-mail to one recipient: what has fewer rows is seen at a glance. */
const AT_A_GLANCE = 12;

type Happened = Email["events"][number];
const EVENT_FILTERS: readonly RowFilter<Happened>[] = [
  {
    name: "happened",
    label: "Find",
    holds: ({ type, recipient, detail }, value) => isIn(value, plain(type), recipient, detail),
  },
];
const EVENT_COLUMNS: readonly Column<Happened>[] = [
  hidden("At", ({ at }) => at),
  hidden("Type", ({ type }) => type),
  hidden("Recipient", ({ recipient }) => recipient),
  hidden("Detail", ({ detail }) => detail),
];

function Timeline({ email }: { email: Email }) {
  const isToMany = email.to.length + email.cc.length + email.bcc.length > 1;
  return (
    <Card title="Timeline">
      <ShortList
        label="events"
        filters={EVENT_FILTERS}
        rows={email.events}
        atAGlance={AT_A_GLANCE}
        columns={EVENT_COLUMNS}
        draw={(events) => (
          <ol class="timeline">
            {events.map((event, n) => (
              <li key={n}>
                <div>
                  <Badge state={event.type} /> <Moment at={event.at} />
                </div>
                {event.recipient && isToMany && <div>{event.recipient}</div>}
                {event.detail && <div class="reply">{event.detail}</div>}
              </li>
            ))}
          </ol>
        )}
      />
    </Card>
  );
}

const ATTEMPT_FILTERS: readonly RowFilter<Attempt>[] = [
  {
    name: "attempted",
    label: "Find",
    holds: ({ recipient, host, reply }, value) => isIn(value, recipient, host, reply),
  },
];
const ATTEMPT_COLUMNS: readonly Column<Attempt>[] = [
  hidden("At", ({ at }) => at),
  hidden("Recipient", ({ recipient }) => recipient),
  hidden("Reply", ({ reply }) => reply),
  hidden("Host", ({ host }) => host),
  hidden("IP address", ({ ip }) => ip),
  hidden("TLS", ({ tls }) => tls),
  hidden("Reached", ({ phase }) => phase),
  hidden("Took, in ms", ({ duration_ms }) => duration_ms),
];

function Attempts({ email }: { email: Email }) {
  const attempts = email.delivery_attempts as Attempt[];
  if (attempts.length === 0) return null;
  return (
    <Card title={attempts.length === 1 ? "Delivery attempt" : `${attempts.length} delivery attempts`}>
      <ShortList
        label="attempts"
        filters={ATTEMPT_FILTERS}
        rows={attempts}
        atAGlance={AT_A_GLANCE}
        columns={ATTEMPT_COLUMNS}
        draw={(shown) => (
          <ol class="attempts">
            {shown.map((attempt, n) => (
              <li key={n}>
                <p>
                  {attempt.recipient} <Moment at={attempt.at} />
                </p>
                <pre class="reply">{attempt.reply ?? "no reply"}</pre>
                <p class="muted small-text">{connectionOf(attempt)}</p>
              </li>
            ))}
          </ol>
        )}
      />
    </Card>
  );
}

/** Of a conversation over SMTP, in the words of whoever reads the reply above. */
const PHASES: Record<string, string> = {
  route: "the search for a host",
  connect: "the connection",
  tls: "TLS",
  greeting: "the greeting",
  helo: "EHLO",
  auth: "the password",
  mail: "the sender (MAIL)",
  rcpt: "the recipient (RCPT)",
  data: "the start of the message (DATA)",
  dot: "the end of the message",
  session: "a session",
};

function connectionOf({ host, ip, tls, tls_verified, phase, duration_ms }: Attempt): string {
  const security =
    tls === null
      ? "without TLS"
      : `${tls}${tls_verified ? ", certificate verified" : ", certificate not verified"}`;
  return [
    host && `${host}${ip ? ` [${ip}]` : ""}`,
    host && security,
    `reached: ${PHASES[phase] ?? phase}`,
    duration_ms !== null && `${duration_ms} ms`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function Details({ email }: { email: Email }) {
  const { session } = useConsole();
  const { data: attached } = useGet<ListOf<Attached>>(`v1/emails/${email.id}/attachments?limit=100`);
  return (
    <Card title="Details">
      <Facts
        facts={[
          ["From", email.from],
          ["To", email.to.join(", ")],
          ["Cc", email.cc.join(", ")],
          ["Bcc", email.bcc.join(", ")],
          ["Reply to", email.reply_to.join(", ")],
          ["Tags", email.tags.map(({ name, value }) => `${name}: ${value}`).join(", ")],
          ["Attachments", attached && attached.data.length > 0 && <Attachments of={attached.data} />],
          ["Stream", email.stream],
          ["Accepted", fullTime(email.created_at)],
          ["Scheduled for", email.scheduled_at && fullTime(email.scheduled_at)],
          ["Sent", email.sent_at && fullTime(email.sent_at)],
          ["Delivered", email.delivered_at && fullTime(email.delivered_at)],
          ["Next attempt", email.next_attempt_at && fullTime(email.next_attempt_at)],
          ["Waits for", email.waiting_for && plain(email.waiting_for)],
          ["Message-ID", <Copied text={email.message_id} />],
          ["Id", <Copied text={email.id} />],
        ]}
      />
      <Copy
        name="Copy as curl"
        text={`curl ${session.base_url}/api/v1/emails/${email.id} -H 'Authorization: Bearer ${session.demo_key ?? "YOUR_API_KEY"}'`}
      />
    </Card>
  );
}

function Attachments({ of }: { of: readonly Attached[] }) {
  return (
    <>
      {of.map(({ id, filename, size, download_url }) => (
        <div key={id}>
          <a href={download_url} download>
            {filename}
          </a>{" "}
          <span class="muted">{bytes(size)}</span>
        </div>
      ))}
    </>
  );
}

function Copied({ text }: { text: string }) {
  return (
    <span class="copied">
      <code>{text}</code> <Copy text={text} />
    </span>
  );
}

function Content({ email }: { email: Email }) {
  const tabs = [
    ...(email.html === null ? [] : [{ id: "preview", name: "Preview" }]),
    ...(email.text === null ? [] : [{ id: "text", name: "Text" }]),
    ...(email.html === null ? [] : [{ id: "html", name: "HTML" }]),
    { id: "headers", name: "Headers" },
    { id: "raw", name: "Raw" },
  ];
  const [chosen, choose] = useState(tabs[0]?.id ?? "raw");
  return (
    <Card>
      <Tabs tabs={tabs} chosen={chosen} label="Contents" onChoose={choose} />
      {chosen === "preview" && (
        <Preview path={`emails/${email.id}/html`} title={`Preview of ${email.subject ?? "the e-mail"}`} />
      )}
      {chosen === "text" && <Code label="Text" text={email.text ?? ""} />}
      {chosen === "html" && <Code label="HTML" text={email.html ?? ""} />}
      {(chosen === "headers" || chosen === "raw") && (
        <Source key={email.sent_at} email={email} isWhole={chosen === "raw"} />
      )}
    </Card>
  );
}

function Source({ email: { id, sent_at }, isWhole }: { email: Email; isWhole: boolean }) {
  const { data, error } = useGet<string>(`emails/${id}/raw`, getText, true);
  if (!data) return error ? <Refusal error={error} /> : <Skeleton />;
  const head = data.split(/\r?\n\r?\n/, 1)[0] ?? "";
  return (
    <>
      <p class="muted">
        {wordsOf(sent_at !== null, data.startsWith("DKIM-Signature:"))} Servers on the way add Received and
        other trace fields.
      </p>
      <Code label={capital(isWhole ? "raw source" : "headers")} text={isWhole ? data : head} />
    </>
  );
}

function wordsOf(wasSent: boolean, isSigned: boolean): string {
  if (!wasSent) return "As it will be sent: the date is set and the signature added when it leaves.";
  return isSigned
    ? "As it was sent. Its signature is that of the present key of its domain."
    : "As it was sent, without a signature: its domain has no key.";
}

function Reschedule({
  email,
  onDone,
  onClose,
}: {
  email: Email;
  onDone(): Promise<unknown>;
  onClose(): void;
}) {
  const save = async (fields: FormData) => {
    const scheduled_at = new Date(textOf(fields, "at")).toISOString();
    await call("PATCH", `v1/emails/${email.id}`, { scheduled_at });
    await onDone();
    onClose();
  };
  return (
    <Dialog title="Reschedule" onClose={onClose}>
      <Form button="Reschedule" onSubmit={save}>
        <Text label="Send at" name="at" type="datetime-local" hint={OWN_TIME} />
      </Form>
    </Dialog>
  );
}
