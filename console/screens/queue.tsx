import { useState } from "preact/hooks";
import { call } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Empty, Host, Refusal, Screen, Skeleton, Time, Told } from "../parts/bits.tsx";
import { Confirm, Dialog, Do, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, numberColumn } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import { useConsole } from "../session.ts";
import { count, counted } from "../words.ts";
import { Tile } from "./overview.tsx";

type Destination = {
  domain: string | null;
  count: number;
  next_attempt_at: string | null;
  last_reply: string | null;
  /** Of all workspaces: only operators know. */
  in_flight: number | null;
  delivered_per_minute: number | null;
};
export const SMARTHOST = "the smarthost";
export type Hold = {
  destination: string;
  kind: string;
  until: string | null;
  reason: string | null;
  waiting: number;
};
type Queue = {
  emails: Record<"scheduled" | "waiting" | "deferred" | "queued" | "in_flight", number>;
  destinations: Destination[];
  holds: Hold[];
  replies: { reply: string; count: number }[];
};
type AskedOf<What extends string> = { what: What; destination: string };
export type OperatorAsked = AskedOf<"suspend" | "bounce">;
type Asked = OperatorAsked | AskedOf<"cancel"> | null;

export const DESTINATION_FILTERS: readonly RowFilter<Pick<Destination, "domain" | "last_reply">>[] = [
  { name: "domain", label: "Destination", holds: ({ domain }, value) => isIn(value, domain) },
  { name: "reply", label: "Last reply", holds: ({ last_reply }, value) => isIn(value, last_reply) },
];

export function QueueScreen() {
  const { data, error, reload } = useGet<Queue>("queue");
  const { session } = useConsole();
  const [asked, ask] = useState<Asked>(null);
  const close = () => ask(null);
  const isEmpty = data && data.destinations.length === 0 && data.holds.length === 0;
  const [told, tell] = useState<string | null>(null);
  const retry = async (what: { destination?: string | null }) => {
    tell(null);
    tell(await retried("queue/retry", what));
    await reload();
  };
  const reallyCancel = (destination: string) => call("POST", "queue/cancel", { destination }).then(reload);
  return (
    <Screen
      title="Queue"
      intro="Mail that has not arrived yet, by destination."
      actions={data && data.emails.deferred > 0 && <Do name="Retry all deferred" act={() => retry({})} />}
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      <Told words={told} />
      {data && <Counts emails={data.emails} />}
      {data && data.holds.length > 0 && (
        <Holds holds={data.holds} isOperator={session.is_operator} onDone={reload} />
      )}
      {data && data.destinations.length > 0 && (
        <ShortList
          label="destinations"
          filters={DESTINATION_FILTERS}
          columns={columnsFor(session.is_operator, ask, retry)}
          rows={data.destinations}
          keyOf={({ domain }) => domain ?? ""}
        />
      )}
      {isEmpty && (
        <Empty title="Nothing is stuck">
          <p>
            Mail that a receiver defers shows here by its destination, with the receiver's last words. See
            also <a href={`${BASE}/emails?status=waiting`}>mail that waits for a cap</a> and{" "}
            <a href={`${BASE}/emails?status=scheduled`}>scheduled mail</a>.
          </p>
        </Empty>
      )}
      {asked && <OperatorDialog {...asked} onDone={reload} onClose={close} />}
      {asked?.what === "cancel" && (
        <Confirm
          title={`Cancel all deferred mail to ${asked.destination}?`}
          button="Cancel it"
          onConfirm={() => reallyCancel(asked.destination)}
          onClose={close}
        >
          It ends as canceled and is not tried again. This cannot be undone.
        </Confirm>
      )}
    </Screen>
  );
}

/** What it did, in words: mail that is deferred again at once looks as if nothing had been done. */
export async function retried(path: string, what: { destination?: string | null }): Promise<string> {
  const answer = await call<{ retried: number }>("POST", path, what);
  const where = what.destination === undefined ? "" : ` to ${what.destination ?? SMARTHOST}`;
  return answer.retried === 0
    ? `No e-mail${where} was deferred any more.`
    : `${counted(answer.retried, "e-mail", "e-mails")}${where} ${answer.retried === 1 ? "is" : "are"} tried now.`;
}

export function OperatorButtons({
  destination,
  ask,
}: {
  destination: string;
  ask(asked: OperatorAsked): void;
}) {
  return (
    <>
      <button type="button" onClick={() => ask({ what: "suspend", destination })}>
        Suspend
      </button>
      <button type="button" onClick={() => ask({ what: "bounce", destination })}>
        Bounce
      </button>
    </>
  );
}

type DialogProps = { onDone(): Promise<unknown>; onClose(): void };

/** What concerns the mail of every workspace. */
export function OperatorDialog({ what, destination, onDone, onClose }: NonNullable<Asked> & DialogProps) {
  if (what === "suspend") return <Suspend destination={destination} onDone={onDone} onClose={onClose} />;
  if (what === "bounce") return <Bounce destination={destination} onDone={onDone} onClose={onClose} />;
  return null;
}

function Bounce({ destination, onDone, onClose }: DialogProps & { destination: string }) {
  const bounce = async (fields: FormData) => {
    await call("POST", "operator/queue/bounce", { destination, reason: textOf(fields, "reason") });
    await onDone();
    onClose();
  };
  return (
    <Dialog title={`Bounce all deferred mail to ${destination}?`} onClose={onClose}>
      <Form button="Bounce it" isDanger onSubmit={bounce}>
        <p>It ends as bounced, for every workspace of this installation. This cannot be undone.</p>
        <Text label="Reason" name="reason" hint={REASON_HINT} />
      </Form>
    </Dialog>
  );
}
const REASON_HINT =
  "The API and the console give it as the reason of each e-mail. It is in the audit log, too.";

export function Counts({ emails }: { emails: Queue["emails"] }) {
  return (
    <dl class="tiles">
      <Tile name="Queued" value={count(emails.queued)} />
      <Tile name="In flight" value={count(emails.in_flight)} />
      <Tile name="Deferred" value={count(emails.deferred)} />
      <Tile name="Wait for a cap" value={count(emails.waiting)} />
      <Tile name="Scheduled" value={count(emails.scheduled)} />
    </dl>
  );
}

export type Deferred = Pick<Destination, "domain" | "count" | "next_attempt_at" | "last_reply">;
/** Of every list of destinations, of one workspace or of all. */
export const WHERE_TO: readonly Column<Deferred>[] = [
  {
    name: "Destination",
    cell: ({ domain, last_reply }) => (
      <>
        {domain === null ? SMARTHOST : <Host name={domain} />}
        <span class="narrow reply">{last_reply}</span>
      </>
    ),
    csv: ({ domain }) => domain ?? SMARTHOST,
  },
  numberColumn("Deferred", ({ count: deferred }) => deferred),
];
export const HOW_IT_GOES: readonly Column<Deferred>[] = [
  {
    name: "Next attempt",
    wide: true,
    cell: ({ next_attempt_at }) => (next_attempt_at ? <Time at={next_attempt_at} /> : "when resumed"),
    csv: ({ next_attempt_at }) => next_attempt_at,
  },
  {
    name: "Last reply",
    wide: true,
    cell: ({ last_reply }) => <span class="reply">{last_reply}</span>,
    csv: ({ last_reply }) => last_reply,
  },
];
const FLOW: Column<Destination>[] = [
  numberColumn("In flight", ({ in_flight }) => in_flight ?? 0, true),
  numberColumn("Delivered a minute", ({ delivered_per_minute }) => delivered_per_minute ?? 0, true),
];

function columnsFor(
  isOperator: boolean,
  ask: (asked: Asked) => void,
  retry: (what: { destination: string | null }) => Promise<unknown>,
): Column<Destination>[] {
  return [
    ...WHERE_TO,
    ...(isOperator ? FLOW : []),
    ...HOW_IT_GOES,
    {
      name: "Actions",
      unnamed: true,
      numeric: true,
      cell: ({ domain }) => (
        <div class="row-actions">
          <Do name="Retry" act={() => retry({ destination: domain })} />
          {domain !== null && (
            <button type="button" onClick={() => ask({ what: "cancel", destination: domain })}>
              Cancel
            </button>
          )}
          {domain !== null && isOperator && <OperatorButtons destination={domain} ask={ask} />}
        </div>
      ),
    },
  ];
}

const HOLD_FILTERS: readonly RowFilter<Hold>[] = [
  {
    name: "held",
    label: "Held destination",
    holds: ({ destination, reason }, value) => isIn(value, destination, reason),
  },
];

export function Holds({
  holds,
  isOperator,
  onDone,
}: {
  holds: readonly Hold[];
  isOperator: boolean;
  onDone(): Promise<unknown>;
}) {
  return (
    <Card title="Suspended or slowed down">
      <ShortList
        label="held destinations"
        filters={HOLD_FILTERS}
        rows={holds}
        keyOf={({ destination, kind }) => destination + kind}
        columns={holdColumns(isOperator, onDone)}
      />
    </Card>
  );
}

function holdColumns(isOperator: boolean, onDone: () => Promise<unknown>): Column<Hold>[] {
  const resume = (destination: string) => call("POST", "operator/queue/resume", { destination }).then(onDone);
  return [
    {
      name: "Held destination",
      cell: ({ destination, kind, reason }) => (
        <>
          <Host name={destination} /> <Badge state={kind} tone="warn" />
          <span class="narrow reply">{reason}</span>
        </>
      ),
      csv: ({ destination }) => destination,
    },
    {
      name: "Reason",
      wide: true,
      cell: ({ reason }) => <span class="reply">{reason}</span>,
      csv: ({ reason }) => reason,
    },
    {
      name: "Until",
      cell: ({ until }) => (until ? <Time at={until} /> : "it is resumed"),
      csv: ({ until }) => until,
    },
    numberColumn("E-mails waiting", ({ waiting }) => waiting),
    ...(isOperator
      ? [
          {
            name: "Actions",
            unnamed: true,
            numeric: true,
            cell: ({ destination }: Hold) => <Do name="Resume" act={() => resume(destination)} />,
          },
        ]
      : []),
  ];
}

function Suspend({ destination, onDone, onClose }: DialogProps & { destination: string }) {
  const suspend = async (fields: FormData) => {
    const hours = textOf(fields, "hours");
    await call("POST", "operator/queue/suspend", {
      destination,
      ...(hours !== "" && { hours: Number(hours) }),
      reason: textOf(fields, "reason"),
    });
    await onDone();
    onClose();
  };
  return (
    <Dialog title={`Suspend ${destination}`} onClose={onClose}>
      <Form button="Suspend" onSubmit={suspend}>
        <p>Nothing is sent there, its mail waits, and no attempt is counted. It concerns every workspace.</p>
        <Text label="Hours" name="hours" type="number" isOptional hint="Empty: until it is resumed." />
        <Text label="Reason" name="reason" hint={REASON_HINT} />
      </Form>
    </Dialog>
  );
}
