/**
 * accept: batches of 100 with half a KB of html, accepted and committed, beside the same rows written by bare
 * `unnest` inserts, 1,000 in each transaction; then single sends over 50 connections. Against a deployment:
 * single sends at a bounded rate, scheduled for weeks ahead and canceled in the end.
 */

import { figure } from "../figure.ts";
import { unnestFloor } from "../inserts.ts";
import { load, quantile, quantilesOf, unansweredOf, WARMUP_SECONDS } from "../load.ts";
import { BATCH, BATCH_EMAILS, ONE } from "../mails.ts";
import { cpuSeconds } from "../meter.ts";
import { openLoop } from "../openloop.ts";
import type { Scenario } from "../scenario.ts";
import { aim, harmless, takeBack } from "../target.ts";

const accept: Scenario = {
  name: "accept",
  does: "batches of 100 and single sends, accepted and committed, against bare unnest inserts of the same rows",
  async run(bench, { seconds, tell }) {
    const { key } = await bench.workspace();
    const api = await bench.role("api");
    const url = `${api.url}/api/v1/emails`;
    await load(bench, {
      url: `${url}/batch`,
      key,
      body: BATCH,
      connections: 16,
      seconds: WARMUP_SECONDS,
      tell,
    });
    const before = cpuSeconds(api.pid);
    const batches = await load(bench, {
      url: `${url}/batch`,
      key,
      body: BATCH,
      connections: 16,
      seconds,
      tell,
    });
    const cpu = cpuSeconds(api.pid) - before;
    tell("inserts");
    const floor = await unnestFloor(bench, seconds);
    const beforeSingles = cpuSeconds(api.pid);
    const singles = await load(bench, { url, key, body: ONE, connections: 50, seconds, tell });
    const cpuOfSingles = cpuSeconds(api.pid) - beforeSingles;
    const perSecond = batches.perSecond * (1 - batches.failures / batches.requests) * BATCH_EMAILS;
    return {
      figures: [
        figure("e-mails in batches", perSecond, "/s"),
        figure("rows of the floor", floor, "/s"),
        figure("against the floor", perSecond / floor, "x", "at least 0.5"),
        figure("api CPU per thousand e-mails", (cpu * 1000) / (batches.requests * BATCH_EMAILS), "s"),
        figure("single sends", singles.perSecond, "/s", "at least 5,000"),
        figure("single sends p50", singles.p50Ms, "ms"),
        figure("single sends p99", singles.p99Ms, "ms", "under 50"),
        figure("api CPU per thousand single sends", (cpuOfSingles * 1000) / singles.requests, "s"),
        figure("refused", batches.failures + singles.failures, ""),
        unansweredOf(batches, singles),
      ],
      distributions: [
        { name: "answer to a batch of 100", unit: "ms", points: batches.latency },
        { name: "answer to a single send", unit: "ms", points: singles.latency },
      ],
    };
  },
  async against(target, { seconds, tell }) {
    const { rate, signal } = target;
    const arrivals = { rate, count: rate * seconds, signal };
    const now = Date.now();
    const { waits, failures, perSecond } = await openLoop(
      arrivals,
      (n) => aim(target, "POST", "/emails", harmless(n, now)),
      ({ status, body }) => {
        if (status === 200) target.booked.add((JSON.parse(body) as { id: string }).id);
        tell(`${target.booked.size} accepted`);
      },
    );
    waits.sort((a, b) => a - b);
    return {
      figures: [
        figure("single sends", perSecond, "/s"),
        figure("single sends p50", quantile(waits, 0.5), "ms"),
        figure("single sends p99", quantile(waits, 0.99), "ms"),
        figure("refused", failures, ""),
        figure("could not be taken back", await takeBack(target), ""),
      ],
      distributions: [{ name: "answer to a single send", unit: "ms", points: quantilesOf(waits) }],
    };
  },
};

export const scenarios = [accept];
