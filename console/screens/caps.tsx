import { useMemo, useState } from "preact/hooks";
import { call, inquire } from "../call.ts";
import { fullDays } from "../clock.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Empty, Facts, Meter, Refusal, Screen, Skeleton, Tabs, Time } from "../parts/bits.tsx";
import { Chart } from "../parts/chart.tsx";
import { Diff } from "../parts/diff.tsx";
import { objectIn } from "../parts/editor.tsx";
import { Area, Check, Dialog, Form, maybe, OWN_TIME, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, hidden, numberColumn, Table } from "../parts/table.tsx";
import { BASE, refine, usePlace } from "../place.ts";
import { useConsole } from "../session.ts";
import { capital, count, counted, fullTime, withFullTimes } from "../words.ts";

type Cap = { used: number; limit: number; grown: number };
type Change = {
  id: string;
  at: string;
  dayBefore: number;
  dayAfter: number;
  hourBefore: number;
  hourAfter: number;
  level: string;
  by: string;
  reason: string;
  counts: Counts | null;
};
/** The numbers that decided: of a step the window with its rate, of growth the days that were judged. */
type Counts = Partial<Record<"days" | "events" | "of" | "at_least" | "limit" | "window_days", number>> & {
  measure?: "bounce" | "complaint";
  since?: string;
  stream?: string;
};
type Ahead = { capDay: number; capHour: number; level: string; used: number; reason: string | null };
type ForecastDay = { day: string; likely: Ahead; most: Ahead };
type Counted = {
  day: string;
  attempted: number;
  delivered: number;
  bounced: number;
  complained: number;
  used: number;
  delayed: number;
};
type Override = {
  minimum: number | null;
  maximum: number | null;
  fixed: number | null;
  fixedHour: number | null;
  until: number | null;
  by: string;
  reason: string;
};
type Caps = {
  level: string;
  cap_day: Cap;
  cap_hour: Cap;
  waiting: { transactional: number; automation: number };
  override: Override | null;
  hears_reports: boolean;
  policy_version: string;
  /** As sentences. */
  why: { why: string[]; changes: string[] };
  history: Change[];
  forecast: ForecastDay[];
  days: Counted[];
};

const LEVELS: Record<string, string> = {
  normal: "The caps grow with each healthy day that uses them.",
  frozen: "The caps stay as they are until the evidence is better.",
  shrunk: "The caps were cut. They grow again after clean days.",
  paused: "Only transactional mail goes out.",
  probing: "After a pause: a little of the other mail goes out, and more each healthy day.",
};
/** The fastest growth would flatten everything else. */
const SCALE = 2.5;
const TABS = [
  { id: "forecast", name: "Forecast" },
  { id: "history", name: "History" },
  { id: "evidence", name: "Evidence" },
  { id: "policy", name: "Policy" },
];

export function CapsScreen() {
  const { data, error, reload } = useGet<Caps>("caps");
  const { query } = usePlace();
  const { session } = useConsole();
  const [isSetting, setSetting] = useState(false);
  const chosen = TABS.find(({ id }) => id === query.get("tab"))?.id ?? "forecast";
  return (
    <Screen
      title="Caps"
      intro="How many recipients this workspace may send to in an hour and in a day. Mail over a cap waits."
      actions={
        <>
          <a class="button" href={`${BASE}/caps/simulator`}>
            Simulator
          </a>
          {session.is_operator && (
            <button type="button" onClick={() => setSetting(true)}>
              Override
            </button>
          )}
        </>
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && (
        <>
          <div class="halves">
            <Now {...data} />
            <State {...data} />
          </div>
          <Card>
            <Tabs label="Caps" tabs={TABS} chosen={chosen} onChoose={(tab) => refine({ tab })} />
            {chosen === "forecast" && <Forecast days={data.days} ahead={data.forecast} now={data.cap_day} />}
            {chosen === "history" && <History newest={data.history[0]?.id} />}
            {chosen === "evidence" && (
              <Evidence days={data.days} hears={data.hears_reports} changes={data.history} />
            )}
            {chosen === "policy" && <Policy />}
          </Card>
        </>
      )}
      {isSetting && data && (
        <SetOverride now={data.override} onDone={reload} onClose={() => setSetting(false)} />
      )}
    </Screen>
  );
}

function Now({ cap_hour, cap_day, waiting }: Caps) {
  const all = waiting.transactional + waiting.automation;
  return (
    <Card title="Used now">
      <Meter name="The last hour" used={cap_hour.used} limit={cap_hour.limit} />
      <Meter name="Today (UTC)" used={cap_day.used} limit={cap_day.limit} />
      <p>
        {all === 0 ? (
          "Nothing waits."
        ) : (
          <a href={`${BASE}/emails?status=waiting`}>
            {counted(all, "e-mail waits", "e-mails wait")}: {count(waiting.transactional)} transactional,{" "}
            {count(waiting.automation)} of automations
          </a>
        )}
      </p>
    </Card>
  );
}

function State({ level, override, hears_reports, policy_version, why }: Caps) {
  return (
    <Card title="Level">
      <p>
        <Badge state={level} tone={level === "normal" ? "good" : level === "paused" ? "bad" : "warn"} />{" "}
        {LEVELS[level]}
      </p>
      {why.why.map((sentence) => (
        <p key={sentence}>{withFullTimes(sentence)}</p>
      ))}
      <details>
        <summary>What would change it</summary>
        <ul>
          {why.changes.map((sentence) => (
            <li key={sentence}>{withFullTimes(sentence)}</li>
          ))}
        </ul>
      </details>
      <Facts
        facts={[
          ["Override", override && `${sayOverride(override)}, by ${override.by}: ${override.reason}`],
          [
            "Bounces and complaints after delivery",
            hears_reports ? "heard" : "not heard: BOUNCE_DOMAIN is not set",
          ],
          ["Policy", policy_version === "0" ? "the built-in one" : `version ${policy_version}`],
        ]}
      />
    </Card>
  );
}

function sayOverride({ minimum, maximum, fixed, fixedHour, until }: Override): string {
  const parts = [
    fixed !== null && `exactly ${count(fixed)} a day`,
    fixedHour !== null && `exactly ${count(fixedHour)} an hour`,
    minimum !== null && `at least ${count(minimum)} a day`,
    maximum !== null && `at most ${count(maximum)} a day`,
    until !== null && `until ${fullTime(until)}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function Forecast({
  days,
  ahead,
  now,
}: {
  days: readonly Counted[];
  ahead: readonly ForecastDay[];
  now: Cap;
}) {
  const { labels, series, most } = useMemo(() => {
    const past = days.slice(-14);
    const none = past.map(() => null);
    const today = past.length > 0 ? [...none.slice(1), now.limit] : [];
    const known = [now.limit, ...past.map(({ used }) => used), ...ahead.map(({ likely }) => likely.capDay)];
    const used = fullDays(past, ({ used }) => used > 0).map(({ used }) => used);
    const begun = past.slice(used.length).map(() => null);
    return {
      most: SCALE * Math.max(...known),
      labels: [...past.map(({ day }) => day), ...ahead.map(({ day }) => day)],
      series: [
        {
          name: "Sent",
          colour: 1,
          isFilled: true,
          values: [...used, ...begun, ...ahead.map(() => null)],
        },
        {
          name: "Cap, if traffic stays",
          colour: 0,
          isStep: true,
          values: [...today, ...ahead.map(({ likely }) => likely.capDay)],
        },
        {
          name: "Cap, if all of it is used",
          colour: 0,
          isStep: true,
          isDashed: true,
          values: [...today, ...ahead.map(({ most }) => most.capDay)],
        },
      ],
    };
  }, [days, ahead, now.limit]);
  const steps = stepsOf(ahead);
  return (
    <>
      <Chart title="Recipients per day" days={labels} series={series} most={most} />
      {steps.length === 0 && <NothingAhead />}
      {steps.length > 0 && (
        <ShortList
          label="steps ahead"
          filters={AHEAD_FILTERS}
          rows={steps}
          keyOf={({ day }) => day}
          columns={AHEAD_COLUMNS}
        />
      )}
    </>
  );
}

const AHEAD_FILTERS: readonly RowFilter<ForecastDay>[] = [
  {
    name: "ahead",
    label: "Find",
    holds: ({ day, likely }, value) => isIn(value, day, likely.level, likely.reason),
  },
];
const AHEAD_COLUMNS: readonly Column<ForecastDay>[] = [
  { name: "Day", cell: ({ day }) => <span class="nowrap">{day}</span>, csv: ({ day }) => day },
  numberColumn("Cap", ({ likely }) => likely.capDay),
  numberColumn("At most", ({ most }) => most.capDay, true),
  {
    name: "Level",
    wide: true,
    cell: ({ likely }) => capital(likely.level),
    csv: ({ likely }) => likely.level,
  },
  { name: "Why", cell: ({ likely }) => likely.reason, csv: ({ likely }) => likely.reason },
];

function stepsOf(ahead: readonly ForecastDay[]): ForecastDay[] {
  return ahead.filter(({ likely }, n) => likely.reason && likely.reason !== ahead[n - 1]?.likely.reason);
}

function NothingAhead() {
  return <p class="muted">No change is ahead, if traffic stays as in the last week.</p>;
}

/** What comes next, in a sentence. */
export function NextStep() {
  const { data } = useGet<Caps>("caps");
  if (!data) return null;
  const [next] = stepsOf(data.forecast);
  if (!next) return <NothingAhead />;
  const { day, likely } = next;
  return (
    <p>
      Next: {count(likely.capDay)} a day from {day} ({likely.level}), if traffic stays as in the last week:{" "}
      {likely.reason}
    </p>
  );
}

const HISTORY_FILTERS: readonly RowFilter<Change>[] = [
  {
    name: "level",
    label: "Level",
    options: Object.keys(LEVELS),
    holds: ({ level }, value) => level === value,
  },
  {
    name: "find",
    label: "Find",
    holds: ({ by, reason, at }, value) => isIn(value, by, reason, at),
  },
];

function History({ newest }: { newest: string | undefined }) {
  return (
    <List<Change>
      label="changes"
      path="caps/history"
      rowFilters={HISTORY_FILTERS}
      refreshed={newest}
      columns={[
        {
          name: "When",
          cell: ({ at, reason }) => (
            <>
              <Time at={at} />
              <span class="narrow small-text">{reason}</span>
            </>
          ),
          csv: ({ at }) => at,
        },
        {
          name: "A day",
          numeric: true,
          cell: ({ dayBefore, dayAfter }) => <Step before={dayBefore} after={dayAfter} />,
          csv: ({ dayAfter }) => dayAfter,
        },
        {
          name: "An hour",
          numeric: true,
          wide: true,
          cell: ({ hourBefore, hourAfter }) => <Step before={hourBefore} after={hourAfter} />,
          csv: ({ hourAfter }) => hourAfter,
        },
        { name: "Level", wide: true, cell: ({ level }) => capital(level), csv: ({ level }) => level },
        { name: "By", wide: true, cell: ({ by }) => by, csv: ({ by }) => by },
        { name: "Why", wide: true, cell: ({ reason }) => reason, csv: ({ reason }) => reason },
      ]}
      empty={
        <Empty title="No change yet">
          <p>Each change of the caps shows here, with the counts that decided it.</p>
        </Empty>
      }
    />
  );
}

function Step({ before, after }: { before: number; after: number }) {
  return (
    <span class="nowrap">
      {count(before)} → <strong>{count(after)}</strong>
    </span>
  );
}

/** The windows of mail in which harm was surely too much, at the newest changes. */
function Windows({ changes }: { changes: readonly Change[] }) {
  const decided = changes.filter(({ counts }) => counts?.measure !== undefined);
  if (decided.length === 0) return null;
  return (
    <ShortList
      label="windows that decided"
      filters={WINDOW_FILTERS}
      rows={decided}
      keyOf={({ id }) => id}
      columns={WINDOW_COLUMNS}
      exported={EXPORTED_WINDOWS}
    />
  );
}

function rate(share = 0): string {
  return `${Number((100 * share).toPrecision(2))}%`;
}

const WINDOW_FILTERS: readonly RowFilter<Change>[] = [
  {
    name: "measure",
    label: "Measure",
    options: ["bounce", "complaint"],
    holds: ({ counts }, value) => counts?.measure === value,
  },
];
const WINDOW_COLUMNS: readonly Column<Change>[] = [
  { name: "Decided", cell: ({ at }) => <Time at={at} />, csv: ({ at }) => at },
  {
    name: "Window",
    cell: ({ counts }) => (
      <>
        {counts?.measure === "bounce" ? "Bounces" : "Complaints"}
        {counts?.stream && ` of ${counts.stream}`} since {counts?.since && fullTime(counts.since)}
      </>
    ),
  },
  {
    name: "Observed",
    numeric: true,
    cell: ({ counts }) => {
      const { events = 0, of = 0 } = counts ?? {};
      return `${rate(events / Math.max(1, of))}, ${count(events)} of ${count(of)}`;
    },
  },
  {
    name: "Surely over",
    numeric: true,
    cell: ({ counts }) => rate(counts?.at_least),
    csv: ({ counts }) => counts?.at_least,
  },
  {
    name: "Limit",
    numeric: true,
    cell: ({ counts }) => rate(counts?.limit),
    csv: ({ counts }) => counts?.limit,
  },
  { name: "Level", wide: true, cell: ({ level }) => capital(level), csv: ({ level }) => level },
];
const EXPORTED_WINDOWS: readonly Column<Change>[] = [
  ...WINDOW_COLUMNS,
  hidden("Measure", ({ counts }) => counts?.measure),
  hidden("Stream", ({ counts }) => counts?.stream),
  hidden("Since", ({ counts }) => counts?.since),
  hidden("Events", ({ counts }) => counts?.events),
  hidden("Of", ({ counts }) => counts?.of),
  hidden("Why", ({ reason }) => reason),
];

type EvidenceProps = { days: readonly Counted[]; hears: boolean; changes: readonly Change[] };

const DAY_FILTERS: readonly RowFilter<Counted>[] = [
  { name: "day", label: "Day", placeholder: "2026-11", holds: ({ day }, value) => isIn(value, day) },
];
const DAY_COLUMNS: readonly Column<Counted>[] = [
  { name: "Day (UTC)", cell: ({ day }) => <span class="nowrap">{day}</span>, csv: ({ day }) => day },
  numberColumn("Tried", ({ attempted }) => attempted),
  numberColumn("Delivered", ({ delivered }) => delivered, true),
  numberColumn("Hard bounces", ({ bounced }) => bounced),
  numberColumn("Complaints", ({ complained }) => complained),
  numberColumn("Used of the cap", ({ used }) => used, true),
  numberColumn("Waited", ({ delayed }) => delayed, true),
];

function Evidence({ days, hears, changes }: EvidenceProps) {
  const shown = [...days].reverse().slice(0, 30);
  return (
    <>
      {!hears && (
        <p class="banner warn">
          Only what receivers say during delivery is counted: BOUNCE_DOMAIN is not set.
        </p>
      )}
      <Windows changes={changes} />
      <ShortList
        label="days that the policy judges"
        filters={DAY_FILTERS}
        rows={shown}
        keyOf={({ day }) => day}
        columns={DAY_COLUMNS}
      />
    </>
  );
}

type PolicyAnswer = {
  version: string;
  policy: Record<string, unknown>;
  default_policy: Record<string, unknown>;
  shadow: ShadowAnswer | null;
};
type StepCounts = Record<"freezes" | "pauses" | "shrinks", number>;
type ShadowStep = {
  at: string;
  day_before: number;
  day_after: number;
  level_before: string;
  level: string;
  reason: string;
};
type ShadowAnswer = {
  policy: Record<string, unknown>;
  since: string;
  steps: { shadow: StepCounts; in_force: StepCounts };
  changes: ShadowStep[];
};
type Replayed = { day: string; capDay: number; used: number; actual: number; over: number };

/** The policy in force beside the one that ships, and a trial of another on the recorded days. */
function Policy() {
  const { data, error } = useGet<PolicyAnswer>("caps/policy");
  const [replayed, setReplayed] = useState<Replayed[] | null>(null);
  const chart = useMemo(
    () => ({
      days: replayed?.map(({ day }) => day) ?? [],
      series: [
        {
          name: "Really sent",
          colour: 4,
          isDashed: true,
          values: replayed?.map(({ actual }) => actual) ?? [],
        },
        { name: "Sent under it", colour: 1, isFilled: true, values: replayed?.map(({ used }) => used) ?? [] },
        {
          name: "Cap under it",
          colour: 0,
          isStep: true,
          values: replayed?.map(({ capDay }) => capDay) ?? [],
        },
        { name: "Would have waited", colour: 3, values: replayed?.map(({ over }) => over) ?? [] },
      ],
    }),
    [replayed],
  );
  if (!data) return error ? <Refusal error={error} /> : <Skeleton />;
  const shipped = JSON.stringify(data.default_policy, null, 2);
  const inForce = textLike(data.default_policy, data.policy);
  const replay = async (fields: FormData) => {
    const policy = objectIn("Another policy", textOf(fields, "policy"));
    setReplayed((await inquire<{ data: Replayed[] }>("caps/replay", { policy })).data);
  };
  return (
    <div class="stack">
      <h3>What differs from the policy that Postrider ships</h3>
      {inForce === shipped ? (
        <p>Nothing: the policy in force is the one that ships.</p>
      ) : (
        <Diff before={shipped} after={inForce} />
      )}
      {data.shadow && (
        <Shadow
          shadow={data.shadow}
          inForce={inForce}
          policy={textLike(data.default_policy, data.shadow.policy)}
        />
      )}
      <Form button="Replay the recorded days" onSubmit={replay}>
        <Area
          label="Another policy"
          name="policy"
          rows={14}
          value={inForce}
          hint="Changes nothing: it shows what the caps would have been."
        />
      </Form>
      {replayed && <Chart title="Recipients per day" {...chart} />}
    </div>
  );
}

/** As JSON, with its fields in the order of the other: in another order they decide the same. */
function textLike(other: unknown, policy: unknown): string {
  return JSON.stringify(ordered(other, policy), null, 2);
}

function ordered(other: unknown, value: unknown): unknown {
  if (!isSection(other) || !isSection(value)) return value;
  const names = new Set([...Object.keys(other), ...Object.keys(value)].filter((name) => name in value));
  return Object.fromEntries([...names].map((name) => [name, ordered(other[name], value[name])]));
}

function isSection(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

const SHADOW_FILTERS: readonly RowFilter<ShadowStep>[] = [
  {
    name: "shadow",
    label: "Find",
    holds: ({ level_before, level, reason }, value) => isIn(value, level_before, level, reason),
  },
];
const SHADOW_COLUMNS: readonly Column<ShadowStep>[] = [
  { name: "When", cell: ({ at }) => <Time at={at} />, csv: ({ at }) => at },
  {
    name: "Cap a day",
    numeric: true,
    cell: ({ day_before, day_after }) => `${count(day_before)} to ${count(day_after)}`,
    csv: ({ day_after }) => day_after,
  },
  {
    name: "Level",
    wide: true,
    cell: ({ level_before, level }) => `${level_before} to ${level}`,
    csv: ({ level }) => level,
  },
  { name: "Reason", shrinks: true, cell: ({ reason }) => reason, csv: ({ reason }) => reason },
];

const STEP_COLUMNS: readonly Column<StepCounts & { name: string }>[] = [
  { name: "Policy", cell: ({ name }) => name },
  numberColumn("Freezes", ({ freezes }) => freezes),
  numberColumn("Pauses", ({ pauses }) => pauses),
  numberColumn("Shrinks", ({ shrinks }) => shrinks),
];

/** What is judged on the same evidence and changes nothing. */
function Shadow({ shadow, inForce, policy }: { shadow: ShadowAnswer; inForce: string; policy: string }) {
  const { since, steps, changes } = shadow;
  return (
    <Card title="The shadow policy">
      <p>
        Judged beside the policy in force since <Time at={since} />, without effect. What each did to this
        workspace since:
      </p>
      <Table
        label="Steps of both policies"
        rows={[
          { name: "In force", ...steps.in_force },
          { name: "Shadow", ...steps.shadow },
        ]}
        keyOf={({ name }) => name}
        columns={STEP_COLUMNS}
      />
      {changes.length > 0 && (
        <ShortList
          label="steps of the shadow policy"
          region="What the shadow policy would have done"
          filters={SHADOW_FILTERS}
          rows={changes}
          keyOf={({ at, reason }) => at + reason}
          columns={SHADOW_COLUMNS}
        />
      )}
      <h4>What differs from the policy in force</h4>
      <Diff before={inForce} after={policy} />
    </Card>
  );
}

/** What is set replaces what was: the form begins with that, so that nothing gets lost unseen. */
function SetOverride({
  now,
  onDone,
  onClose,
}: {
  now: Override | null;
  onDone(): Promise<unknown>;
  onClose(): void;
}) {
  const { workspace } = useConsole();
  const [ends, setEnds] = useState(false);
  const set = async (fields: FormData) => {
    const reason = maybe(fields, "reason");
    await call(
      "POST",
      `operator/caps/${workspace?.id}`,
      ends ? { clear: true, reason } : { ...limitsIn(fields), reason },
    );
    await onDone();
    onClose();
  };
  return (
    <Dialog title="Override the policy" onClose={onClose}>
      <Form button={ends ? "End the override" : "Set"} onSubmit={set}>
        {now && <Check label="End the override that there is" name="clear" onChange={setEnds} />}
        {!ends && (
          <>
            <p>
              All numbers are recipients. A minimum or a maximum bounds what the policy decides. A fixed
              number holds whatever the policy decides, and lets other than transactional mail go during a
              pause.
            </p>
            <div class="fields-row">
              {LIMITS.map(({ name, label, of }) => (
                <Text
                  key={name}
                  {...{ label, name }}
                  type="number"
                  value={String((now && of(now)) ?? "")}
                  isOptional
                />
              ))}
            </div>
            <Text
              label="Until"
              name="until"
              type="datetime-local"
              value={now?.until ? localMinute(now.until) : ""}
              isOptional
              hint={`Empty: for good. ${OWN_TIME}`}
            />
          </>
        )}
        <Text label="Reason" name="reason" hint="Shown in the history." />
      </Form>
    </Dialog>
  );
}

const LIMITS: { name: string; label: string; of(override: Override): number | null }[] = [
  { name: "minimum", label: "Minimum a day", of: ({ minimum }) => minimum },
  { name: "maximum", label: "Maximum a day", of: ({ maximum }) => maximum },
  { name: "fixed", label: "Fixed a day", of: ({ fixed }) => fixed },
  { name: "fixed_hour", label: "Fixed an hour", of: ({ fixedHour }) => fixedHour },
];

function limitsIn(fields: FormData): object {
  const limits = LIMITS.flatMap(({ name }) => {
    const value = textOf(fields, name);
    return value === "" ? [] : [[name, Number(value)]];
  });
  if (limits.length === 0) throw new Error("Give one of the numbers at least.");
  const until = textOf(fields, "until");
  return { ...Object.fromEntries(limits), ...(until !== "" && { until: new Date(until).toISOString() }) };
}

/** As a field for times has it: in the time of this computer. */
function localMinute(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
