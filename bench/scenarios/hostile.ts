/**
 * hostile: one workspace sends what is dear to take: bodies that are cheap to write and dear to parse, e-mails as large
 * as they may be, texts that are dear to turn into plain text, and for `--seconds` templates with every filter and tag of
 * the language, odd and long values in them. A neighbour sends at an even rate, first alone and then beside it. How long
 * the event loop of each role was held, how much of that its main thread worked, and how long the neighbour waited.
 */
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { BOMBS, type Bomb, pathOf } from "../../test/rig/bombs.ts";
import { FILTERS, filterCase, TAGS, tagCase } from "../../test/rig/costs.ts";
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
    const phases = phasesOf(attacker, seconds, tell);
    await Promise.all(roles.map((role) => role.loop()));
    const beside: { name: string; waits: number[] }[] = [];
    for (const { name, attack } of phases) {
      const ended = new AbortController();
      const waits = sends(neighbour, Number.POSITIVE_INFINITY, ended.signal);
      await attack();
      ended.abort();
      beside.push({ name, waits: await waits });
    }
    const waits = beside.flatMap((phase) => phase.waits).sort((one, other) => one - other);
    const reports = await Promise.all(roles.map((role) => role.loop()));
    return {
      figures: [
        ...reports.flatMap(({ heldMsMax, workedMsInLongest, workedMsMax, rssMbMax }, n) => [
          figure(`${ROLES[n]}: loop held at most`, heldMsMax, "ms", "below 50 on an idle machine"),
          figure(`${ROLES[n]}: of that its thread worked`, workedMsInLongest, "ms"),
          figure(`${ROLES[n]}: worked at most in one turn`, workedMsMax, "ms", "below 50"),
          figure(`${ROLES[n]}: memory at most`, rssMbMax, "MB", "below 1024 in api"),
        ]),
        figure("neighbour alone: p50", quantile(alone, 0.5), "ms"),
        figure("neighbour alone: p99", quantile(alone, 0.99), "ms"),
        figure("neighbour beside it: sends", waits.length, ""),
        figure("neighbour beside it: p50", quantile(waits, 0.5), "ms"),
        figure("neighbour beside it: p99", quantile(waits, 0.99), "ms", "below 250"),
        figure("neighbour beside it: longest", waits.at(-1) ?? 0, "ms"),
        ...beside.map(({ name, waits: of }) =>
          figure(`neighbour beside ${name}: p99`, quantile(of, 0.99), "ms"),
        ),
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

type Phase = { name: string; attack(): Promise<void> };

/** What is sent is made before: to make it takes this process long, too, which also measures the neighbour. */
function phasesOf(target: Target, seconds: number, tell: (text: string) => void): Phase[] {
  const fixed = (name: string, shots: readonly Shot[]): Phase => {
    const waiting = shots.map((shot) => ({ ...shot, body: Buffer.from(shot.body ?? "") }));
    const next = () => {
      tell(`${name}: ${waiting.length} left`);
      return waiting.shift();
    };
    return { name, attack: () => several(async () => attackUntilNone(next)) };
  };
  const bombs = Object.entries(BOMBS).map(([what, [, body]]: [string, Bomb]) => ({
    ...aim(target, "POST", pathOf(what)),
    body: body(),
  }));
  const content = randomBytes(28 * MB).toString("base64");
  const attached = { ...mail(0), attachments: [{ filename: "a.bin", content }] };
  const batch = Array.from({ length: 20 }, (_, n) => ({ ...mail(n), html: `${n} ${"a".repeat(1.5 * MB)}` }));
  const texts = TEXTS.map((piece) => piece.repeat(Math.floor(TEXT_CHARS / Buffer.byteLength(piece))));
  return [
    fixed("costly bodies", bombs),
    fixed(
      "attachments of 28 MB",
      Array.from({ length: 4 }, () => aim(target, "POST", "/emails", attached)),
    ),
    fixed(
      "batches of 30 MB",
      Array.from({ length: 3 }, () => aim(target, "POST", "/emails/batch", batch)),
    ),
    fixed(
      "costly texts",
      texts.map((html) => aim(target, "POST", "/emails", { ...mail(0), html })),
    ),
    { name: "costly templates", attack: () => several((n) => attackWithTemplates(target, n, seconds, tell)) },
  ];
}

async function several(attack: (n: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: UNDER_WAY }, (_, n) => attack(n)));
}

async function attackUntilNone(next: () => Costly | undefined): Promise<void> {
  for (let shot = next(); shot; shot = next()) await fire(shot);
}

async function attackWithTemplates(
  target: Target,
  worker: number,
  seconds: number,
  tell: (text: string) => void,
): Promise<void> {
  const until = performance.now() + seconds * 1_000;
  const cases = [...FILTERS.map(filterCase), ...TAGS.map(tagCase)];
  for (let n = worker; performance.now() < until; n += UNDER_WAY) {
    tell(`${n} costly templates`);
    const some = fc.sample(cases[n % cases.length] as (typeof cases)[number], { numRuns: 1, seed: SEED + n });
    const { source, variables } = some[0] as (typeof some)[number];
    const id = `t${worker}`;
    const template = { subject: "s", from: mail(0).from, html: source };
    await fire({ ...aim(target, "PUT", `/templates/${id}`), body: Buffer.from(JSON.stringify(template)) });
    const send = { to: mail(n).to, template: { id, variables } };
    await fire({ ...aim(target, "POST", "/emails"), body: Buffer.from(JSON.stringify(send)) });
  }
}

type Costly = Omit<Shot, "body"> & { body: Buffer };

/** Whatever it is answered; a connection that is closed is an answer, too. */
async function fire({ url, key, method, body }: Costly): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answered = fetch(url, { method, headers, body: new Uint8Array(body) }).then((answer) =>
    answer.arrayBuffer(),
  );
  await answered.catch(() => {});
}
