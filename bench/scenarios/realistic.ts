/**
 * realistic-sink: receivers as they are: answers take 50 to 500 ms, differently for each provider, 2% of
 * recipients are put off (4xx, tried again after 2 s) and 1% refused (5xx). Whether the engine keeps its
 * connections busy, beside what they allow, and whether every mail ends where it should.
 */

import { figure } from "../figure.ts";
import { mail } from "../mails.ts";
import { costFigures } from "../meter.ts";
import { inLine, prefill } from "../prefill.ts";
import type { Scenario } from "../scenario.ts";
import { type Provider, startSink } from "../sink.ts";
import { until } from "../until.ts";

const CONNECTIONS = 400;
const RETRY_SECONDS = "2";
const TROUBLE = { deferPercent: 2, refusePercent: 1 };
const PROVIDERS: readonly Provider[] = [
  { domain: "large.example.net", share: 0.4, replyMs: [80, 300], ...TROUBLE },
  { domain: "office.example.net", share: 0.25, replyMs: [150, 500], ...TROUBLE },
  { domain: "portal.example.net", share: 0.15, replyMs: [100, 400], ...TROUBLE },
  { domain: "small.example.net", share: 0.2, replyMs: [50, 500], ...TROUBLE },
];
const SHARE_STEPS = 100;
const BAG_EMAILS = 100;

/** Which provider the n-th mail goes to: in turn, by their shares. */
function domainOf(n: number): string {
  let part = ((n * 37) % SHARE_STEPS) / SHARE_STEPS;
  for (const { domain, share } of PROVIDERS) {
    if (part < share) return domain;
    part -= share;
  }
  return "small.example.net";
}

function meanReplySeconds(): number {
  return (
    PROVIDERS.reduce((sum, { share, replyMs: [least, most] }) => sum + (share * (least + most)) / 2, 0) / 1000
  );
}

const realistic: Scenario = {
  name: "realistic-sink",
  does: "slow and refusing receivers: 50-500 ms replies, 2% 4xx, 1% 5xx, a mix of providers",
  async run(bench, run) {
    const { id } = await bench.workspace();
    const sink = await startSink("node", bench.folder, bench.endings, PROVIDERS);
    const allowed = CONNECTIONS / meanReplySeconds();
    const count = Math.ceil((allowed * run.seconds) / BAG_EMAILS) * BAG_EMAILS;
    await prefill(bench, run, [id], count, "accepted", (n) => mail(n, domainOf(n)));
    await bench.role("keeper", { RETRY_SCHEDULE: RETRY_SECONDS });
    await until("the bags were in line", async () => (await inLine(bench)) >= count / BAG_EMAILS);
    await bench.role("deliver", {
      SMTP_URL: `smtp://127.0.0.1:${sink.port}?pool=${CONNECTIONS}`,
      RETRY_SCHEDULE: RETRY_SECONDS,
    });
    const meter = bench.meter({ into: sink });
    const began = performance.now();
    let tenthsAt = 0;
    let sum = { delivered: 0, deferred: 0, bounced: 0 };
    await until("all mail was settled", async () => {
      const [row] = await bench.sql<{ delivered: number; deferred: number; bounced: number }[]>`
        select coalesce(sum(delivered), 0)::int as delivered, coalesce(sum(deferred), 0)::int as deferred,
               coalesce(sum(hard_bounced + blocked), 0)::int as bounced from tally`;
      sum = row ?? sum;
      run.tell(`${sum.delivered} delivered, ${sum.bounced} bounced`);
      const settled = sum.delivered + sum.bounced;
      // the last stragglers and retries would say more about their waits than about the rate
      if (tenthsAt === 0 && settled >= count * 0.9) tenthsAt = performance.now();
      return settled >= count;
    });
    const metered = meter.stop();
    const perSecond = (count * 0.9) / ((tenthsAt - began) / 1000);
    return {
      figures: [
        figure("e-mails settled, nine tenths of them", perSecond, "/s"),
        figure("what the connections allow", allowed, "/s"),
        figure("of what they allow", perSecond / allowed, "x"),
        figure("delivered", sum.delivered / count, "x", "about 0.99"),
        figure("put off at least once", sum.deferred / count, "x", "about 0.02"),
        figure("bounced", sum.bounced / count, "x", "about 0.01"),
        ...costFigures(metered, count),
      ],
      courses: metered.courses,
    };
  },
};

export const scenarios = [realistic];
