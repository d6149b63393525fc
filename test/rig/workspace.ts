/** A workspace nobody else uses, with a key and a client that calls with it: how test files keep apart from each other. */
import type { Keyring } from "../../src/admission/keyring.ts";
import type { Permission } from "../../src/admission/permissions.ts";
import type { Overrides, Plan } from "../../src/plans.ts";
import { Client } from "./client.ts";

/** Limits that no test meets by accident. A test about limits names its own; `{}` leaves those of the plan. */
export const AMPLE: Overrides = {
  requests_per_second: 100_000,
  requests_per_minute: 1_000_000,
  emails_per_day: 100_000_000,
  emails_per_month: 100_000_000,
  cap_hour: 100_000_000,
  cap_day: 100_000_000,
};

export type Wanted = { plan?: Plan; limits?: Overrides; permissions?: readonly Permission[] };

export type Workspace = {
  id: string;
  handle: string;
  /** The first key, and a client that calls with it. */
  key: string;
  api: Client;
  newKey(permissions: readonly Permission[], audienceIds?: string[]): Promise<NewKey>;
};
export type NewKey = { id: string; key: string; api: Client };

export async function freshWorkspace(keyring: Keyring, origin: string, wanted: Wanted): Promise<Workspace> {
  const { plan = "pro", limits = AMPLE, permissions = ["full"] } = wanted;
  const { id, handle } = await keyring.createWorkspace("test", plan, limits);
  const newKey = async (permissions: readonly Permission[], audienceIds?: string[]): Promise<NewKey> => {
    const name = permissions.join(" ");
    const made = await keyring.createKey(
      id,
      { name, permissions, audienceIds: audienceIds ?? null },
      "operator",
    );
    if ("status" in made) throw new Error(`no key: ${made.message}`);
    return { id: made.id, key: made.key, api: new Client(origin, made.key) };
  };
  const first = await newKey(permissions);
  return { id, handle, key: first.key, api: first.api, newKey };
}
