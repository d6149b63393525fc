/**
 * The faults of a campaign, as one table: how often each is drawn, for how long, and what it does. When each
 * comes, to whom and for how long follows from the seed alone. A fault that finds its place taken by another
 * is left out.
 *
 * Each notes the spells in which it kept processes from what they need: with these the auditor judges
 * repetitions.
 */
import { type Random, randomOf } from "../../../src/capacity/random.ts";
import { pause } from "../../rig/pause.ts";
import type { TcpProxy } from "../../rig/proxy.ts";
import { FAIR, type Sink, type Weather } from "../../rig/sink.ts";
import { type Fleet, faketimeLibrary, type Member, type Way } from "./fleet.ts";
import type { Role, Spell } from "./history.ts";
import type { Removals } from "./removals.ts";
import type { Cell, PostgresStore, RedisStore } from "./stores.ts";

const GAP_MS = [1_000, 6_000] as const;
/** Now and then nothing happens for a while, so that what has piled up goes. */
const CALM_SHARE = 0.08;
const CALM_MS = 12_000;
/** Which cell is struck follows from digits of the chance that decide nothing else. */
const CELL_DRAWN_AFTER = 1_000_000;
const SKEWS_MS = [-8 * 3_600_000, -420_000, 420_000, 8 * 3_600_000];
const LOST_REPLY_SHARE = 0.25;
const LOST_COMMIT_SHARE = 0.3;
/** How Postgres acknowledges a commit. */
const COMMITTED = "COMMIT\0";
/** Until the last process has Postgres back after the first had it. */
const RETURN_MS_MAX = 8_000;
const TERMINATE_EVERY_MS = 1_000;
const DOWN_MS_MAX = 4_000;
/** Workers have the most to lose: each is hit so many times as often as any other process. */
const DELIVER_SHARE = 2;

export type World = { cells: readonly Cell[]; sink: Sink; fleet: Fleet; removals: Removals };

/** Whom a fault may befall. */
export type Target = { name: string; role: Role };

export type Drawn = {
  /** From the beginning of the campaign. */
  atMs: number;
  kind: string;
  member: string | null;
  lastsMs: number;
  /** Between 0 and 1, for what else is to be drawn. */
  chance: number;
};

/** What a fault has in its hands while it lasts. */
class Grip {
  readonly world: World;
  readonly drawn: Drawn;
  readonly signal: AbortSignal;
  readonly #spells: Spell[];

  constructor(world: World, drawn: Drawn, signal: AbortSignal, spells: Spell[]) {
    this.world = world;
    this.drawn = drawn;
    this.signal = signal;
    this.#spells = spells;
  }

  get member(): Member {
    return this.world.fleet.members.find(({ name }) => name === this.drawn.member) as Member;
  }

  /** The one that is struck. */
  get #cell(): number {
    return Math.floor(this.drawn.chance * CELL_DRAWN_AFTER) % this.world.cells.length;
  }

  get postgres(): PostgresStore {
    return (this.world.cells[this.#cell] as Cell).postgres;
  }

  get redis(): RedisStore {
    return (this.world.cells[this.#cell] as Cell).redis;
  }

  /** The member's connections to it. */
  get wayToPostgres(): TcpProxy {
    return wayOf(this.member, this.#cell).postgres;
  }

  get wayToRedis(): TcpProxy {
    return wayOf(this.member, this.#cell).redis;
  }

  /** Everybody's. */
  get waysToPostgres(): TcpProxy[] {
    return this.world.fleet.members.map((member) => wayOf(member, this.#cell).postgres);
  }

  lasts(): Promise<void> {
    return pause(this.drawn.lastsMs, this.signal);
  }

  /** Notes that processes are kept from what they need for as long as `work` takes. */
  async during(kind: Spell["kind"], member: string | null, work: () => Promise<void>): Promise<void> {
    const spell: Spell = { kind, member, from: Date.now(), to: null };
    this.#spells.push(spell);
    try {
      await work();
    } finally {
      spell.to = Date.now();
    }
  }

  random(): Random {
    return randomOf(Math.floor(this.drawn.chance * 2 ** 31));
  }
}

type Kind = {
  /** How often, beside the others. */
  weight: number;
  lastsMs: readonly [least: number, most: number];
  /** null: it is nobody's own. */
  roles: readonly Role[] | null;
  /** What two faults cannot have at once. */
  takes(drawn: Drawn): string;
  inflict(grip: Grip): Promise<void>;
};

const ANYBODY: readonly Role[] = ["api", "keeper", "deliver", "automate"];
const ITSELF = ({ member }: Drawn) => `${member}`;
const WAY_TO_POSTGRES = ({ member }: Drawn) => `${member} postgres`;
const WAY_TO_REDIS = ({ member }: Drawn) => `${member} redis`;
const POSTGRES = () => "postgres";
const REDIS = () => "redis";
/** Receivers can be troubled in several ways at once. */
const RECEIVERS = ({ kind }: Drawn) => kind;

export const KINDS: Record<string, Kind> = {
  term: of(3, [0, 0], ANYBODY, ITSELF, async ({ member }) => member.end("SIGTERM")),
  kill: of(5, [0, 0], ANYBODY, ITSELF, async ({ member }) => member.end("SIGKILL")),
  freeze: of(4, [5_000, 40_000], ANYBODY, ITSELF, freeze),
  deploy: of(
    1,
    [0, 0],
    null,
    () => "fleet",
    async ({ world }) => {
      for (const member of world.fleet.members) member.end("SIGTERM");
    },
  ),
  clock: of(1.5, [10_000, 25_000], ANYBODY, ITSELF, wrongClock),

  "pg-cut": of(2, [0, 3_000], ANYBODY, WAY_TO_POSTGRES, (grip) => cutOff(grip, grip.wayToPostgres, "cut")),
  "pg-stall": of(3, [2_000, 35_000], ANYBODY, WAY_TO_POSTGRES, (grip) =>
    grip.during("cut", grip.member.name, () => stall(grip, grip.wayToPostgres)),
  ),
  "pg-slow": of(2, [3_000, 15_000], ANYBODY, WAY_TO_POSTGRES, (grip) =>
    grip.during("shaky", grip.member.name, () => slow(grip, grip.wayToPostgres)),
  ),
  "pg-half-open": of(2, [3_000, 30_000], ANYBODY, WAY_TO_POSTGRES, (grip) =>
    grip.during("cut", grip.member.name, () => halfOpen(grip, grip.wayToPostgres)),
  ),
  "pg-lost-reply": of(3, [2_000, 12_000], ANYBODY, WAY_TO_POSTGRES, (grip) =>
    grip.during("shaky", grip.member.name, () => loseReplies(grip, grip.wayToPostgres)),
  ),
  "pg-lost-commit": of(2, [2_000, 12_000], ANYBODY, WAY_TO_POSTGRES, (grip) =>
    grip.during("shaky", grip.member.name, () => loseCommits(grip, grip.wayToPostgres)),
  ),
  "pg-pause": of(2, [2_000, 40_000], null, POSTGRES, (grip) =>
    grip.during("outage", null, () => pauseAll(grip)),
  ),
  "pg-terminate": of(2, [0, 8_000], null, POSTGRES, (grip) =>
    grip.during("outage", null, () => terminate(grip)),
  ),
  "pg-restart": of(2, [0, DOWN_MS_MAX], null, POSTGRES, (grip) =>
    grip.during("outage", null, () => restart(grip)),
  ),
  "disk-full": of(1.5, [1_000, 10_000], null, POSTGRES, (grip) =>
    grip.during("outage", null, () => fillDisk(grip)),
  ),

  "redis-cut": of(1, [0, 3_000], ANYBODY, WAY_TO_REDIS, (grip) => cutOff(grip, grip.wayToRedis, null)),
  "redis-stall": of(1.5, [2_000, 20_000], ANYBODY, WAY_TO_REDIS, (grip) => stall(grip, grip.wayToRedis)),
  "redis-slow": of(1, [3_000, 15_000], ANYBODY, WAY_TO_REDIS, (grip) => slow(grip, grip.wayToRedis)),
  "redis-half-open": of(1, [3_000, 20_000], ANYBODY, WAY_TO_REDIS, (grip) => halfOpen(grip, grip.wayToRedis)),
  "redis-lost-reply": of(1.5, [2_000, 10_000], ANYBODY, WAY_TO_REDIS, (grip) =>
    loseReplies(grip, grip.wayToRedis),
  ),
  "redis-flush": of(2, [0, 0], null, REDIS, ({ redis }) => redis.empty()),
  "redis-restart": of(1.5, [0, 0], null, REDIS, ({ redis }) => redis.restart("empty")),
  "redis-old": of(2, [4_000, 25_000], null, REDIS, restoreOld),

  "receiver-defer": of(2, [3_000, 15_000], null, RECEIVERS, (grip) =>
    weather(grip, { deferPercent: 10 + 60 * grip.drawn.chance }),
  ),
  "receiver-refuse": of(0.5, [1_000, 4_000], null, RECEIVERS, (grip) => weather(grip, { refusePercent: 4 })),
  "receiver-stall": of(3, [3_000, 20_000], null, RECEIVERS, (grip) =>
    weather(grip, { dotDelayMs: Math.round(300 + 6_000 * grip.drawn.chance) }),
  ),
  "receiver-drop": of(2, [2_000, 10_000], null, RECEIVERS, (grip) =>
    weather(grip, { dropInDataPercent: 5, dropAfterDataPercent: 3 }),
  ),
  "receiver-down": of(1, [500, 6_000], null, RECEIVERS, receiversDown),

  move: of(
    6,
    [0, 0],
    null,
    () => "move",
    ({ world, drawn }) => world.removals.move(drawn.chance),
  ),
};

/** Kinds by their names or the first part of them: `pg` is every `pg-...`. Without a list, all of them. */
export function kindsNamed(list: string | null): string[] {
  const all = Object.keys(KINDS);
  if (list === null) return all;
  if (list === "none") return [];
  return list.split(",").flatMap((name) => {
    const found = all.filter((kind) => kind === name || kind.startsWith(`${name}-`));
    if (found.length === 0) throw new Error(`there is no fault called ${name}: there are ${all.join(", ")}`);
    return found;
  });
}

/** Why a kind cannot be had on this machine; null: it can. */
export function hindrance(kind: string, cells: number): string | null {
  if (kind === "move" && cells === 1) return "there is one cell (--cells 2)";
  if (kind === "clock" && faketimeLibrary() === null)
    return "libfaketime is not there (apt-get install faketime)";
  return null;
}

/** The whole plan of a campaign, before it begins. */
export function drawFaults(
  seed: number,
  minutes: number,
  kinds: readonly string[],
  members: readonly Target[],
): Drawn[] {
  const random = randomOf(seed * 7_919 + 17);
  const plan: Drawn[] = [];
  if (kinds.length === 0) return plan;
  let atMs = between(GAP_MS, random());
  while (atMs < minutes * 60_000) {
    const kind = pick(kinds, random());
    const { roles, lastsMs } = KINDS[kind] as Kind;
    const member = roles === null ? null : pickMember(members, roles, random());
    plan.push({
      atMs: Math.round(atMs),
      kind,
      member,
      lastsMs: Math.round(between(lastsMs, random())),
      chance: random(),
    });
    atMs += random() < CALM_SHARE ? CALM_MS : between(GAP_MS, random());
  }
  return plan;
}

export type Telling = (line: string) => void;

/**
 * Inflicts them one after another, each for its time; resolves when the last is over and everything is as
 * before.
 */
export async function inflictAll(
  plan: readonly Drawn[],
  world: World,
  spells: Spell[],
  signal: AbortSignal,
  tell: Telling,
): Promise<void> {
  const beganAt = Date.now();
  const taken = new Set<string>();
  const running = new Set<Promise<void>>();
  for (const drawn of plan) {
    await pause(beganAt + drawn.atMs - Date.now(), signal);
    if (signal.aborted) break;
    const kind = KINDS[drawn.kind] as Kind;
    const place = kind.takes(drawn);
    if (taken.has(place)) {
      tell(`${inWords(drawn)}: left out, ${place} has another fault`);
      continue;
    }
    taken.add(place);
    tell(inWords(drawn));
    const over = kind
      .inflict(new Grip(world, drawn, signal, spells))
      .catch((error: unknown) => tell(`${inWords(drawn)} failed: ${(error as Error).message}`))
      .finally(() => {
        taken.delete(place);
        running.delete(over);
        if (drawn.lastsMs > 0) tell(`${inWords(drawn)} is over`);
      });
    running.add(over);
  }
  await Promise.all(running);
}

export function inWords({ kind, member, lastsMs }: Drawn): string {
  return `${kind}${member === null ? "" : ` ${member}`}${lastsMs === 0 ? "" : ` for ${(lastsMs / 1000).toFixed(1)} s`}`;
}

async function freeze(grip: Grip): Promise<void> {
  const { member } = grip;
  await grip.during("frozen", member.name, async () => {
    member.freeze();
    await grip.lasts();
    member.thaw();
  });
}

/** It begins anew with a wrong clock, and anew with a right one. */
async function wrongClock(grip: Grip): Promise<void> {
  const { member, drawn } = grip;
  member.skew(SKEWS_MS[Math.floor(drawn.chance * SKEWS_MS.length)] as number);
  member.end("SIGTERM");
  await grip.lasts();
  member.skew(0);
  member.end("SIGTERM");
}

/** Resets all connections, and for a while there are no new ones. */
async function cutOff(grip: Grip, proxy: TcpProxy, spell: Spell["kind"] | null): Promise<void> {
  const away = async () => {
    await proxy.down();
    await grip.lasts();
    await proxy.up();
  };
  await (spell === null ? away() : grip.during(spell, grip.member.name, away));
}

async function stall(grip: Grip, proxy: TcpProxy): Promise<void> {
  proxy.stall();
  await grip.lasts();
  proxy.flow();
}

async function slow(grip: Grip, proxy: TcpProxy): Promise<void> {
  proxy.latencyMs = Math.round(20 + 300 * grip.drawn.chance);
  await grip.lasts();
  proxy.latencyMs = 0;
}

async function halfOpen(grip: Grip, proxy: TcpProxy): Promise<void> {
  const reset = proxy.halfOpen();
  await grip.lasts();
  reset();
}

/** What was asked for is done, and whoever asked does not hear of it. */
async function loseReplies(grip: Grip, proxy: TcpProxy): Promise<void> {
  const random = grip.random();
  await loseAgainAndAgain(grip, proxy, () => proxy.cutReply(() => random() < LOST_REPLY_SHARE));
}

/**
 * Any lost reply breaks a connection, and few of them are a commit's: what hangs on those alone needs many of
 * them.
 */
async function loseCommits(grip: Grip, proxy: TcpProxy): Promise<void> {
  const random = grip.random();
  await loseAgainAndAgain(grip, proxy, () =>
    proxy.loseReply((reply) => reply.includes(COMMITTED) && random() < LOST_COMMIT_SHARE),
  );
}

async function loseAgainAndAgain(grip: Grip, proxy: TcpProxy, loseOne: () => Promise<void>): Promise<void> {
  const over = grip.lasts().then(() => "over" as const);
  while ((await Promise.race([loseOne(), over])) !== "over") {}
  proxy.ambush = null;
}

/**
 * It comes back for one process after the other: whoever has it first meets what the others could not write
 * yet.
 */
async function pauseAll(grip: Grip): Promise<void> {
  const random = grip.random();
  const proxies = grip.waysToPostgres.filter(({ isStalled }) => !isStalled);
  for (const proxy of proxies) proxy.stall();
  await grip.lasts();
  await Promise.all(
    proxies.map(async (proxy) => {
      await pause(random() * RETURN_MS_MAX, grip.signal);
      proxy.flow();
    }),
  );
}

async function terminate(grip: Grip): Promise<void> {
  const until = Date.now() + grip.drawn.lastsMs;
  do {
    await grip.postgres.terminateAll();
    await pause(TERMINATE_EVERY_MS, grip.signal);
  } while (Date.now() < until && !grip.signal.aborted);
}

async function restart(grip: Grip): Promise<void> {
  const { postgres } = grip;
  await postgres.stop(grip.drawn.chance < 0.5 ? "fast" : "immediate");
  await grip.lasts();
  await postgres.start();
}

async function fillDisk(grip: Grip): Promise<void> {
  const { postgres } = grip;
  await postgres.setFull(true);
  await grip.lasts();
  await postgres.setFull(false);
}

async function restoreOld(grip: Grip): Promise<void> {
  const { redis } = grip;
  await redis.takeSnapshot();
  await grip.lasts();
  await redis.restart("old");
}

async function weather(grip: Grip, turned: Partial<Weather>): Promise<void> {
  const { sink } = grip.world;
  const before = Object.keys(turned).map((name) => [name, FAIR[name as keyof Weather]] as const);
  sink.turn(turned);
  await grip.lasts();
  sink.turn(Object.fromEntries(before));
}

async function receiversDown(grip: Grip): Promise<void> {
  const { sink } = grip.world;
  await sink.down();
  await grip.lasts();
  await sink.up();
}

function wayOf({ ways }: Member, cell: number): Way {
  return ways[cell] as Way;
}

function of(
  weight: number,
  lastsMs: Kind["lastsMs"],
  roles: Kind["roles"],
  takes: Kind["takes"],
  inflict: Kind["inflict"],
): Kind {
  return { weight, lastsMs, roles, takes, inflict };
}

function between([least, most]: readonly [number, number], drawn: number): number {
  return least + (most - least) * drawn;
}

function pickMember(members: readonly Target[], roles: readonly Role[], drawn: number): string {
  const targets = members
    .filter(({ role }) => roles.includes(role))
    .flatMap((member) => (member.role === "deliver" ? Array(DELIVER_SHARE).fill(member) : [member]));
  return (targets[Math.floor(drawn * targets.length)] as Target).name;
}

function pick(kinds: readonly string[], drawn: number): string {
  const weights = kinds.map((kind) => (KINDS[kind] as Kind).weight);
  let left = drawn * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [n, kind] of kinds.entries()) {
    left -= weights[n] as number;
    if (left < 0) return kind;
  }
  return kinds.at(-1) as string;
}
