/**
 * One step of a run to the next. Pure: what the step at a position does, and where the run goes on.
 *
 * A position is the way to a step: `3` is the fourth step, `3.a.0` the first of its branch `a`. `end` is
 * behind the last step. A run that waits already stands at the step it goes on with.
 *
 * A percentage is drawn from the contact and the step, so a contact that comes again takes the same branch.
 */
import { createHash } from "node:crypto";
import { DAY_MS } from "../clock.ts";
import {
  type ComparingBudget,
  type Happening,
  holdsAll,
  type Person,
  TooMuchCompared,
} from "../rules/filters.ts";
import { momentAfter, parseSpan } from "../rules/spans.ts";
import {
  type Automation,
  type AutomationStep,
  RUN_AGE_DAYS_MAX,
  type SendStep,
  type TagChange,
} from "./document.ts";

export const START = "0";
export const END = "end";
const RUN_AGE_MS_MAX = RUN_AGE_DAYS_MAX * DAY_MS;

export type RunState = {
  automationId: string;
  startedAt: number;
  /** null: erased. */
  contact: (Person & { isArchived: boolean }) | null;
  event: Happening;
};

export type Skip = "unsubscribed" | "pending" | "archived";

export type Move =
  | { kind: "wait"; until: number; next: string }
  | { kind: "send"; send: SendStep; contact: Person; next: string }
  | { kind: "tag"; tag: TagChange; next: string }
  | { kind: "branch"; label: string | null; next: string }
  | { kind: "skip"; step: "send" | "tag"; reason: Skip; next: string }
  | { kind: "finish" }
  | { kind: "stop"; reason: string };

/** What `budget` does not cover stops the run: nobody can say which branch it takes. */
export function moveFrom(
  automation: Automation,
  position: string,
  run: RunState,
  now: number,
  budget: ComparingBudget,
): Move {
  const { contact } = run;
  if (!contact) return { kind: "stop", reason: "contact erased" };
  const step = stepAt(automation.steps, position);
  if (!step) return { kind: "finish" };
  if (now - run.startedAt > RUN_AGE_MS_MAX) return { kind: "stop", reason: "older than a year" };
  const next = after(automation.steps, position);
  switch (step.kind) {
    case "wait":
      return { kind: "wait", until: untilOf(step.wait, now), next };
    case "send": {
      const reason = whyNotSend(contact);
      if (reason) return { kind: "skip", step: "send", reason, next };
      return { kind: "send", send: step.send, contact, next };
    }
    case "tag":
      if (contact.isArchived) return { kind: "skip", step: "tag", reason: "archived", next };
      return { kind: "tag", tag: step.tag, next };
    case "split":
    case "share": {
      try {
        const label = branchOf(step, position, { ...run, contact }, budget);
        return {
          kind: "branch",
          label,
          next: label === null ? next : into(automation.steps, position, label),
        };
      } catch (error) {
        if (!(error instanceof TooMuchCompared)) throw error;
        return { kind: "stop", reason: "its conditions compare too much" };
      }
    }
  }
}

/** The step a position leads to; null behind the last one. */
function stepAt(steps: readonly AutomationStep[], position: string): AutomationStep | null {
  if (position === END) return null;
  const [index, label, ...rest] = position.split(".");
  const step = steps[Number(index)] ?? null;
  if (step === null || label === undefined) return step;
  return stepAt(stepsOf(step, label), rest.join("."));
}

/** Where a run goes on behind a step: the next beside it, else behind the step that holds its branch. */
function after(steps: readonly AutomationStep[], position: string): string {
  const path = position.split(".");
  while (path.length > 0) {
    const index = Number(path.pop());
    const holder = path.slice(0, -1).join(".");
    const beside =
      path.length === 0 ? steps : stepsOf(stepAt(steps, holder) as AutomationStep, path.at(-1) as string);
    if (index + 1 < beside.length) return [...path, index + 1].join(".");
    path.pop();
  }
  return END;
}

/** The first step of a branch; an empty one leads on behind its split. */
function into(steps: readonly AutomationStep[], position: string, label: string): string {
  const inside = stepsOf(stepAt(steps, position) as AutomationStep, label);
  return inside.length > 0 ? `${position}.${label}.0` : after(steps, position);
}

function stepsOf(step: AutomationStep, label: string): readonly AutomationStep[] {
  const branches = "branches" in step ? step.branches : [];
  return branches.find((branch) => branch.label === label)?.steps ?? [];
}

function branchOf(
  step: AutomationStep & { kind: "split" | "share" },
  position: string,
  { automationId, contact, event }: RunState & { contact: Person },
  budget: ComparingBudget,
): string | null {
  if (step.kind === "split") {
    const taken = step.branches.find(
      ({ filters }) => filters === null || holdsAll(filters, contact, event, budget),
    );
    return taken?.label ?? null;
  }
  const drawn = drawOf(`${automationId} ${contact.id} ${position}`);
  let sum = 0;
  for (const { label, percent } of step.branches) {
    sum += percent;
    if (drawn < sum) return label;
  }
  return step.branches.findLast(({ percent }) => percent > 0)?.label ?? null;
}

/** At least 0 and less than 100. */
function drawOf(name: string): number {
  return (createHash("sha256").update(name).digest().readUInt32BE() / 2 ** 32) * 100;
}

function untilOf(wait: string | { until: string; timezone?: string }, now: number): number {
  if (typeof wait === "string") return now + (parseSpan(wait) as number);
  return momentAfter(wait.until, wait.timezone ?? "UTC", now);
}

function whyNotSend({ isArchived, status }: Person & { isArchived: boolean }): Skip | null {
  if (isArchived) return "archived";
  return status === "subscribed" ? null : status;
}
