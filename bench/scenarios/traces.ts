/**
 * traces: what the code of traces costs while they are off: all that it does for a request and for an
 * attempt, in a loop of nothing else, beside the CPU of an e-mail. The shortest round is the figure: others
 * only make a round longer.
 */
import { fileURLToPath } from "node:url";
import type { Caller } from "../../src/admission/admit.ts";
import type { Exchange } from "../../src/api/exchange.ts";
import { spanOf } from "../../src/api/gate.ts";
import { beginAttempt, endAttempt } from "../../src/delivery/attemptspan.ts";
import type { HeldBag, OpenEmail } from "../../src/record/mail/bagleases.ts";
import { figure } from "../figure.ts";
import { BATCH_EMAILS } from "../mails.ts";
import { readResults } from "../results.ts";
import type { Scenario } from "../scenario.ts";

const PUBLISHED = fileURLToPath(new URL("../published.json", import.meta.url));
const ROUNDS = 20;
const CALLS = 1_000_000;
const VARIANTS = 64;
const NS_PER_SECOND = 1e9;

const traces: Scenario = {
  name: "traces",
  does: "what the code of traces costs for a request and an attempt while they are off, beside an e-mail's CPU",
  async run(_, { tell }) {
    tell("calls what a request calls");
    const request = leastNs(requestOnce());
    tell("calls what an attempt calls");
    const attempt = leastNs(attemptOnce());
    const email = publishedNs();
    const share = (ns: number) => (100 * ns) / email;
    return {
      figures: [
        figure("of a request", request, "ns"),
        figure("of an attempt", attempt, "ns"),
        figure("CPU of an e-mail, as published", email, "ns"),
        figure("share of an e-mail in a batch", share(request / BATCH_EMAILS + attempt), "%", "below 1"),
        figure("share of an e-mail with a request of its own", share(request + attempt), "%", "below 1"),
      ],
    };
  },
};

/** CPU of one call in the shortest of all rounds. */
function leastNs(call: (n: number) => void): number {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    for (let n = 0; n < CALLS; n++) call(n);
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, ((user + system) * 1_000) / CALLS);
  }
  return least;
}

/** As the gate, a send and the server's answer do it. */
function requestOnce(): (n: number) => void {
  const exchanges = Array.from({ length: VARIANTS }, (_, n) => ({
    ...{ method: "POST", route: n % 2 === 0 ? "/emails" : "/emails/batch", requestId: `request ${n}` },
    ...{ beganAt: n, head: { traceparent: "" }, span: null, status: 200 },
  })) as unknown as Exchange[];
  const caller = { workspaceId: "a workspace" } as Caller;
  return (n) => {
    const exchange = exchanges[n % VARIANTS] as Exchange;
    exchange.span = spanOf(exchange, caller);
    const { span, status } = exchange;
    const link = span?.link ?? null;
    if (link !== null) throw new Error("traces are on");
    const reserving = span?.begin("reserve");
    reserving?.end();
    if (span) span.begin("commit")?.end();
    span?.end({ "http.response.status_code": status }, status >= 500 ? String(status) : null);
  };
}

/** As deliver.ts does it. */
function attemptOnce(): (n: number) => void {
  const bag = { workspaceId: "a workspace" } as HeldBag;
  const emails = Array.from({ length: VARIANTS }, (_, n) => ({
    ...{ id: `e-mail ${n}`, attempts: n, extra: n % 2 === 0 ? null : {} },
  })) as unknown as OpenEmail[];
  return (n) => {
    const span = beginAttempt(bag, emails[n % VARIANTS] as OpenEmail);
    if (span) endAttempt(span, []);
  };
}

/** Of `deliver`, in batches: what an e-mail takes at least. */
function publishedNs(): number {
  const row = readResults(PUBLISHED).rows.find(
    ({ scenario, name }) => scenario === "deliver" && name === "CPU per thousand e-mails",
  );
  if (!row) throw new Error("bench/published.json has no CPU per thousand e-mails of deliver");
  return (row.median / 1_000) * NS_PER_SECOND;
}

export const scenarios = [traces];
