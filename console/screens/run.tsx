import { useMemo } from "preact/hooks";
import { serverNow } from "../clock.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Facts, Refusal, Screen, Skeleton, Time } from "../parts/bits.tsx";
import { branchTaken, Graph, type Step, type StepState } from "../parts/graph.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, hidden } from "../parts/table.tsx";
import { BASE } from "../place.ts";
import type { Contact } from "../shapes.ts";
import { fullTime, withFullTimes } from "../words.ts";
import type { Automation } from "./automations.tsx";

type RunStep = {
  key: string;
  type: string;
  status: string;
  output: { result: string; detail: string | null };
  started_at: string;
  completed_at: string;
};
type Run = {
  id: string;
  version: number;
  status: string;
  contact_id: string;
  reason: string | null;
  started_at: string;
  next_step_at: string | null;
  completed_at: string | null;
  steps: RunStep[];
};

/** Most automations have fewer steps. */
const AT_A_GLANCE = 12;
const STEP_FILTERS: readonly RowFilter<RunStep>[] = [
  {
    name: "step",
    label: "Find",
    holds: ({ type, status, output }, value) => isIn(value, type, status, output.result, output.detail),
  },
];
const STEP_COLUMNS: readonly Column<RunStep>[] = [
  hidden("Step", ({ key }) => key),
  hidden("Type", ({ type }) => type),
  hidden("Status", ({ status }) => status),
  hidden("Result", ({ output }) => output.result),
  hidden("Detail", ({ output }) => output.detail),
  hidden("Began", ({ started_at }) => started_at),
  hidden("Ended", ({ completed_at }) => completed_at),
];

type Version = { document: { event: string; steps: Step[] } };

export function RunScreen({ id, other }: { id: string; other: string }) {
  const { data: automation } = useGet<Automation>(`v1/automations/${id}`);
  const { data: run, error } = useGet<Run>(`v1/automations/${id}/runs/${other}`);
  // steps are named by their place in the document, which is another one since
  const { data: begun } = useGet<Version>(run && `automations/${id}/versions/${run.version}`);
  const written = begun?.document;
  const contactPath = automation && run && `audiences/${automation.audience_id}/contacts/${run.contact_id}`;
  const { data: contact } = useGet<Contact>(contactPath && `v1/${contactPath}`);
  const done = useMemo(
    () =>
      new Map(
        run?.steps.map((step) => [
          step.key,
          { state: stateOf(step), words: () => <Did step={step} steps={written?.steps ?? []} /> },
        ]),
      ),
    [run, written],
  );
  return (
    <Screen
      title="Run"
      intro={
        run && (
          <>
            <Badge state={run.status} /> {run.reason}
          </>
        )
      }
      back={{ href: `${BASE}/automations/${id}?tab=runs`, name: automation?.name ?? "Automation" }}
    >
      <Refusal error={error} />
      {!run && !error && <Skeleton />}
      {run && (
        <div class="columns">
          <Card title="What it did">
            {written && <Graph event={written.event} steps={written.steps} done={done} />}
          </Card>
          <div>
            <Card title="Run">
              <Facts
                facts={[
                  [
                    "Version",
                    automation && automation.version !== run.version
                      ? `${run.version} of the automation, which is at ${automation.version}`
                      : run.version,
                  ],
                  [
                    "Contact",
                    contactPath && <a href={`${BASE}/${contactPath}`}>{contact?.email ?? "Open"}</a>,
                  ],
                  ["Started", fullTime(run.started_at)],
                  ["Next step", run.next_step_at && <Time at={run.next_step_at} />],
                  ["Ended", run.completed_at && fullTime(run.completed_at)],
                ]}
              />
            </Card>
            <Card title="Steps">
              <ShortList
                label="steps"
                filters={STEP_FILTERS}
                rows={run.steps}
                atAGlance={AT_A_GLANCE}
                columns={STEP_COLUMNS}
                draw={(steps) => (
                  <ol class="timeline">
                    {steps.map((step) => (
                      <li key={step.key}>
                        {isUnderWay(step) ? (
                          <Badge state="waiting" tone="calm" />
                        ) : (
                          <Badge state={step.status} />
                        )}{" "}
                        {step.type} <Time at={step.completed_at} />
                        <div class="reply">
                          <Result step={step} steps={written?.steps ?? []} /> <Detail step={step} />
                        </div>
                      </li>
                    ))}
                  </ol>
                )}
              />
              {run.steps.length === 0 && <p class="muted">Nothing was done yet.</p>}
            </Card>
          </div>
        </div>
      )}
    </Screen>
  );
}

/** A wait is noted when it begins, with its end. */
function isUnderWay({ type, output: { result, detail } }: RunStep): boolean {
  return type === "wait" && result === "done" && detail !== null && Date.parse(detail) > serverNow();
}

function stateOf(step: RunStep): StepState {
  if (step.status === "skipped") return "skipped";
  return isUnderWay(step) ? null : "done";
}

/** Of a step that sends, the e-mail; of one that waits, until when. */
function Detail({ step: { type, output } }: { step: RunStep }) {
  if (output.detail === null) return null;
  if (type === "send" && output.result === "done")
    return <a href={`${BASE}/emails/${output.detail}`}>the e-mail</a>;
  return <>{withFullTimes(output.detail)}</>;
}

type StepOfRun = { step: RunStep; steps: readonly Step[] };

/** Of a step that waits the end, of a split the branch: their results are for programs. */
function Result({ step: { key, type, output }, steps }: StepOfRun) {
  const { result } = output;
  if (type === "wait" && result === "done") return <>until</>;
  if (type !== "split" || result === "skipped") return <>{result}</>;
  if (result === "none") return <>no branch</>;
  return <>{branchTaken(steps, key, result) ?? `branch ${result}`}</>;
}

function Did({ step, steps }: StepOfRun) {
  const { type, output, completed_at } = step;
  if (type === "wait" && output.result === "done" && output.detail !== null)
    return (
      <>
        {isUnderWay(step) ? "ends" : "ended"} <Time at={output.detail} />
      </>
    );
  return (
    <>
      <Result step={step} steps={steps} /> <Time at={completed_at} />
    </>
  );
}
