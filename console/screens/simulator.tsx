import { useMemo, useState } from "preact/hooks";
import { inquire } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Card, Refusal, Screen, Skeleton } from "../parts/bits.tsx";
import { Chart } from "../parts/chart.tsx";
import { objectIn } from "../parts/editor.tsx";
import { Area, Choice, Form, Text, textOf } from "../parts/form.tsx";
import { Table } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import { capital, count } from "../words.ts";

type Scenario = { name: string; scenario: { description: string; days: number } };
type ToldMeasure = { name: string; says: string; typical: string; range: string; worst: string };
type Day = {
  day: string;
  cap: number;
  demand: number;
  used: number;
  waiting: number;
  bounced: number;
  complained: number;
  reputation: number;
};
type Change = { bin: number; capDay: number; level: string; reason: string };
type Outcome = {
  name: string;
  version: string;
  told: ToldMeasure[];
  band: { low: number; middle: number; high: number }[];
  shown: { days: Day[]; changes: Change[] };
};
type Simulation = { scenario: string; summary: string[]; days: number; runs: number; outcomes: Outcome[] };

/** Of a day in the simulator. */
const BINS_PER_DAY = 288;

export function SimulatorScreen() {
  const { data: scenarios, error } = useGet<{ data: Scenario[] }>("caps/scenarios");
  const { data: inForce } = useGet<{ policy: unknown }>("caps/policy");
  const [chosen, choose] = useState("steady-shop");
  const [found, setFound] = useState<Simulation | null>(null);
  const scenario = scenarios?.data.find(({ name }) => name === chosen);
  const simulate = async (fields: FormData) => {
    const policy = textOf(fields, "policy");
    setFound(
      await inquire<Simulation>("caps/simulate", {
        scenario: chosen,
        runs: Number(textOf(fields, "runs")),
        days: Number(textOf(fields, "days")),
        seed: Number(textOf(fields, "seed")),
        ...(policy !== "" && { policy: objectIn("Policy", policy) }),
      }),
    );
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
          </Form>
        </Card>
      )}
      {found && <Results {...found} />}
    </Screen>
  );
}

function Results({ scenario, summary, days, runs, outcomes }: Simulation) {
  const [outcome] = outcomes;
  return (
    <>
      <Card
        title={`${capital(scenario.replaceAll("-", " "))}: ${days} days, ${runs} ${runs === 1 ? "workspace" : "workspaces"}`}
      >
        {summary.map((sentence) => (
          <p key={sentence}>{sentence}</p>
        ))}
      </Card>
      {outcome && <Outcomes {...outcome} />}
    </>
  );
}

function Outcomes({ shown: { days, changes }, band, told }: Outcome) {
  const labels = useMemo(() => days.map(({ day }) => day), [days]);
  const caps = useMemo(
    () => [
      { name: "Wanted", colour: 4, isDashed: true, values: days.map(({ demand }) => demand) },
      { name: "Sent", colour: 1, isFilled: true, values: days.map(({ used }) => used) },
      { name: "Cap", colour: 0, isStep: true, values: days.map(({ cap }) => cap) },
    ],
    [days],
  );
  const bands = useMemo(
    () => [
      { name: "Lowest", colour: 4, isDashed: true, values: band.map(({ low }) => low) },
      { name: "Middle", colour: 0, values: band.map(({ middle }) => middle) },
      { name: "Highest", colour: 4, isDashed: true, values: band.map(({ high }) => high) },
    ],
    [band],
  );
  const harm = useMemo(
    () => [
      { name: "Bounced", colour: 3, values: days.map(({ bounced }) => bounced) },
      { name: "Complained", colour: 2, values: days.map(({ complained }) => complained) },
    ],
    [days],
  );
  const waits = useMemo(
    () => [
      {
        name: "Waiting in the evening",
        colour: 2,
        isFilled: true,
        values: days.map(({ waiting }) => waiting),
      },
    ],
    [days],
  );
  return (
    <>
      <div class="halves">
        <Card>
          <Chart title="The first workspace" days={labels} series={caps} />
        </Card>
        <Card>
          <Chart title="Caps of all workspaces" days={labels.slice(0, band.length)} series={bands} />
        </Card>
        <Card>
          <Chart title="Bounces and complaints" days={labels} series={harm} />
        </Card>
        <Card>
          <Chart title="Mail that waits" days={labels} series={waits} />
        </Card>
      </div>
      {changes.length > 0 && (
        <Table
          label="Changes of the first workspace"
          rows={changes.map((change, n) => ({ ...change, n }))}
          keyOf={({ n }) => String(n)}
          columns={[
            { name: "Day", numeric: true, cell: ({ bin }) => Math.floor(bin / BINS_PER_DAY) + 1 },
            { name: "Cap", numeric: true, cell: ({ capDay }) => count(capDay) },
            { name: "Level", cell: ({ level }) => capital(level) },
            { name: "Why", cell: ({ reason }) => reason },
          ]}
        />
      )}
      <Table
        label="Measures"
        rows={told}
        keyOf={({ name }) => name}
        columns={[
          { name: "Measure", cell: ({ says }) => capital(says) },
          { name: "Typical", numeric: true, cell: ({ typical }) => typical },
          { name: "95% interval", numeric: true, wide: true, cell: ({ range }) => range },
          { name: "At worst", numeric: true, cell: ({ worst }) => worst },
        ]}
      />
    </>
  );
}
