/**
 * What the auditor judges by. While the campaign runs, everything that callers asked and were told, every
 * copy that the sink took, every process and every fault is noted here. `Aftermath` is what was found when
 * all was quiet again. Both are plain data: the rules need nothing else.
 *
 * All times are in ms of the campaign's own clock.
 */

export type Role = "api" | "keeper" | "deliver" | "automate";

/** A workspace of the campaign and the limits it was made with. `null` is a limit that nobody meets. */
export type Tenant = {
  id: string;
  name: string;
  quota: { period: "day" | "month"; limit: number } | null;
  /** Whether its hourly cap is small and raised bit by bit. */
  isCapped: boolean;
};

/** The hourly cap of a workspace from `at` on: the moment before the change was asked for. */
export type CapStage = { workspaceId: string; at: number; cap: number };

/** What became of one request. */
export type Answer =
  | { kind: "answered"; status: number; body: unknown }
  /** No connection could be had: the request never left. */
  | { kind: "refused" }
  /** The answer did not arrive. */
  | { kind: "lost"; why: string };

export type Try = {
  /** The process that was asked, by the name of its life. */
  process: string;
  askedAt: number;
  answeredAt: number;
  answer: Answer;
};

export type OperationKind =
  | "single"
  | "batch strict"
  | "batch permissive"
  | "reschedule"
  | "cancel"
  | "read"
  | "contact"
  | "edit"
  | "tag"
  | "erase"
  | "event";

/** An e-mail as it was written into a request. */
export type Written = {
  isValid: boolean;
  recipients: string[];
  /** Recipients that count for the quota. */
  counted: number;
  /** When it is to go, in ms; null: at once. */
  scheduledAt: number | null;
};

/** One thing a caller wanted, with every request it took. */
export type Operation = {
  n: number;
  kind: OperationKind;
  workspaceId: string;
  idempotencyKey: string | null;
  /** Of sends: what is in the request, in its order. */
  mails: readonly Written[];
  /** Of operations on an e-mail: which one, and when it is to go. */
  emailId: string | null;
  newTime: number | null;
  /** Of operations on a contact and of events. */
  address: string | null;
  /** Of operations on a contact: what is true once it is done. */
  sets: { firstName?: string; tag?: string; isUnsubscribed?: true } | null;
  /** Of events: the name. */
  event: string | null;
  tries: Try[];
  /** Requests that are under way. */
  open: number;
};

/** A mail that the sink took. */
export type Copy = {
  messageId: string;
  emailId: string;
  /** `X-Campaign`, which names the operation and the place in its request; null for mail of automations. */
  origin: string | null;
  recipients: readonly string[];
  /** The life that delivered it, by its EHLO name. */
  process: string;
  connection: number;
  begunAt: number;
  completeAt: number;
  /** null: the answer to the final dot was never sent. */
  answeredAt: number | null;
  closedAt: number | null;
  closedPolitely: boolean;
};

/**
 * One process from its start to its end. A member of the fleet has many lives, `deliver-1.1`, `deliver-1.2`,
 * ...
 */
export type Life = {
  name: string;
  member: string;
  role: Role;
  startedAt: number;
  /** null: it never served. */
  readyAt: number | null;
  /** When it was told to end, and how. */
  told: { at: number; signal: "SIGTERM" | "SIGKILL" } | null;
  ended: { at: number; status: number | null; signal: string | null } | null;
  /** By how much its clock is wrong. */
  skewMs: number;
  /** The last lines of its log, for lives that ended by themselves. */
  lastWords: string[];
};

/**
 * Something that kept processes from what they need, for a time.
 *
 *   frozen   the member stood still
 *   cut      the member alone could not reach Postgres
 *   shaky    the member's connections to Postgres were slow, or broken again and again
 *   outage   nobody could write to Postgres
 *   slow     Postgres itself took longer than a second for a commit, as was measured beside the engine
 */
export type Spell = {
  kind: "frozen" | "cut" | "shaky" | "outage" | "slow";
  /** null: all of them. */
  member: string | null;
  from: number;
  /** null: it lasts. */
  to: number | null;
};

/** A workspace that was to move to another cell, until it is there: the command was run so many times. */
export type Move = {
  workspaceId: string;
  to: string;
  from: number;
  /** null: it has not got there. */
  endedAt: number | null;
  runs: number;
  pauseMs: number | null;
  /** What the command said last. */
  said: string;
};

export type History = {
  beganAt: number;
  tenants: readonly Tenant[];
  caps: CapStage[];
  operations: Operation[];
  copies: Copy[];
  /** In how many transactions with the sink each recipient was named, and what it was told, by address. */
  named: ReadonlyMap<string, { times: number; replies: readonly string[] }>;
  lives: Life[];
  spells: Spell[];
  moves: Move[];
};

export type FinalEmail = {
  id: string;
  workspaceId: string;
  /** As the API says it. */
  status: string;
  subject: string;
  to: readonly string[];
  scheduledAt: number | null;
  createdAt: number;
  isAutomated: boolean;
  /** As the record has it. */
  marks: string;
  weight: number;
  attempts: number;
  events: readonly { type: string; recipient?: string; detail?: string }[];
};

export type FinalRun = {
  id: string;
  workspaceId: string;
  automation: string;
  contactId: string;
  eventId: string;
  state: string;
  reason: string | null;
  steps: readonly { position: string; kind: string; result: string; detail: string | null }[];
};

export type FinalContact = {
  id: string;
  address: string;
  firstName: string | null;
  status: string;
  tags: readonly string[];
};

export type FinalLedger = {
  workspaceId: string;
  monthUsed: number;
  dayUsed: number;
  waiting: number;
};

export type FinalTally = {
  workspaceId: string;
  attempted: number;
  delivered: number;
  deferred: number;
  bounced: number;
  failed: number;
};

export type Aftermath = {
  emails: readonly FinalEmail[];
  runs: readonly FinalRun[];
  contacts: readonly FinalContact[];
  /** With the number of the operation that asked for it. */
  events: readonly { id: string; operation: number }[];
  ledgers: readonly FinalLedger[];
  tallies: readonly FinalTally[];
  /** Bags and due rows that are left although nothing is on its way. */
  leftBags: number;
  leftDue: number;
  /** E-mails of which there are rows in more than one cell. */
  inTwoCells: readonly string[];
};

/** What a rule found to be wrong, with what proves it. */
export type Violation = { rule: string; subject: string; what: string; evidence: string[] };

export function isSend({ kind }: Operation): boolean {
  return kind === "single" || kind === "batch strict" || kind === "batch permissive";
}

export function originOf(operation: Operation, index: number): string {
  return `${operation.n}/${index}`;
}

/**
 * The ids of the e-mails that an operation was told, with their place in the request; the same for each of
 * its tries.
 */
export function toldIds(operation: Operation): { id: string; index: number }[] {
  if (!isSend(operation)) return [];
  for (const { answer } of operation.tries) {
    if (answer.kind !== "answered" || answer.status !== 200) continue;
    const places = operation.mails.flatMap(({ isValid }, index) => (isValid ? [index] : []));
    return idsIn(answer.body).map((id, n) => ({ id, index: places[n] ?? -1 }));
  }
  return [];
}

export function idsIn(body: unknown): string[] {
  const { id, data } = body as { id?: string; data?: { id: string }[] };
  return data ? data.map((one) => one.id) : id ? [id] : [];
}

/** Whether nobody can say what became of a request: its answer was lost, or was that nobody knows. */
export function isUnknown(answer: Answer): boolean {
  if (answer.kind === "lost") return true;
  return answer.kind === "answered" && answer.status === 500;
}

export function wasDone(operation: Operation): boolean {
  return operation.tries.some(
    ({ answer }) => answer.kind === "answered" && answer.status >= 200 && answer.status < 300,
  );
}

export function mayBeDone(operation: Operation): boolean {
  return wasDone(operation) || operation.tries.some(({ answer }) => isUnknown(answer));
}
