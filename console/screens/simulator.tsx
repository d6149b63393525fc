import { useState } from "preact/hooks";
import { inquire } from "../call.ts";
import { useGet, useReadingEvery } from "../hooks.ts";
import { Card, Refusal, Screen, Skeleton } from "../parts/bits.tsx";
import { objectIn } from "../parts/editor.tsx";
import { Area, Choice, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, numberColumn } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import { capital, count } from "../words.ts";

type Scenario = { name: string; scenario: { description: string; days: number } };
type Told = { typical: string; range: string; worst: string };
/** What each policy was measured to do, in their order. */
type Measure = { name: string; says: string; told: Told[]; differs: string | null };
type Change = { bin: number; capDay: number; level: string; reason: string };
type Outcome = { name: string; changes: Change[]; figures: string[] };
type Simulation = {
  scenario: string;
  summary: string[];
  days: number;
  runs: number;
  measures: Measure[];
  outcomes: Outcome[];
  delays: string | null;
};

const LOOK_MS = 500;
/** Of a day in the simulator. */
const BINS_PER_DAY = 288;

export function SimulatorScreen() {
  const { data: scenarios, error } = useGet<{ data: Scenario[] }>("caps/scenarios");
  const { data: inForce } = useGet<{ policy: unknown }>("caps/policy");
  const [chosen, choose] = useState("steady-shop");
  const [found, setFound] = useState<Simulation | null>(null);
  const [daysAsked, setDaysAsked] = useState<number | null>(null);
  const scenario = scenarios?.data.find(({ name }) => name === chosen);
  const simulate = async (fields: FormData) => {
    const policy = textOf(fields, "policy");
    const [days, runs] = [Number(textOf(fields, "days")), Number(textOf(fields, "runs"))];
    const asked = {
      ...{ scenario: chosen, days, runs, seed: Number(textOf(fields, "seed")) },
      ...(policy !== "" && { policy: objectIn("Policy", policy) }),
    };
    setDaysAsked(days * runs * (policy === "" ? 1 : 2));
    try {
      setFound(await inquire<Simulation>("caps/simulate", asked));
    } finally {
      setDaysAsked(null);
    }
  };
  return (
    <Screen
      title="Simulator"
      intro="The policy of caps on simulated workspaces. It changes nothing here."
      back={{ href: `${BASE}/caps`, name: "Caps" }}
    >
      <Refusal error={error} />
      {!scenarios && !error && <Skeleton />}
      {scenarios && (
        <Card>
          <Form button="Simulate" onSubmit={simulate}>
            <Choice
              label="Scenario"
              name="scenario"
              value={chosen}
              onChange={choose}
              options={scenarios.data.map(({ name }) => ({
                value: name,
                name: capital(name.replaceAll("-", " ")),
              }))}
              hint={scenario?.scenario.description}
            />
            <div class="fields-row">
              <Text
                key={chosen}
                label="Days"
                name="days"
                type="number"
                value={String(scenario?.scenario.days ?? 60)}
              />
              <Text label="Workspaces" name="runs" type="number" value="20" />
              <Text label="Seed" name="seed" type="number" value="1" />
            </div>
            <details>
              <summary>Use another policy</summary>
              <Area label="Policy" name="policy" isOptional rows={12} hint="Empty: the policy in force." />
              {inForce !== null && <p class="hint">The policy in force is under Caps, Policy.</p>}
            </details>
            {daysAsked !== null && <Progress days={daysAsked} />}
          </Form>
        </Card>
      )}
      {found && <Results {...found} />}
    </Screen>
  );
}

/**
 * Of all workspaces under all policies; nothing where it runs in another process than the one that answers.
 */
function Progress({ days }: { days: number }) {
  const { data, reload } = useGet<{ share: number | null }>("caps/simulate");
  useReadingEvery(LOOK_MS, reload);
  const share = data?.share ?? null;
  if (share === null) return null;
  return (
    <div>
      <p>
        {count(Math.floor(share * days))} of {count(days)} days are simulated.
      </p>
      <progress max={1} value={share} aria-label="Days simulated" />
    </div>
  );
}

function Results({ scenario, summary, days, runs, measures, outcomes, delays }: Simulation) {
  return (
    <>
      <Card
        title={`${capital(scenario.replaceAll("-", " "))}: ${days} days, ${runs} ${runs === 1 ? "workspace" : "workspaces"}`}
      >
        {summary.map((sentence) => (
          <p key={sentence}>{sentence}</p>
        ))}
      </Card>
      <ShortList
        label="measures"
        rows={measures}
        keyOf={({ name }) => name}
        columns={outcomes.length > 1 ? comparing(outcomes) : OF_ONE}
      />
      <div class={outcomes.length > 1 ? "halves" : ""}>
        {outcomes.map((outcome) => (
          <UnderOne key={outcome.name} {...outcome} isAlone={outcomes.length === 1} />
        ))}
      </div>
      {delays && (
        <Card title="Waiting">
          <Figures of={[delays]} />
        </Card>
      )}
    </>
  );
}

const MEASURE: Column<Measure> = {
  name: "Measure",
  cell: ({ says }) => capital(says),
  csv: ({ says }) => says,
};

function said(name: string, of: (measure: Measure) => string | undefined): Column<Measure> {
  return { name, numeric: true, cell: of, csv: of };
}

const OF_ONE: Column<Measure>[] = [
  MEASURE,
  said("Typical", ({ told }) => told[0]?.typical),
  { ...said("95% interval", ({ told }) => told[0]?.range), wide: true },
  said("At worst", ({ told }) => told[0]?.worst),
];

function comparing(outcomes: readonly Outcome[]): Column<Measure>[] {
  return [
    MEASURE,
    ...outcomes.flatMap(({ name }, n): Column<Measure>[] => [
      said(capital(name), ({ told }) => told[n]?.typical),
      { ...said(`${capital(name)}, at worst`, ({ told }) => told[n]?.worst), wide: true },
    ]),
    {
      ...said("Your policy, with 95% confidence", ({ differs }) => differs ?? "no difference shown"),
      wide: true,
    },
  ];
}

function UnderOne({ name, changes, figures, isAlone }: Outcome & { isAlone: boolean }) {
  const label = isAlone ? "Under the policy in force" : `Under ${name}`;
  return (
    <section aria-label={label}>
      <Card title={label}>
        <div class={isAlone ? "halves" : ""}>
          <Figures of={figures} />
        </div>
        {changes.length > 0 && (
          <ShortList<Change & { n: number }>
            label="changes"
            region={`Changes of the first workspace under ${isAlone ? "it" : name}`}
            filters={[filterOf(name)]}
            rows={changes.map((change, n) => ({ ...change, n }))}
            keyOf={({ n }) => String(n)}
            columns={CHANGE_COLUMNS}
          />
        )}
      </Card>
    </section>
  );
}

/** Each outcome has its own. */
function filterOf(outcome: string): RowFilter<Change> {
  return {
    name: `changes ${outcome}`,
    label: "Find",
    holds: ({ level, reason }, value) => isIn(value, level, reason),
  };
}

const CHANGE_COLUMNS: readonly Column<Change>[] = [
  { name: "Day", numeric: true, cell: dayOf, csv: dayOf },
  numberColumn("Cap", ({ capDay }) => capDay),
  {
    name: "Level",
    cell: ({ level, reason }) => (
      <>
        {capital(level)}
        <span class="narrow small-text">{reason}</span>
      </>
    ),
    csv: ({ level }) => level,
  },
  { name: "Why", wide: true, cell: ({ reason }) => reason, csv: ({ reason }) => reason },
];

function dayOf({ bin }: Change): number {
  return Math.floor(bin / BINS_PER_DAY);
}

/** Drawn by the engine as for its report: text of its own, whose names are escaped. */
function Figures({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((html, n) => (
        <div key={n} class="drawn" dangerouslySetInnerHTML={{ __html: html }} />
      ))}
    </>
  );
}
