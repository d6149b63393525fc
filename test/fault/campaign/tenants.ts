/**
 * The workspaces of a campaign. Big ones that meet no limit; small quotas to run into, one after the other; a
 * small cap that is raised bit by bit, so that mail waits and is let go all the time; and a shop with
 * contacts and automations.
 */
import { Keyring } from "../../../src/admission/keyring.ts";
import { apply } from "../../../src/automation/apply.ts";
import { newId } from "../../../src/ids.ts";
import { insertAudience } from "../../../src/record/contacts/audiences.ts";
import type { RedisClient } from "../../../src/redis/scripts.ts";
import type { Overrides } from "../../../src/rules/plans.ts";
import { pause } from "../../rig/pause.ts";
import type { CapStage, Tenant } from "./history.ts";
import type { Removals } from "./removals.ts";
import { AUTOMATIONS } from "./shop.ts";
import type { PostgresStore, RedisStore, Sql } from "./stores.ts";

const AMPLE: Overrides = {
  requests_per_second: 1_000_000,
  requests_per_minute: 10_000_000,
  emails_per_month: 100_000_000,
  cap_hour: 100_000_000,
  cap_day: 100_000_000,
};
/** One quota is run into for so long, then the next. */
export const QUOTA_MS = 20_000;
const QUOTA_MIN = 60;
const QUOTA_MAX = 240;
const FIRST_CAP = 60;
const UNCAPPED = 100_000_000;
const RETRY_MS = 500;

export type Account = Tenant & { key: string; audienceId: string };

export type Tenants = {
  big: readonly Account[];
  quotas: readonly Account[];
  capped: Account;
  shop: Account;
  all: readonly Account[];
};

export type TenantParts = {
  postgres: PostgresStore;
  redis: RedisStore;
  secret: string;
  minutes: number;
  random(): number;
};

export function makeTenants(parts: TenantParts): Promise<Tenants> {
  const { minutes, random } = parts;
  return parts.postgres.ask(async (sql) => {
    const make = maker(parts, sql);
    const big = [await make("big-1", {}), await make("big-2", {})];
    const quotas: Account[] = [];
    for (let n = 1; n <= Math.ceil((minutes * 60_000) / QUOTA_MS); n++) {
      const period = n % 2 === 0 ? "month" : "day";
      const limit = QUOTA_MIN + Math.floor(random() * (QUOTA_MAX - QUOTA_MIN));
      quotas.push(await make(`quota-${n}`, { [`emails_per_${period}`]: limit }, { period, limit }));
    }
    const capped = await make("capped", { cap_hour: FIRST_CAP }, null, true);
    const shop = await make("shop", {});
    await openShop(sql, shop);
    return { big, quotas, capped, shop, all: [...big, ...quotas, capped, shop] };
  });
}

function maker({ redis, secret }: TenantParts, sql: Sql) {
  const clock = { now: Date.now, given: () => 0 };
  const keyring = new Keyring({ redis: redis.client as RedisClient, sql, serverSecret: secret, clock });
  return async function make(
    name: string,
    limits: Overrides,
    quota: Tenant["quota"] = null,
    isCapped = false,
  ): Promise<Account> {
    const { id } = await keyring.createWorkspace(name, "pro", { ...AMPLE, ...limits });
    const wanted = { name, permissions: ["full"] as const, audienceIds: null };
    const created = await keyring.createKey(id, wanted, "operator");
    if (!("key" in created)) throw new Error(created.message);
    return { id, name, quota, isCapped, key: created.key, audienceId: newId(Date.now()) };
  };
}

async function openShop(sql: Sql, { id: workspaceId, audienceId }: Account): Promise<void> {
  const now = Date.now();
  await insertAudience(sql, { workspaceId, id: audienceId, name: "Shop", doubleOptIn: false }, new Date(now));
  for (const [name, { event, entry, steps }] of Object.entries(AUTOMATIONS)) {
    const { applied } = await apply(
      sql,
      workspaceId,
      { name, audience_id: audienceId, event, entry, steps },
      now,
    );
    if (!("id" in applied)) throw new Error(`the automation ${name} was not applied: ${applied.kind}`);
  }
}

/** Raises the cap of a workspace as an operator does; its callers notice nothing. */
export class Raiser {
  readonly #account: Account;
  readonly #removals: Removals;
  readonly #stages: CapStage[];
  #cap = FIRST_CAP;

  constructor(account: Account, removals: Removals, stages: CapStage[]) {
    this.#account = account;
    this.#removals = removals;
    this.#stages = stages;
    stages.push({ workspaceId: account.id, at: 0, cap: FIRST_CAP });
  }

  raise(recipients: number): Promise<void> {
    this.#cap += recipients;
    return this.#set(this.#cap);
  }

  /** So that whatever waits goes. */
  lift(): Promise<void> {
    return this.#set(UNCAPPED);
  }

  /** Until it succeeds: a store may be away. */
  async #set(cap: number): Promise<void> {
    this.#stages.push({ workspaceId: this.#account.id, at: Date.now(), cap });
    const { id } = this.#account;
    const command = ["workspace", "set", id, "--limit", `cap_hour=${cap}`];
    while ((await this.#removals.run(id, command).ended).status !== 0) await pause(RETRY_MS);
  }
}
