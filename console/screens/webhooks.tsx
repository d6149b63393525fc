import { useCallback, useState } from "preact/hooks";
import { EVENT_TYPES } from "../../src/rules/webhook.ts";
import { call, get } from "../call.ts";
import { useChanges, useGet, useReadingEvery } from "../hooks.ts";
import {
  Badge,
  Card,
  Code,
  Empty,
  Facts,
  Refusal,
  Screen,
  Skeleton,
  Tabs,
  Time,
  Told,
} from "../parts/bits.tsx";
import { Check, Confirm, Dialog, Do, Form, OWN_TIME, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter } from "../parts/list.tsx";
import type { Secret } from "../parts/once.tsx";
import { timeColumn } from "../parts/table.tsx";
import { BASE, go, refine, usePlace } from "../place.ts";
import { useConsole, useMayManage } from "../session.ts";
import { count, counted, plain } from "../words.ts";

type WebhookItem = {
  id: string;
  endpoint: string;
  created_at: string;
  status: string;
  events: string[] | null;
};
type Webhook = WebhookItem & {
  public_key: string | null;
  disabled_for: string | null;
  failures: number;
  failing_since: string | null;
  next_attempt_at: string | null;
  last_delivered_at: string | null;
  events_behind: number;
  events_missed: number;
};
type Attempt = {
  id: string;
  event_id: string | null;
  event_type: string | null;
  http_status_code: number;
  response: string;
  error: string | null;
  duration_ms: number;
  sent_at: string;
};
type EventItem = { id: string; type: string; created_at: string; status: string };
type WebhookEvent = EventItem & { payload: unknown };
type Replayed = { events: number; has_more: boolean };
type Signing = { id: string; signing_secret: string };

export function WebhooksScreen() {
  const [isAdding, setAdding] = useState(false);
  const mayManage = useMayManage();
  return (
    <Screen
      title="Webhooks"
      intro="Endpoints of yours that are told what happens, with signed requests."
      actions={
        <button type="button" class="primary" disabled={!mayManage} onClick={() => setAdding(true)}>
          Add webhook
        </button>
      }
    >
      {!mayManage && <p class="banner">Only owners and admins change webhooks.</p>}
      <List<WebhookItem>
        label="webhooks"
        path="v1/webhooks"
        rowFilters={[
          { name: "endpoint", label: "Find", holds: ({ endpoint }, value) => isIn(value, endpoint) },
          {
            name: "status",
            label: "With status",
            options: ["enabled", "disabled"],
            holds: ({ status }, value) => status === value,
          },
        ]}
        columns={[
          {
            name: "Endpoint",
            cell: ({ id, endpoint }) => (
              <a class="row-link" href={`${BASE}/webhooks/${id}`}>
                <span class="ellipsis">{endpoint}</span>
              </a>
            ),
            csv: ({ endpoint }) => endpoint,
          },
          { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
          {
            name: "Events",
            wide: true,
            cell: ({ events }) => (events ? events.map(plain).join(", ") : "all"),
            csv: ({ events }) => events?.join(" ") ?? "all",
          },
          timeColumn("Added", ({ created_at }) => created_at),
        ]}
        empty={
          <Empty title="Be told instead of asking">
            <p>
              Add an address of your server. It gets a request for each delivery, bounce and complaint, signed
              as Standard Webhooks says.
            </p>
          </Empty>
        }
      />
      {isAdding && <Add onClose={() => setAdding(false)} />}
    </Screen>
  );
}

function Add({ onClose }: { onClose(): void }) {
  const { showOnce } = useConsole();
  const add = async (fields: FormData) => {
    const events = fields.getAll("event");
    const body = { endpoint: textOf(fields, "endpoint"), ...(events.length > 0 && { events }) };
    const made = await call<Signing>("POST", "v1/webhooks", body);
    go(`/webhooks/${made.id}`);
    showOnce(shownOf(made));
  };
  return (
    <Dialog title="Add webhook" onClose={onClose}>
      <Form button="Add" onSubmit={add}>
        <Text label="Endpoint" name="endpoint" type="url" placeholder="https://example.com/hooks/mail" />
        <EventChecks chosen={[]} />
      </Form>
    </Dialog>
  );
}

function EventChecks({ chosen }: { chosen: readonly string[] }) {
  return (
    <fieldset>
      <legend>Events</legend>
      {EVENT_TYPES.map((event) => (
        <Check key={event} label={event} name="event" value={event} isChecked={chosen.includes(event)} />
      ))}
      <p class="hint">None chosen: all of them.</p>
    </fieldset>
  );
}

function shownOf({ signing_secret }: Signing): Secret {
  return {
    ...{ title: "The signing secret", label: "Secret", noun: "secret", secret: signing_secret },
    words: "Your server checks with it that a request comes from here.",
  };
}

type Asked = "edit" | "remove" | "rotate" | "replay" | null;
/** Longer than an endpoint may take to answer. */
const LOOKS_MAX = 20;
const LOOK_MS = 1_000;

export function WebhookScreen({ id }: { id: string }) {
  const { data, error, reload } = useGet<Webhook>(`v1/webhooks/${id}`);
  const { query } = usePlace();
  const mayManage = useMayManage();
  const [asked, ask] = useState<Asked>(null);
  const { showOnce } = useConsole();
  const close = () => ask(null);
  const path = `v1/webhooks/${id}`;
  const shown = query.get("tab") ?? "events";
  const [told, tell] = useState<string | null>(null);
  /** After a test event, of which no news come: how often its attempt was looked for. */
  const [looks, setLooks] = useState<number | null>(null);
  const look = useCallback(async () => setLooks((before) => (before ?? 0) + 1), []);
  useReadingEvery(looks !== null && looks < LOOKS_MAX ? LOOK_MS : null, look);
  const test = async () => {
    await call("POST", `${path}/test`);
    refine({ tab: "attempts" });
    setLooks(0);
    await reload();
  };
  const isOn = data?.status === "enabled";
  const turn = () => call("PATCH", path, { status: isOn ? "disabled" : "enabled" }).then(reload);
  const remove = async () => {
    await call("DELETE", path);
    go("/webhooks");
  };
  const rotate = async () => {
    const made = await call<Signing>("POST", `${path}/signing-secret/rotate`);
    close();
    showOnce(shownOf(made));
  };
  return (
    <Screen
      title="Webhook"
      intro={data && <code>{data.endpoint}</code>}
      back={{ href: `${BASE}/webhooks`, name: "Webhooks" }}
      actions={
        data &&
        mayManage && (
          <>
            <Do name="Send a test event" isPrimary act={test} />
            <button type="button" onClick={() => ask("replay")}>
              Replay
            </button>
            <button type="button" onClick={() => ask("edit")}>
              Edit
            </button>
            <Do name={isOn ? "Disable" : "Enable"} act={turn} />
            <button type="button" onClick={() => ask("rotate")}>
              New secret
            </button>
            <button type="button" onClick={() => ask("remove")}>
              Remove
            </button>
          </>
        )
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      <Told words={told} />
      {data && (
        <div class="columns">
          <div>
            <Tabs
              label="History"
              tabs={[
                { id: "events", name: "Events" },
                { id: "attempts", name: "Attempts" },
              ]}
              chosen={shown}
              onChoose={(tab) => refine({ tab })}
            />
            {shown === "attempts" ? (
              <Attempts path={path} rowFilters={ATTEMPT_FILTERS} refreshed={looks} />
            ) : (
              <Events path={path} mayManage={mayManage} />
            )}
          </div>
          <State webhook={data} />
        </div>
      )}
      {asked === "edit" && data && <Edit webhook={data} onDone={reload} onClose={close} />}
      {asked === "replay" && <Replay path={path} onDone={reload} onClose={close} tell={tell} />}
      {asked === "remove" && (
        <Confirm title="Remove this webhook?" button="Remove" onConfirm={remove} onClose={close}>
          It gets no more events, and its history is deleted.
        </Confirm>
      )}
      {asked === "rotate" && (
        <Confirm title="Make a new secret?" button="Make a new secret" onConfirm={rotate} onClose={close}>
          Requests are signed with both secrets for a day, then only with the new one.
        </Confirm>
      )}
    </Screen>
  );
}

function State({ webhook }: { webhook: Webhook }) {
  return (
    <Card title="State">
      <Facts
        facts={[
          ["Status", <Badge state={webhook.status} />],
          [
            "Disabled because",
            webhook.disabled_for === "gone"
              ? "the endpoint answered 410 Gone"
              : webhook.disabled_for && "it kept failing",
          ],
          ["Events", webhook.events ? webhook.events.join(", ") : "all"],
          ["Last delivered", <Time at={webhook.last_delivered_at} />],
          ["Failing since", webhook.failing_since && <Time at={webhook.failing_since} />],
          ["Failures in a row", webhook.failures > 0 && count(webhook.failures)],
          ["Next attempt", webhook.next_attempt_at && <Time at={webhook.next_attempt_at} />],
          ["Events behind", count(webhook.events_behind)],
          ["Events missed", webhook.events_missed > 0 && count(webhook.events_missed)],
          ["Public key", webhook.public_key && <code>{webhook.public_key}</code>],
        ]}
      />
    </Card>
  );
}

function Events({ path, mayManage }: { path: string; mayManage: boolean }) {
  const { query } = usePlace();
  const looked = query.get("look");
  const [changes, setChanges] = useState(0);
  return (
    <>
      <List<EventItem>
        label="events"
        path={`${path}/events`}
        refreshed={changes}
        rowFilters={[
          {
            name: "event",
            label: "Of type",
            options: EVENT_TYPES,
            holds: ({ type }, value) => type === value,
          },
          {
            name: "status",
            label: "With status",
            options: ["success", "pending", "attempting", "failed"],
            holds: ({ status }, value) => status === value,
          },
        ]}
        columns={[
          {
            name: "Event",
            cell: ({ id, type }) => (
              <button type="button" class="plain" onClick={() => refine({ look: id })}>
                {type}
              </button>
            ),
            csv: ({ type }) => type,
          },
          { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
          timeColumn("At", ({ created_at }) => created_at),
          {
            name: "Actions",
            unnamed: true,
            wide: true,
            numeric: true,
            cell: ({ id }) =>
              mayManage && (
                <Do
                  name="Replay"
                  act={() => call("POST", `${path}/events/${id}/replay`).then(() => setChanges(changes + 1))}
                />
              ),
          },
        ]}
        empty={
          <Empty title="Nothing was sent yet">
            <p>“Send a test event” shows at once whether your endpoint answers.</p>
          </Empty>
        }
      />
      {looked && <Look path={`${path}/events/${looked}`} onClose={() => refine({ look: null })} />}
    </>
  );
}

function Look({ path, onClose }: { path: string; onClose(): void }) {
  const { data, error } = useGet<WebhookEvent>(path);
  return (
    <Dialog title={data?.type ?? "Event"} onClose={onClose}>
      <Refusal error={error} />
      {data ? <Code label="Payload" text={JSON.stringify(data.payload, null, 2)} /> : <Skeleton />}
      <Attempts path={path} rowFilters={[ANSWER_FILTER]} />
    </Dialog>
  );
}

const ANSWER_FILTER: RowFilter<Attempt> = {
  name: "answer",
  label: "With answer",
  options: ["taken", "refused", "none"],
  holds: ({ http_status_code }, value) => answerOf(http_status_code) === value,
};
const ATTEMPT_FILTERS: readonly RowFilter<Attempt>[] = [
  {
    name: "event",
    label: "Of type",
    options: EVENT_TYPES,
    holds: ({ event_type }, value) => event_type === value,
  },
  ANSWER_FILTER,
];

function answerOf(status: number): "taken" | "refused" | "none" {
  if (status === 0) return "none";
  return status >= 200 && status < 300 ? "taken" : "refused";
}

function Attempts({
  path,
  rowFilters,
  refreshed,
}: {
  path: string;
  rowFilters: readonly RowFilter<Attempt>[];
  refreshed?: unknown;
}) {
  return (
    <List<Attempt>
      label="attempts"
      path={`${path}/attempts`}
      rowFilters={rowFilters}
      refreshed={refreshed}
      columns={[
        {
          name: "Answer",
          cell: ({ http_status_code, error }) => (
            <Badge
              state="answer"
              words={http_status_code > 0 ? String(http_status_code) : (error ?? "no answer")}
              tone={answerOf(http_status_code) === "taken" ? "good" : "bad"}
            />
          ),
          csv: ({ http_status_code }) => http_status_code,
        },
        {
          name: "Event",
          wide: true,
          cell: ({ event_type }) => event_type ?? "test",
          csv: ({ event_type }) => event_type,
        },
        {
          name: "Response",
          cell: (attempt) => <span class="reply">{wordsOf(attempt).slice(0, 300)}</span>,
          csv: wordsOf,
        },
        {
          name: "Took",
          wide: true,
          numeric: true,
          cell: ({ duration_ms }) => `${duration_ms} ms`,
          csv: ({ duration_ms }) => duration_ms,
        },
        timeColumn("At", ({ sent_at }) => sent_at),
      ]}
      empty={
        <Empty title="No attempt yet">
          <p>Each request to the endpoint shows here, with its answer.</p>
        </Empty>
      }
    />
  );
}

/** The endpoint's own words tell more than ours about its status. */
function wordsOf({ response, error }: Attempt): string {
  return response || (error ?? "");
}

function Edit({
  webhook,
  onDone,
  onClose,
}: {
  webhook: Webhook;
  onDone(): Promise<unknown>;
  onClose(): void;
}) {
  const path = `v1/webhooks/${webhook.id}`;
  const { before, changesTo } = useChanges(fieldsOf(webhook), async () => fieldsOf(await get<Webhook>(path)));
  const save = async (fields: FormData) => {
    const chosen = fields.getAll("event").map(String);
    const { endpoint, events } = await changesTo({
      endpoint: textOf(fields, "endpoint"),
      events: inWords(chosen),
    });
    const changes = {
      ...(endpoint !== undefined && { endpoint }),
      ...(events !== undefined && { events: chosen.length > 0 ? chosen : null }),
    };
    if (Object.keys(changes).length > 0) await call("PATCH", path, changes);
    await onDone();
    onClose();
  };
  return (
    <Dialog title="Edit webhook" onClose={onClose}>
      <Form button="Save" onSubmit={save}>
        <Text label="Endpoint" name="endpoint" type="url" value={before.endpoint} />
        <EventChecks chosen={before.events.split(", ")} />
      </Form>
    </Dialog>
  );
}

function fieldsOf({ endpoint, events }: Webhook) {
  return { endpoint, events: inWords(events ?? []) };
}

/** Whatever order they were chosen in. */
function inWords(events: readonly string[]): string {
  return events.length === 0 ? "all" : [...events].sort().join(", ");
}

function Replay({
  path,
  onDone,
  onClose,
  tell,
}: {
  path: string;
  onDone(): Promise<unknown>;
  onClose(): void;
  tell(words: string): void;
}) {
  const replay = async (fields: FormData) => {
    const [since, until] = ["since", "until"].map((name) => textOf(fields, name));
    const span = {
      ...(since && { since: new Date(since).toISOString() }),
      ...(until && { until: new Date(until).toISOString() }),
    };
    const isSpan = Boolean(since || until);
    const { events, has_more } = await call<Replayed>(
      ...(["POST", `${path}/replay`, isSpan ? span : { failed: true }] as const),
    );
    tell(
      `${isSpan ? "Up to " : ""}${counted(events, "event is", "events are")} sent again.${has_more ? " Others that failed remain: replay again." : ""}`,
    );
    await onDone();
    onClose();
  };
  return (
    <Dialog title="Replay events" onClose={onClose}>
      <Form button="Send again" onSubmit={replay}>
        <p>Without times, all events that failed are sent again. {OWN_TIME}</p>
        <div class="fields-row">
          <Text label="Since" name="since" type="datetime-local" isOptional />
          <Text label="Until" name="until" type="datetime-local" isOptional />
        </div>
      </Form>
    </Dialog>
  );
}
