import { useMemo, useState } from "preact/hooks";
import { call, get, untilUnmoved, withQuery } from "../call.ts";
import { dropDrafts, useDraft } from "../draft.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Code, Empty, Facts, Refusal, Screen, Skeleton, Tabs, Time } from "../parts/bits.tsx";
import { Discard, Editor, Leftover, Overtaken, unseen } from "../parts/editor.tsx";
import { Choice, Confirm, Dialog, Do, Field, Form, Text, textOf } from "../parts/form.tsx";
import { Graph, type Step, type StepState } from "../parts/graph.tsx";
import { isIn, List } from "../parts/list.tsx";
import { timeColumn } from "../parts/table.tsx";
import { BASE, go, refine, usePlace } from "../place.ts";
import { useConsole } from "../session.ts";
import type { AudienceItem, ListOf } from "../shapes.ts";
import { count, counted } from "../words.ts";

type AutomationItem = {
  id: string;
  name: string;
  status: string;
  audience_id: string;
  event: string;
  created_at: string;
  updated_at: string;
};
export type Document = {
  name: string;
  audience_id: string;
  event: string;
  entry: unknown;
  filters?: unknown;
  steps: Step[];
};
export type Automation = AutomationItem & {
  version: number;
  entry: unknown;
  filters: unknown;
  document: Document;
};
type Run = {
  id: string;
  status: string;
  contact_id: string;
  contact_email: string | null;
  reason: string | null;
  started_at: string;
  next_step_at: string | null;
  completed_at: string | null;
};

export function AutomationsScreen() {
  const [isAdding, setAdding] = useState(false);
  const { session } = useConsole();
  const { data: audiences, error: unread } = useGet<ListOf<AudienceItem>>(
    isAdding ? "v1/audiences?limit=100" : null,
  );
  const add = async (fields: FormData) => {
    const audience_id = textOf(fields, "audience");
    if (!audiences) throw new Error(unread ?? "The audiences are still being read. Try again in a moment.");
    if (audience_id === "") throw new Error("There is no audience. Create one first, under Audiences.");
    const { id } = await call<{ id: string }>("POST", "v1/automations", {
      name: textOf(fields, "name"),
      status: "disabled",
      audience_id,
      event: textOf(fields, "event"),
      entry: "once",
      steps: [
        { wait: "1h" },
        {
          send: {
            from: textOf(fields, "from"),
            subject: "Welcome, {{first_name|friend}}",
            html: "<p>Hello</p>",
          },
        },
      ],
    });
    go(`/automations/${id}?tab=document`);
  };
  const curl = `curl ${session.base_url}/api/v1/events \\
  -H 'Authorization: Bearer ${session.demo_key ?? "YOUR_API_KEY"}' \\
  -H 'Content-Type: application/json' \\
  -d '{"audience_id":"ID","email":"ada@example.com","name":"signed.up","properties":{"plan":"pro"}}'`;
  return (
    <Screen
      title="Automations"
      intro="An event of a contact starts a run, which waits, sends, tags and splits."
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          New automation
        </button>
      }
    >
      <List<AutomationItem>
        label="automations"
        path="v1/automations"
        filters={[{ name: "status", label: "Status", options: ["enabled", "disabled"] }]}
        rowFilters={[{ name: "name", label: "Find", holds: ({ name }, value) => isIn(value, name) }]}
        columns={[
          {
            name: "Name",
            cell: ({ id, name }) => (
              <a class="row-link" href={`${BASE}/automations/${id}`}>
                {name}
              </a>
            ),
            csv: ({ name }) => name,
          },
          { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
          { name: "Event", wide: true, cell: ({ event }) => <code>{event}</code>, csv: ({ event }) => event },
          timeColumn("Changed", ({ updated_at }) => updated_at),
        ]}
        empty={
          <Empty title="No automation yet">
            <p>Create one, and let your application say what happens:</p>
            <Code label="A command that tracks an event" text={curl} />
          </Empty>
        }
      />
      {isAdding && (
        <Dialog title="New automation" onClose={() => setAdding(false)}>
          <Form button="Create" onSubmit={add}>
            <Text label="Name" name="name" placeholder="Welcome" />
            <Choice
              label="Audience"
              name="audience"
              options={(audiences?.data ?? []).map(({ id, name }) => ({ value: id, name }))}
              hint="Whose contacts it writes to."
            />
            <Text
              label="Event"
              name="event"
              placeholder="signed.up"
              hint="Exactly as your application sends it."
            />
            <Text
              label="Sender"
              name="from"
              placeholder="Shop <hello@example.com>"
              hint="It starts disabled, with two steps to change."
            />
          </Form>
        </Dialog>
      )}
    </Screen>
  );
}

const TABS = [
  { id: "graph", name: "Graph" },
  { id: "runs", name: "Runs" },
  { id: "document", name: "Document" },
];

export function AutomationScreen({ id }: { id: string }) {
  const path = `v1/automations/${id}`;
  const { data, error, isMissing, reload } = useGet<Automation>(path);
  const { query } = usePlace();
  const [asked, ask] = useState<"disable" | "stop" | "delete" | null>(null);
  const chosen = query.get("tab") ?? "graph";
  const turn = (status: "enabled" | "disabled") => call("PATCH", path, { status }).then(reload);
  const remove = async () => {
    await call("DELETE", path);
    dropDrafts(draftKey(id));
    go("/automations");
  };
  return (
    <Screen
      title={data?.name ?? "Automation"}
      intro={data && <Badge state={data.status} />}
      back={{ href: `${BASE}/automations`, name: "Automations" }}
      actions={
        data && (
          <>
            {data.status === "enabled" ? (
              <button type="button" onClick={() => ask("disable")}>
                Disable
              </button>
            ) : (
              <Do name="Enable" isPrimary act={() => turn("enabled")} />
            )}
            <button type="button" onClick={() => ask("stop")}>
              Stop all runs
            </button>
            <button type="button" onClick={() => ask("delete")}>
              Delete
            </button>
          </>
        )
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {!data && isMissing && <Leftover keys={[draftKey(id)]} />}
      {data && (
        <>
          <Tabs label="Automation" tabs={TABS} chosen={chosen} onChoose={(tab) => refine({ tab })} />
          {chosen === "graph" && (
            <div class="columns">
              <Flow automation={data} version={query.get("version")} />
              <Terms {...data} />
            </div>
          )}
          {chosen === "runs" && <Runs path={path} id={id} />}
          {chosen === "document" && <EditDocument automation={data} onSaved={reload} />}
        </>
      )}
      {asked === "disable" && (
        <Confirm
          title="Disable this automation?"
          button="Disable"
          onConfirm={() => turn("disabled")}
          onClose={() => ask(null)}
        >
          Events start no more runs. Runs that are under way go on, and send their mail: “Stop all runs” ends
          them.
        </Confirm>
      )}
      {asked === "stop" && (
        <Confirm
          title="Stop all runs?"
          button="Stop them"
          onConfirm={() => call("POST", `${path}/stop`).then(reload)}
          onClose={() => ask(null)}
        >
          The automation is disabled, and what its runs still had to do is not done.
        </Confirm>
      )}
      {asked === "delete" && (
        <Confirm title={`Delete ${data?.name}?`} button="Delete" onConfirm={remove} onClose={() => ask(null)}>
          Its runs stop. This cannot be undone.
        </Confirm>
      )}
    </Screen>
  );
}

type FlowAnswer = {
  version: number;
  document: Document;
  runs_counted_max: number;
  places: (PlaceCounts & { step: string })[];
  versions: { version: number; created_at: string; runs: number; is_current: boolean }[];
};

/** The steps of one version, with what its runs did. */
function Flow({ automation: { id, event, version: current }, version }: FlowProps) {
  const { data, error } = useGet<FlowAnswer>(withQuery(`automations/${id}/flow`, { version }));
  const done = useMemo(
    () =>
      new Map(
        data?.places.map(({ step, ...counts }) => [
          step,
          { state: stateOf(counts), words: (written: Step) => placeWords(counts, written) },
        ]),
      ),
    [data],
  );
  if (!data) return <Card>{error ? <Refusal error={error} /> : <Skeleton />}</Card>;
  const choose = (chosen: string) => refine({ version: chosen === String(current) ? null : chosen });
  return (
    <Card>
      <Field label="Version">
        {(field) => (
          <select
            id={field}
            value={String(data.version)}
            onChange={({ currentTarget }) => choose(currentTarget.value)}
          >
            {data.versions.map(({ version: one, runs, is_current }) => (
              <option key={one} value={String(one)}>
                {one}
                {is_current ? ", which new runs take" : ""}: {counted(runs, "run", "runs")}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Graph event={data.document.event ?? event} steps={data.document.steps} done={done} />
      <p class="muted small-text">Counts are of the newest {count(data.runs_counted_max)} runs.</p>
    </Card>
  );
}

type FlowProps = { automation: Automation; version: string | null };

type PlaceCounts = { done: number; skipped: number; standing: number };

function stateOf({ done, skipped }: PlaceCounts): StepState {
  if (done > 0) return "done";
  return skipped > 0 ? "skipped" : null;
}

/** A run that waits has begun to wait, and stands at the step that follows. */
function placeWords({ done, skipped, standing }: PlaceCounts, { wait }: Step): string {
  return [
    ...(done > 0 ? [`${count(done)} ${wait === undefined ? "done" : "begun"}`] : []),
    ...(skipped > 0 ? [`${count(skipped)} skipped`] : []),
    ...(standing > 0 ? [`next for ${counted(standing, "run", "runs")}`] : []),
  ].join(", ");
}

function Terms({ event, entry, filters, version, audience_id, updated_at }: Automation) {
  const { data: audience } = useGet<AudienceItem>(`v1/audiences/${audience_id}`);
  const isFiltered = Array.isArray(filters) ? filters.length > 0 : filters !== null && filters !== undefined;
  return (
    <Card title="Who enters">
      <Facts
        facts={[
          ["Event", <code>{event}</code>],
          ["Audience", <a href={`${BASE}/audiences/${audience_id}`}>{audience?.name ?? "Open"}</a>],
          ["How often", sayEntry(entry)],
          ["Filters", isFiltered ? <code>{JSON.stringify(filters)}</code> : "everybody"],
          ["Version", version],
          ["Changed", <Time at={updated_at} />],
        ]}
      />
    </Card>
  );
}

const ENTRIES: Record<string, string> = {
  once: "once for each contact",
  one_active: "not while a run of the contact is active",
  every: "with every event",
};

function sayEntry(entry: unknown): string {
  if (typeof entry === "string") return ENTRIES[entry] ?? entry;
  return `not within ${(entry as { cooldown: string }).cooldown}`;
}

function Runs({ path, id }: { path: string; id: string }) {
  return (
    <List<Run>
      label="runs"
      path={`${path}/runs`}
      filters={[{ name: "status", label: "Status", options: ["running", "completed", "cancelled"] }]}
      columns={[
        {
          name: "Contact",
          shrinks: true,
          cell: (run) => (
            <a class="row-link ellipsis" href={`${BASE}/automations/${id}/runs/${run.id}`}>
              {run.contact_email ?? <code>{run.id.slice(-8)}</code>}
            </a>
          ),
          csv: (run) => run.contact_email ?? run.id,
        },
        { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
        { name: "Why", wide: true, cell: ({ reason }) => reason, csv: ({ reason }) => reason },
        {
          name: "Next step",
          wide: true,
          cell: ({ next_step_at }) => next_step_at && <Time at={next_step_at} />,
          csv: ({ next_step_at }) => next_step_at,
        },
        timeColumn("Started", ({ started_at }) => started_at),
      ]}
      empty={
        <Empty title="No run yet">
          <p>A run starts when its event is tracked for a contact of the audience.</p>
        </Empty>
      }
    />
  );
}

type EditedDocument = { automation: Automation; onSaved(): Promise<Automation | null> };

function EditDocument({ automation, onSaved }: EditedDocument) {
  const kept = useMemo(() => shownOf(automation.document), [automation.document]);
  const { text, isChanged, isOvertaken, isUnseen, type, saving, saved, discard } = useDraft(
    draftKey(automation.id),
    kept,
  );
  const path = `v1/automations/${automation.id}`;
  const [preview, fault] = useMemo(() => read(text), [text]);
  const save = async () => {
    const { audience_id, event, entry, filters, steps } = JSON.parse(text) as Document;
    await untilUnmoved(async () => {
      const now = await get<Automation>(path);
      if (isUnseen(shownOf(now.document))) {
        await onSaved();
        throw unseen();
      }
      saving();
      const if_version = now.version;
      await call("PATCH", path, { if_version, audience_id, event, entry, filters, steps });
    });
    const shown = await onSaved();
    saved(text, shown && shownOf(shown.document));
  };
  return (
    <div class="halves">
      <Card
        title="Document"
        actions={
          <>
            {isChanged && <Discard onDiscard={discard} />}
            <Do name="Save as the next version" isPrimary isOff={!isChanged || fault !== null} act={save} />
          </>
        }
      >
        {isOvertaken && <Overtaken href={`${BASE}/automations/${automation.id}?tab=graph`} />}
        <Editor label="Document of the automation" value={text} faultyLine={null} onInput={type} />
        <p class="hint">Runs that are under way keep the version they started with.</p>
        <Refusal error={fault} />
      </Card>
      <Card title="What it does">{preview && <Graph event={preview.event} steps={preview.steps} />}</Card>
    </div>
  );
}

function draftKey(id: string): string {
  return `automation ${id}`;
}

function shownOf({ audience_id, event, entry, filters, steps }: Document): string {
  return JSON.stringify({ audience_id, event, entry, filters: filters ?? [], steps }, null, 2);
}

function read(text: string): [Document | null, string | null] {
  try {
    const document = JSON.parse(text) as Document;
    if (!Array.isArray(document?.steps)) return [null, "The field steps must be a list."];
    return [document, null];
  } catch (error) {
    return [null, (error as Error).message];
  }
}
