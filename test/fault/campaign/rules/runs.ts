/**
 * Automations: each accepted event starts its run, and once; each run ends, having taken every step of one
 * way through its automation once; and each mail of an automation is the effect of exactly one step.
 */
import {
  type Aftermath,
  type FinalEmail,
  type FinalRun,
  type History,
  isUnknown,
  mayBeDone,
  type Operation,
  type Violation,
} from "../history.ts";
import { AUTOMATIONS } from "../shop.ts";
import { ERASED, said } from "./fates.ts";

export function judgeRuns(history: History, after: Aftermath): Violation[] {
  const people = new People(history, after);
  return [
    ...after.runs.flatMap((run) => judgeRun(run, people)),
    ...judgeMails(after, people),
    ...judgeEvents(history, after, people),
    ...judgeEntries(after),
  ];
}

/** Who may have been erased or unsubscribed; contacts that are gone were erased. */
class People {
  readonly #addressOf: ReadonlyMap<string, string>;
  readonly #erased: ReadonlySet<string>;
  readonly #unsubscribed: ReadonlySet<string>;

  constructor({ operations }: History, { contacts }: Aftermath) {
    this.#addressOf = new Map(contacts.map(({ id, address }) => [id, address]));
    const changes = operations.filter(mayBeDone);
    this.#erased = new Set(changes.flatMap(({ kind, address }) => (kind === "erase" && address) || []));
    this.#unsubscribed = new Set(
      changes.flatMap(({ sets, address }) => (sets?.isUnsubscribed && address) || []),
    );
  }

  isThere(contactId: string): boolean {
    return this.#addressOf.has(contactId);
  }

  mayBeErased(address: string): boolean {
    return this.#erased.has(address);
  }

  mayBeUnsubscribed(contactId: string): boolean {
    const address = this.#addressOf.get(contactId);
    return address === undefined || this.mayBeUnsubscribedAt(address);
  }

  mayBeUnsubscribedAt(address: string): boolean {
    return this.#unsubscribed.has(address);
  }
}

function judgeRun(run: FinalRun, people: People): Violation[] {
  const wrong = (what: string): Violation[] => [
    { rule: "run", subject: run.id, what: `its ${run.automation} run ${what}`, evidence: stepsOf(run) },
  ];
  if (run.state === "active") return wrong("has not ended");
  if (run.state === "stopped")
    return run.reason === "contact erased" && !people.isThere(run.contactId)
      ? []
      : wrong(`was stopped: ${run.reason}`);
  const taken = run.steps.map(({ position }) => position).join(" ");
  const ways = AUTOMATIONS[run.automation]?.ways ?? [];
  if (!ways.includes(taken)) return wrong(`took the steps ${taken}, which is no way through it`);
  const skipped = run.steps.find(({ result }) => result === "skipped");
  if (skipped && !people.mayBeUnsubscribed(run.contactId)) return wrong(`skipped a step: ${skipped.detail}`);
  return [];
}

function judgeMails({ runs, emails }: Aftermath, people: People): Violation[] {
  const madeBy = new Map<string, FinalRun[]>();
  for (const run of runs)
    for (const { kind, result, detail } of run.steps)
      if (kind === "send" && result === "done" && detail !== null)
        madeBy.set(detail, [...(madeBy.get(detail) ?? []), run]);
  const automated = new Map(
    emails.filter(({ isAutomated }) => isAutomated).map((email) => [email.id, email]),
  );
  const unwritten = [...madeBy].filter(([id]) => !automated.has(id));
  const unmade = [...automated.values()].filter(
    (email) => !madeBy.has(email.id) && !hasChangedMind(email, people),
  );
  return [
    ...unwritten.map(([id, [run]]) => ({
      rule: "step without effect",
      subject: id,
      what: `a step of the run ${run?.id} says that it wrote this e-mail, and there is none`,
      evidence: run ? stepsOf(run) : [],
    })),
    ...unmade.map(({ id, subject, to, status }) => ({
      rule: "effect without step",
      subject: id,
      what: `an automation wrote this e-mail, and no step says so`,
      evidence: [`${subject} to ${to.join(", ")}, ${status}`],
    })),
  ];
}

/**
 * The contact changed between the step's effect and its note: the run was stopped, or took the step as
 * skipped.
 */
function hasChangedMind({ to }: FinalEmail, people: People): boolean {
  return to.some(
    (address) => ERASED.test(address) || people.mayBeErased(address) || people.mayBeUnsubscribedAt(address),
  );
}

function judgeEvents({ operations }: History, after: Aftermath, people: People): Violation[] {
  const runsOf = new Map<string, number>();
  for (const { eventId, automation } of after.runs)
    runsOf.set(`${eventId} ${automation}`, (runsOf.get(`${eventId} ${automation}`) ?? 0) + 1);
  const eventsOf = new Map<number, string[]>();
  for (const { id, operation } of after.events)
    eventsOf.set(operation, [...(eventsOf.get(operation) ?? []), id]);
  return operations
    .filter(({ kind }) => kind === "event")
    .flatMap((operation): Violation[] => {
      const kept = eventsOf.get(operation.n) ?? [];
      const wrong = (rule: string, what: string): Violation[] => [
        { rule, subject: `operation ${operation.n}`, what, evidence: operation.tries.map(said) },
      ];
      const told = toldEvents(operation);
      if (told.size > 1) return wrong("one key, two answers", `its event was told under ${told.size} ids`);
      if (kept.length > 1)
        return wrong("one key, two effects", `it made ${kept.length} events: ${kept.join(", ")}`);
      if (kept.length > 0 && !mayBeDone(operation))
        return wrong("refused yet kept", "its event was refused and kept");
      const [id] = told;
      if (id !== undefined && kept.length === 0 && !people.mayBeErased(operation.address ?? ""))
        return wrong("lost", `its event ${id} was accepted and does not exist`);
      for (const [name, automation] of Object.entries(AUTOMATIONS)) {
        if (automation.event !== operation.event || automation.entry !== "every" || kept.length === 0)
          continue;
        const runs = runsOf.get(`${kept[0]} ${name}`) ?? 0;
        if (runs !== 1) return wrong("run", `its event ${kept[0]} started ${runs} runs of ${name}`);
      }
      return [];
    });
}

function judgeEntries({ runs }: Aftermath): Violation[] {
  const entered = new Map<string, FinalRun>();
  return runs.flatMap((run): Violation[] => {
    if (AUTOMATIONS[run.automation]?.entry !== "once") return [];
    const place = `${run.automation} ${run.contactId}`;
    const first = entered.get(place);
    entered.set(place, run);
    if (!first) return [];
    return [
      {
        rule: "run",
        subject: run.id,
        what: `its contact entered ${run.automation} twice, which lets nobody enter again`,
        evidence: [`the first run was ${first.id}`],
      },
    ];
  });
}

function toldEvents({ tries }: Operation): Set<string> {
  return new Set(
    tries.flatMap(({ answer }) =>
      answer.kind === "answered" && !isUnknown(answer) && answer.status === 202
        ? (answer.body as { id: string }).id
        : [],
    ),
  );
}

function stepsOf({ state, reason, steps }: FinalRun): string[] {
  return [
    `${state}${reason === null ? "" : `: ${reason}`}`,
    ...steps.map(({ position, kind, result, detail }) => `${position} ${kind} ${result} ${detail ?? ""}`),
  ];
}
