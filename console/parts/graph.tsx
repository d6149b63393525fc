/**
 * The steps of an automation, from the event down; branches stand side by side. It is drawn while somebody
 * writes the document, so no field need be there, or be what it should.
 */
import type { ComponentChildren } from "preact";

type Filters = unknown;
/** As the document writes it: one of the fields is there. */
export type Step = {
  wait?: string | { until: string; timezone?: string };
  send?: { template?: string; subject?: string; from?: string };
  tag?: { add?: string[]; remove?: string[] };
  split?: SplitBranch[] | Shares;
};
type SplitBranch = { if?: Filters; then?: Step[]; else?: Step[] };
type Shares = { percent?: Record<string, number> } & Record<string, unknown>;
export type Branch = { label: string; at: string; steps: readonly Step[] };
/** Null: no run is through with the step. */
export type StepState = "done" | "skipped" | null;
/** What runs did at each place of the document. */
export type Done = ReadonlyMap<string, { state: StepState; words(step: Step): ComponentChildren }>;

export function Graph({ event, steps, done }: { event: string; steps: readonly Step[]; done?: Done }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section class="graph" tabIndex={0} aria-label="Steps">
      <ol>
        <li>
          <div class="step trigger">
            <strong>When</strong>
            <code>{event}</code>
          </div>
        </li>
        <Steps steps={steps} at="" done={done} />
      </ol>
    </section>
  );
}

function Steps({ steps, at, done }: { steps: readonly Step[]; at: string; done?: Done | undefined }) {
  return (
    <>
      {stepsIn(steps).map((step, n) => {
        const place = `${at}${n}`;
        const did = done?.get(place);
        const branches = branchesOf(step, place);
        return (
          <li key={place}>
            <div class={`step ${did?.state ?? ""}`}>
              <strong>{nameOf(step)}</strong>
              <span>{wordsOf(step)}</span>
              {did && <span class="muted small-text">{did.words(step)}</span>}
            </div>
            {branches.length > 0 && (
              <div class="branches">
                {branches.map((branch) => (
                  <div key={branch.at} class="branch">
                    <span class="muted small-text">{branch.label}</span>
                    <ol>
                      <Steps steps={branch.steps} at={branch.at} done={done} />
                    </ol>
                  </div>
                ))}
              </div>
            )}
          </li>
        );
      })}
    </>
  );
}

function stepsIn(steps: unknown): readonly Step[] {
  return listIn<Step | null>(steps).map((step) => step ?? {});
}

function listIn<T>(value: unknown): readonly T[] {
  return Array.isArray(value) ? value : [];
}

function nameOf({ wait, send, tag, split }: Step): string {
  if (wait !== undefined) return "Wait";
  if (send !== undefined) return "Send";
  if (tag !== undefined) return "Tag";
  return split === undefined ? "Unknown step" : "Split";
}

function wordsOf({ wait, send, tag, split }: Step): string {
  if (typeof wait === "string") return wait;
  if (wait !== undefined) return `until ${wait?.until}${wait?.timezone ? `, ${wait.timezone}` : ""}`;
  if (send !== undefined) return send?.subject ?? `template ${send?.template}`;
  if (tag !== undefined) {
    const added = listIn<string>(tag?.add).map((one) => `+ ${one}`);
    return [...added, ...listIn<string>(tag?.remove).map((one) => `− ${one}`)].join(", ");
  }
  if (Array.isArray(split)) return "the first branch that matches";
  return split === undefined ? "" : "by percentage";
}

/**
 * The places are those that runs name their steps by: `3.a.0` is the first step of branch `a` of the fourth.
 */
function branchesOf({ split }: Step, place: string): Branch[] {
  if (split === undefined) return [];
  if (Array.isArray(split))
    return split.map((branch: SplitBranch | null, n) => ({
      label: branch?.else === undefined ? `if ${sayFilters(branch?.if)}` : "else",
      at: `${place}.${n}.`,
      steps: stepsIn(branch?.else ?? branch?.then),
    }));
  return Object.entries(split?.percent ?? {}).map(([label, share]) => ({
    label: `${label}: ${share}%`,
    at: `${place}.${label}.`,
    steps: stepsIn(split[label]),
  }));
}

/** The name of the branch that a run took at a split; null: it is not in these steps. */
export function branchTaken(steps: readonly Step[], place: string, label: string, at = ""): string | null {
  for (const [n, step] of steps.entries())
    for (const branch of branchesOf(step, `${at}${n}`)) {
      const name =
        branch.at === `${place}.${label}.`
          ? branch.label
          : branchTaken(branch.steps, place, label, branch.at);
      if (name !== null) return name;
    }
  return null;
}

function sayFilters(filters: Filters): string {
  const all = Array.isArray(filters) ? filters : [filters];
  return all.map(sayFilter).join(" and ");
}

function sayFilter(filter: unknown): string {
  const fields = (filter ?? {}) as Record<string, unknown>;
  if (Array.isArray(fields.and)) return fields.and.map(sayFilter).join(" and ");
  if (Array.isArray(fields.or)) return `(${fields.or.map(sayFilter).join(" or ")})`;
  if (fields.not !== undefined) return `not (${sayFilter(fields.not)})`;
  const { field, ...test } = fields;
  const [[operator, value] = ["", ""]] = Object.entries(test);
  return `${String(field).replace(/^(contact|event)\.(properties\.)?/, "")} ${operator} ${JSON.stringify(value)}`;
}
