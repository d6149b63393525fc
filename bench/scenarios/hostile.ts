/**
 * hostile: one workspace sends what is dear to take: bodies that are cheap to write and dear to parse,
 * e-mails as large as they may be, texts that are dear to turn into plain text, and for `--seconds` templates
 * with every filter and tag of the language, odd and long values in them. A neighbour sends at an even rate,
 * first alone and then beside it. How long the event loop of each role was held, how much of that its main
 * thread worked, and how long the neighbour waited.
 */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import fc from "fast-check";
import { BOMBS, type Bomb, pathOf } from "../../test/rig/bombs.ts";
import { FILTERS, filterCase, TAGS, tagCase } from "../../test/rig/costs.ts";
import type { LoopReport } from "../../test/rig/preloads.ts";
import { figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { RoleName, WatchedRole } from "../machine.ts";
import { mail } from "../mails.ts";
import { openLoop, type Shot } from "../openloop.ts";
import type { Scenario } from "../scenario.ts";
import { aim, type Target, targetAt } from "../target.ts";

const ROLES: readonly RoleName[] = ["api", "deliver", "keeper"];
const NEIGHBOUR_RATE = 50;
const ALONE_SECONDS = 10;
const WARMUP_REQUESTS = 500;
/** Larger ones are never more than one at a time for a workspace; it asks for more. */
const UNDER_WAY = 2;
const MB = 1024 * 1024;
/** Those that are sent are the same in every run. */
const SEED = 7;
const CASES_EACH = 5;
/** Others are refused unread. */
const BODY_CHARS_MAX = 40 * MB;
const TEXT_CHARS = 2 * MB;
const TEXTS = ["&#1", "<a href=x>", "<td>", "<a a/a/a/a>", "<div style=display:none><b>", "x<hr>", "\u200b"];

const hostile: Scenario = {
  name: "hostile",
  does: "how long a workspace that sends what is dear to take holds up a neighbour and each role's event loop",
  async run(bench, { seconds, tell }) {
    const roles = await Promise.all(ROLES.map((name) => bench.watchedRole(name)));
    const { url } = roles[ROLES.indexOf("api")] as WatchedRole;
    const targetOf = async (): Promise<Target> => {
      const { key } = await bench.workspace();
      return targetAt(url, key, NEIGHBOUR_RATE, bench.endings.signal);
    };
    const neighbour = await targetOf();
    const attacker = await targetOf();
    await sends(neighbour, WARMUP_REQUESTS / NEIGHBOUR_RATE);
    tell("the neighbour alone");
    const alone = await sends(neighbour, ALONE_SECONDS);
    const { url: attackUrl } = await bench.program("attacker", "./attacker.mjs");
    const phases = phasesOf(bench.folder, attacker, seconds);
    await Promise.all(roles.map((role) => role.loop()));
    // what this process is late by is charged to the neighbour's waits
    const own = monitorEventLoopDelay({ resolution: 1 });
    own.enable();
    const beside: { name: string; waits: number[]; reports: LoopReport[] }[] = [];
    for (const { name, ...attack } of phases) {
      tell(name);
      const ended = new AbortController();
      const waits = sends(neighbour, Number.POSITIVE_INFINITY, ended.signal);
      const body = JSON.stringify({ ...attack, underWay: UNDER_WAY });
      await fetch(attackUrl, { method: "POST", body }).then((answer) => answer.json());
      ended.abort();
      beside.push({ name, waits: await waits, reports: await Promise.all(roles.map((role) => role.loop())) });
    }
    const waits = beside.flatMap((phase) => phase.waits).sort((one, other) => one - other);
    own.disable();
    const most = (n: number, what: keyof LoopReport) =>
      Math.max(...beside.map(({ reports }) => (reports[n] as LoopReport)[what]));
    return {
      figures: [
        ...ROLES.flatMap((role, n) => [
          figure(`${role}: loop held at most`, most(n, "heldMsMax"), "ms", "below 50 on an idle machine"),
          figure(`${role}: worked at most in one turn`, most(n, "workedMsMax"), "ms", "below 50"),
          figure(`${role}: memory at most`, most(n, "rssMbMax"), "MB", role === "api" ? "below 1024" : ""),
        ]),
        figure("bench: its own loop held, p99", own.percentile(99) / 1e6, "ms"),
        figure("bench: its own loop held at most", own.max / 1e6, "ms"),
        figure("neighbour alone: p50", quantile(alone, 0.5), "ms"),
        figure("neighbour alone: p99", quantile(alone, 0.99), "ms"),
        figure("neighbour beside it: sends", waits.length, ""),
        figure("neighbour beside it: p50", quantile(waits, 0.5), "ms"),
        figure("neighbour beside it: p99", quantile(waits, 0.99), "ms", "below 250"),
        figure("neighbour beside it: longest", waits.at(-1) ?? 0, "ms"),
        ...beside.flatMap(({ name, waits: of, reports }) => [
          figure(`${name}: neighbour p99`, quantile(of, 0.99), "ms"),
          ...reports.map(({ workedMsMax }, n) =>
            figure(`${name}: ${ROLES[n]} worked at most in one turn`, workedMsMax, "ms"),
          ),
        ]),
      ],
    };
  },
};

export const scenarios = [hostile];

/** How long each took from when it was due, the quickest first. */
async function sends(target: Target, seconds: number, signal?: AbortSignal): Promise<number[]> {
  const arrivals = { rate: NEIGHBOUR_RATE, count: seconds * NEIGHBOUR_RATE, ...(signal && { signal }) };
  const refusals = new Set<string>();
  const fired = await openLoop(
    arrivals,
    (n) => aim(target, "POST", "/emails", mail(n)),
    ({ status, body }) => status === 200 || refusals.add(`${status} ${body}`),
  );
  if (fired.failures > 0)
    throw new Error(`${fired.failures} sends of the neighbour were refused: ${[...refusals].join("; ")}`);
  return fired.waits.sort((a, b) => a - b);
}

type Phase = {
  name: string;
  requests: { url: string; key: string; method: string; file: string }[];
  /** 0: each is sent once. */
  ms: number;
};

/**
 * What is sent is written down before, and is on the disk, so that nothing of this process is late when the
 * neighbour is measured and the kernel writes nothing of it while Postgres commits.
 */
function phasesOf(folder: string, target: Target, seconds: number): Phase[] {
  const phase = (name: string, shots: readonly Shot[], ms = 0): Phase => {
    const requests = shots.map(({ body, ...shot }, n) => {
      const file = join(folder, `${name} ${n}`);
      writeFileSync(file, body ?? "", { flush: true });
      return { ...shot, file };
    });
    return { name, requests, ms };
  };
  const bombs = Object.entries(BOMBS).map(([what, [, body]]: [string, Bomb]) => ({
    ...aim(target, "POST", pathOf(what)),
    body: body(),
  }));
  const content = randomBytes(28 * MB).toString("base64");
  const attached = { ...mail(0), attachments: [{ filename: "a.bin", content }] };
  const batch = Array.from({ length: 20 }, (_, n) => ({ ...mail(n), html: `${n} ${"a".repeat(1.5 * MB)}` }));
  const texts = TEXTS.map((piece) => piece.repeat(Math.floor(TEXT_CHARS / Buffer.byteLength(piece))));
  const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);
  return [
    phase("costly bodies", bombs),
    phase(
      "attachments of 28 MB",
      times(4, () => aim(target, "POST", "/emails", attached)),
    ),
    phase(
      "batches of 30 MB",
      times(3, () => aim(target, "POST", "/emails/batch", batch)),
    ),
    phase(
      "costly texts",
      texts.map((html) => aim(target, "POST", "/emails", { ...mail(0), html })),
    ),
    phase("costly templates", templatesOf(target), seconds * 1_000),
  ];
}

/** Each is saved and then used. */
function templatesOf(target: Target): Shot[] {
  const made: Shot[] = [];
  for (const [n, one] of [...FILTERS.map(filterCase), ...TAGS.map(tagCase)].entries())
    for (const [m, { source, variables }] of fc
      .sample(one, { numRuns: CASES_EACH, seed: SEED + n })
      .entries()) {
      const id = `t${n}-${m}`;
      const template = { subject: "s", from: mail(0).from, html: source };
      const body = bodyOf({ to: mail(n).to, template: { id, variables } });
      if (body === null || body.length > BODY_CHARS_MAX) continue;
      made.push(aim(target, "PUT", `/templates/${id}`, template), {
        ...aim(target, "POST", "/emails"),
        body,
      });
    }
  return made;
}

/** null: it is longer than a text can be. */
function bodyOf(send: object): string | null {
  try {
    return JSON.stringify(send);
  } catch {
    return null;
  }
}
