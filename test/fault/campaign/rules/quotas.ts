/**
 * Quotas: what was accepted of a workspace never passes its limit, whatever callers were told; nobody is
 * refused while there is room; and the ledger has counted exactly what was accepted.
 */
import {
  type Aftermath,
  type History,
  isSend,
  type Operation,
  type Tenant,
  toldIds,
  type Violation,
} from "../history.ts";

const DAY_MS = 86_400_000;

export function judgeQuotas(
  history: History,
  after: Aftermath | null,
): { over: number; violations: Violation[] } {
  const violations: Violation[] = [];
  let over = 0;
  for (const tenant of history.tenants) {
    const { quota } = tenant;
    if (!quota) continue;
    const sends = history.operations.filter((one) => isSend(one) && one.workspaceId === tenant.id);
    const days = quota.period === "day" ? daysTouched(history) : 1;
    const limit = quota.limit * days;
    const used = Math.max(toldAccepted(sends), after ? keptOf(tenant, after) : 0);
    if (used > limit) {
      over += used - limit;
      violations.push({
        rule: "over quota",
        subject: tenant.name,
        what: `${used} recipients were accepted of ${limit} a ${quota.period}`,
        evidence: [`callers were told of ${toldAccepted(sends)}`],
      });
    }
    // of several days nobody can say on which of them a request would have fitted
    if (after && days === 1) violations.push(...refusedInVain(tenant, sends, limit, keptOf(tenant, after)));
  }
  return { over, violations: after ? [...violations, ...judgeLedgers(history, after)] : violations };
}

/** Use only rises, so that a request which would fit even now did fit when it was refused. */
function refusedInVain(
  tenant: Tenant,
  sends: readonly Operation[],
  limit: number,
  used: number,
): Violation[] {
  const wrong = sends.filter((operation) => {
    const asked = countedOf(operation);
    return operation.tries.some(({ answer }) => isOverQuota(answer)) && used + asked <= limit;
  });
  return wrong.map((operation) => ({
    rule: "refused in vain",
    subject: tenant.name,
    what: `operation ${operation.n} was refused for the quota, and ${used} of ${limit} are used even in the end`,
    evidence: operation.tries.map(({ answer }) => JSON.stringify(answer)),
  }));
}

/** Whatever the ledger counts beyond what was accepted is quota that somebody paid for and did not get. */
function judgeLedgers({ tenants }: History, after: Aftermath): Violation[] {
  return after.ledgers.flatMap(({ workspaceId, monthUsed, waiting }) => {
    const tenant = tenants.find(({ id }) => id === workspaceId);
    if (!tenant) return [];
    const kept = keptOf(tenant, after);
    const found: Violation[] = [];
    if (monthUsed !== kept)
      found.push({
        rule: "ledger",
        subject: tenant.name,
        what: `the ledger counts ${monthUsed} recipients this month, and ${kept} were accepted`,
        evidence: [],
      });
    if (waiting !== 0)
      found.push({
        rule: "ledger",
        subject: tenant.name,
        what: `the ledger says that ${waiting} e-mails wait, and none does`,
        evidence: [],
      });
    return found;
  });
}

function toldAccepted(sends: readonly Operation[]): number {
  let told = 0;
  for (const operation of sends)
    for (const { index } of toldIds(operation)) told += operation.mails[index]?.counted ?? 0;
  return told;
}

/** Recipients in `to`; of an automation's mail there is one. */
function keptOf({ id }: Tenant, { emails }: Aftermath): number {
  let kept = 0;
  for (const { workspaceId, to } of emails) if (workspaceId === id) kept += to.length;
  return kept;
}

function countedOf({ mails }: Operation): number {
  return mails.reduce((sum, { isValid, counted }) => sum + (isValid ? counted : 0), 0);
}

function isOverQuota(answer: Operation["tries"][number]["answer"]): boolean {
  return (
    answer.kind === "answered" &&
    answer.status === 429 &&
    (answer.body as { name?: string }).name === "quota_exceeded"
  );
}

/** Quotas by the day begin anew at midnight. */
function daysTouched({ beganAt, operations }: History): number {
  const last = operations.at(-1)?.tries.at(-1)?.answeredAt ?? beganAt;
  return Math.floor(last / DAY_MS) - Math.floor(beganAt / DAY_MS) + 1;
}
