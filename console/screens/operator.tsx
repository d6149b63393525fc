import { useState } from "preact/hooks";
import { call, inquire } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Host, Refusal, Screen, Skeleton, Tabs, Told } from "../parts/bits.tsx";
import { Dialog, Do, Form, maybe, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, numberColumn, timeColumn } from "../parts/table.tsx";
import { BASE, refine, usePlace, WORKSPACE } from "../place.ts";
import { useConsole } from "../session.ts";
import { capital, count, withFullTimes } from "../words.ts";
import { Changes } from "./audit.tsx";
import {
  DESTINATION_FILTERS,
  type Deferred,
  HOW_IT_GOES,
  type Hold,
  Holds,
  type OperatorAsked,
  OperatorButtons,
  OperatorDialog,
  retried,
  WHERE_TO,
} from "./queue.tsx";

type WorkspaceItem = {
  id: string;
  name: string;
  plan: string;
  handle: string;
  created_at: string;
  suspended_at: string | null;
  suspended_for: string | null;
  members: number;
};
type Found = {
  workspace_id: string;
  workspace: string;
  id: string;
  status: string;
  created_at: string;
  reason: string | null;
};

const TABS = [
  { id: "workspaces", name: "Workspaces" },
  { id: "find", name: "Find mail" },
  { id: "queue", name: "Queue of all" },
  { id: "changes", name: "Audit log" },
];

export function OperatorScreen() {
  const { query } = usePlace();
  const chosen = TABS.find(({ id }) => id === query.get("tab"))?.id ?? "workspaces";
  return (
    <Screen title="Operator" intro="What concerns the whole installation.">
      <Tabs label="Operator" tabs={TABS} chosen={chosen} onChoose={(tab) => refine({ tab })} />
      {chosen === "workspaces" && <Workspaces />}
      {chosen === "find" && <Find />}
      {chosen === "queue" && <WholeQueue />}
      {chosen === "changes" && (
        <Changes path="operator/audit" empty="What operators change shows here, with who did it." />
      )}
    </Screen>
  );
}

function Workspaces() {
  const [asked, ask] = useState<WorkspaceItem | null>(null);
  const [changes, setChanges] = useState(0);
  const onDone = () => {
    setChanges(changes + 1);
    ask(null);
  };
  return (
    <>
      <List<WorkspaceItem>
        label="workspaces"
        path="operator/workspaces"
        filters={[{ name: "name", label: "Name", placeholder: "shop" }]}
        refreshed={changes}
        columns={[
          {
            name: "Name",
            cell: ({ name, suspended_at, suspended_for }) => (
              <>
                {name} {suspended_at && <Badge state="suspended" />}{" "}
                <span class="muted">{suspended_for}</span>
              </>
            ),
            csv: ({ name }) => name,
          },
          { name: "Plan", cell: ({ plan }) => capital(plan), csv: ({ plan }) => plan },
          {
            name: "Handle",
            wide: true,
            cell: ({ handle }) => <code>{handle}</code>,
            csv: ({ handle }) => handle,
          },
          numberColumn("Members", ({ members }) => members, true),
          timeColumn("Created", ({ created_at }) => created_at, true),
          {
            name: "Actions",
            unnamed: true,
            numeric: true,
            cell: (one) => (
              <button type="button" class="small" onClick={() => ask(one)}>
                {one.suspended_at ? "Resume" : "Suspend"}
              </button>
            ),
          },
        ]}
        empty={<p>There is no workspace.</p>}
      />
      {asked && <Suspension of={asked} onDone={onDone} onClose={() => ask(null)} />}
    </>
  );
}

function Suspension({ of, onDone, onClose }: { of: WorkspaceItem; onDone(): void; onClose(): void }) {
  const { id, name, suspended_at } = of;
  const [what, button] = suspended_at ? ["resume", "Resume"] : ["suspend", "Suspend"];
  const act = async (fields: FormData) => {
    await call("POST", `operator/workspaces/${id}/${what}`, { reason: maybe(fields, "reason") });
    onDone();
  };
  return (
    <Dialog title={`${button} ${name}?`} onClose={onClose}>
      <p>
        {suspended_at
          ? "Its mail that was held is sent, within the caps."
          : "Its requests are refused, and its mail is held until it is resumed."}
      </p>
      <Form button={button} isDanger={!suspended_at} onSubmit={act}>
        <Text
          label="Reason"
          name="reason"
          isOptional={suspended_at !== null}
          hint="Operators see it here and in the audit log."
        />
      </Form>
    </Dialog>
  );
}

const FOUND_FILTERS: readonly RowFilter<Found>[] = [
  { name: "workspace_name", label: "Workspace", holds: ({ workspace }, value) => isIn(value, workspace) },
];

/** Whose workspaces these are may open the e-mail there. */
function foundColumns(own: ReadonlySet<string>): Column<Found>[] {
  return [
    { name: "Workspace", cell: ({ workspace }) => workspace, csv: ({ workspace }) => workspace },
    { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
    {
      name: "Reason",
      cell: ({ reason }) => <span class="reply">{reason && withFullTimes(reason)}</span>,
      csv: ({ reason }) => reason,
    },
    {
      name: "Id",
      wide: true,
      cell: ({ id, workspace_id }) =>
        own.has(workspace_id) ? (
          <a href={`${BASE}/emails/${id}?${new URLSearchParams({ [WORKSPACE]: workspace_id })}`}>
            <code>{id}</code>
          </a>
        ) : (
          <code>{id}</code>
        ),
      csv: ({ id }) => id,
    },
    timeColumn("Accepted", ({ created_at }) => created_at),
  ];
}

function Find() {
  const { session } = useConsole();
  const { query } = usePlace();
  const [found, setFound] = useState<Found[] | null>(null);
  const find = async (fields: FormData) => {
    const what = textOf(fields, "what");
    setFound((await inquire<{ data: Found[] }>("operator/find", { what })).data);
    // who opens the link looks by themselves, since the audit log notes each look
    refine({ find: what });
  };
  return (
    <Card>
      <Form button="Find" onSubmit={find}>
        <Text
          label="Message-ID or id"
          name="what"
          value={query.get("find") ?? ""}
          hint="Of mail in any workspace. Addresses and contents are not shown."
        />
      </Form>
      {found?.length === 0 && <p class="banner">No e-mail has this id.</p>}
      {found && found.length > 0 && (
        <ShortList
          label="e-mails"
          filters={FOUND_FILTERS}
          rows={found}
          keyOf={({ id }) => id}
          columns={foundColumns(new Set(session.workspaces.map(({ id }) => id)))}
        />
      )}
    </Card>
  );
}

type Sending = { domain: string; in_flight: number; delivered_per_minute: number };
type WholeQueueAnswer = {
  bags: { in_line: number; held_back: number; leased: number };
  emails: { in_bags: number; in_flight: number; scheduled: number; waiting: number; deferred: number };
  destinations: Deferred[];
  holds: Hold[];
  /** To the busiest domains. */
  sending: Sending[];
};

const SENDING_FILTERS: readonly RowFilter<Sending>[] = [
  { name: "sending", label: "Being sent to", holds: ({ domain }, value) => isIn(value, domain) },
];
const SENDING_COLUMNS: readonly Column<Sending>[] = [
  { name: "Being sent to", cell: ({ domain }) => <Host name={domain} />, csv: ({ domain }) => domain },
  numberColumn("In flight", ({ in_flight }) => in_flight),
  numberColumn("Delivered a minute", ({ delivered_per_minute }) => delivered_per_minute),
];

function WholeQueue() {
  const { data, error, reload } = useGet<WholeQueueAnswer>("operator/queue");
  const [asked, ask] = useState<OperatorAsked | null>(null);
  const [told, tell] = useState<string | null>(null);
  if (!data) return error ? <Refusal error={error} /> : <Skeleton />;
  const retry = async (destination: string | null) => {
    tell(null);
    tell(await retried("operator/queue/retry", { destination }));
    await reload();
  };
  return (
    <>
      <Told words={told} />
      {data.holds.length > 0 && <Holds holds={data.holds} isOperator onDone={reload} />}
      <p class="banner">
        {count(data.emails.in_bags)} queued, {count(data.emails.in_flight)} in flight,{" "}
        {count(data.emails.deferred)} deferred, {count(data.emails.waiting)} wait for a cap,{" "}
        {count(data.emails.scheduled)} scheduled.
      </p>
      {data.sending.length > 0 && (
        <ShortList
          label="domains being sent to"
          filters={SENDING_FILTERS}
          rows={data.sending}
          keyOf={({ domain }) => domain}
          columns={SENDING_COLUMNS}
        />
      )}
      {data.destinations.length > 0 && (
        <ShortList
          label="destinations"
          filters={DESTINATION_FILTERS}
          rows={data.destinations}
          keyOf={({ domain }) => domain ?? ""}
          columns={destinationColumns(retry, ask)}
        />
      )}
      {asked && <OperatorDialog {...asked} onDone={reload} onClose={() => ask(null)} />}
    </>
  );
}

function destinationColumns(
  retry: (destination: string | null) => Promise<unknown>,
  ask: (asked: OperatorAsked) => void,
): Column<WholeQueueAnswer["destinations"][number]>[] {
  return [
    ...WHERE_TO,
    ...HOW_IT_GOES,
    {
      name: "Actions",
      unnamed: true,
      numeric: true,
      cell: ({ domain }) => (
        <div class="row-actions">
          <Do name="Retry" act={() => retry(domain)} />
          {domain !== null && <OperatorButtons destination={domain} ask={ask} />}
        </div>
      ),
    },
  ];
}
