import { useMemo } from "preact/hooks";
import { fullDays } from "../clock.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Meter, Refusal, Screen, Skeleton, Time } from "../parts/bits.tsx";
import { Chart } from "../parts/chart.tsx";
import { BASE, refine, usePlace } from "../place.ts";
import type { Used } from "../shapes.ts";
import { count, counted, dayName, percent } from "../words.ts";
import { NextStep } from "./caps.tsx";
import { FirstEmail } from "./emails.tsx";

type Day = {
  day: string;
  accepted: number;
  attempted: number;
  delivered: number;
  deferred: number;
  hard_bounced: number;
  soft_bounced: number;
  blocked: number;
  complained: number;
  failed: number;
};
type Attention = {
  kind: string;
  severity: "danger" | "warning";
  text: string;
  remedy: string;
  link: string | null;
};
export type Quota = Record<"day" | "month", Used & { resets_at: string }>;
type Overview = {
  days: Day[];
  caps: { hour: Used; day: Used; waiting: number };
  quota: Quota;
  queue: Record<"scheduled" | "waiting" | "deferred" | "queued" | "in_flight", number>;
  attention: Attention[];
};

const SPANS = ["7", "30", "90"];

export function OverviewScreen() {
  const { query } = usePlace();
  const span = SPANS.find((one) => one === query.get("days")) ?? "30";
  const { data, error } = useGet<Overview>(`overview?days=${span}`);
  return (
    <Screen title="Overview" actions={<Span chosen={span} />}>
      <Refusal error={error} />
      {!data && !error && <Skeleton lines={10} />}
      {data && <Found {...data} />}
    </Screen>
  );
}

function bounced({ hard_bounced, soft_bounced, blocked }: Day): number {
  return hard_bounced + soft_bounced + blocked;
}

/** Days before the first on which any was counted are not known: versions before counted none. */
function acceptedOf(days: readonly Day[]): (number | null)[] {
  const first = days.findIndex(({ accepted }) => accepted > 0);
  return days.map(({ accepted }, n) => (first === -1 || n < first ? null : accepted));
}

/** Nothing where they were counted on all days on which anything was sent. */
function countedSince(days: readonly Day[]): string | undefined {
  const first = days.findIndex(({ accepted }) => accepted > 0);
  if (first === -1 || days.slice(0, first).every(({ attempted }) => attempted === 0)) return undefined;
  return `since ${dayName(new Date(days[first]?.day ?? ""))}`;
}

function Span({ chosen }: { chosen: string }) {
  return (
    <fieldset class="segments">
      <legend class="unseen">Days shown</legend>
      {SPANS.map((days) => (
        <button key={days} type="button" aria-pressed={days === chosen} onClick={() => refine({ days })}>
          {days} days
        </button>
      ))}
    </fieldset>
  );
}

function Found({ days, caps, quota, queue, attention }: Overview) {
  const total = (name: Exclude<keyof Day, "day">) => days.reduce((sum, day) => sum + day[name], 0);
  const allBounced = days.reduce((sum, day) => sum + bounced(day), 0);
  const { labels, sent, refused } = useMemo(() => {
    const shown = fullDays(days, ({ accepted, attempted }) => accepted + attempted > 0);
    return {
      labels: shown.map(({ day }) => day),
      sent: [
        { name: "Accepted", colour: 1, values: acceptedOf(shown) },
        {
          name: "First attempts",
          colour: 4,
          isDashed: true,
          values: shown.map(({ attempted }) => attempted),
        },
        { name: "Delivered", colour: 0, isFilled: true, values: shown.map(({ delivered }) => delivered) },
        { name: "Deferred", colour: 2, values: shown.map(({ deferred }) => deferred) },
      ],
      refused: [
        { name: "Bounced", colour: 3, values: shown.map(bounced) },
        { name: "Complained", colour: 2, values: shown.map(({ complained }) => complained) },
        { name: "Failed", colour: 4, values: shown.map(({ failed }) => failed) },
      ],
    };
  }, [days]);
  if (total("accepted") + total("attempted") === 0 && attention.length === 0) return <FirstEmail />;
  return (
    <>
      <Attentions attention={attention} />
      <dl class="tiles">
        <Tile name="Accepted" value={count(total("accepted"))} note={countedSince(days)} />
        <Tile name="First attempts" value={count(total("attempted"))} />
        <Tile
          name="Delivered"
          value={count(total("delivered"))}
          note={percent(total("delivered"), total("attempted"))}
        />
        <Tile name="Bounced" value={count(allBounced)} note={percent(allBounced, total("attempted"))} />
        <Tile
          name="Complaints"
          value={count(total("complained"))}
          note={percent(total("complained"), total("delivered"))}
        />
        <Tile
          name="In the queue"
          value={count(queue.queued + queue.in_flight + queue.deferred)}
          note={queue.waiting > 0 ? counted(queue.waiting, "waits for a cap", "wait for a cap") : undefined}
        />
      </dl>
      <div class="halves">
        <Card>
          <Chart title="Recipients per day" days={labels} series={sent} />
        </Card>
        <Card>
          <Chart title="Refused per day" days={labels} series={refused} />
        </Card>
        <Card title="Sending caps" actions={<a href={`${BASE}/caps`}>Caps and forecast</a>}>
          <Meter name="The last hour" {...caps.hour} />
          <Meter
            name="Today (UTC)"
            {...caps.day}
            note={
              caps.waiting > 0 && counted(caps.waiting, "e-mail waits for room.", "e-mails wait for room.")
            }
          />
          <NextStep />
        </Card>
        <Card title="Quota" actions={<a href={`${BASE}/usage`}>Usage</a>}>
          <QuotaMeters quota={quota} />
        </Card>
      </div>
    </>
  );
}

export function QuotaMeters({ quota: { day, month } }: { quota: Quota }) {
  return (
    <>
      <Meter name="Today (UTC)" used={day.used} limit={day.limit} note={<Resets at={day.resets_at} />} />
      <Meter
        name="This month (UTC)"
        used={month.used}
        limit={month.limit}
        note={
          <>
            <Resets at={month.resets_at} /> Mail of automations counts for the month only.
          </>
        }
      />
    </>
  );
}

function Resets({ at }: { at: string }) {
  return (
    <>
      Resets <Time at={at} />.
    </>
  );
}

export function Tile({ name, value, note }: { name: string; value: string; note?: string | undefined }) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>
        <span class="value">{value}</span> {note && <span class="muted">{note}</span>}
      </dd>
    </div>
  );
}

function Attentions({ attention }: { attention: readonly Attention[] }) {
  if (attention.length === 0) return null;
  return (
    <Card title="Needs attention">
      <ul class="plain-list">
        {attention.map(({ kind, severity, text, remedy, link }) => (
          <li key={kind + text}>
            <Badge state={severity} tone={severity === "danger" ? "bad" : "warn"} /> <strong>{text}</strong>
            <div>
              {remedy} {link && <a href={link}>Look</a>}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}
