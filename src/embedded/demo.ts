/**
 * The demo workspace of `npm start`: made on the first run, found again by its key on every other.
 * Development only.
 */
import { randomBytes } from "node:crypto";
import { hashOf, readKey } from "../admission/bearer.ts";
import { Keyring } from "../admission/keyring.ts";
import { hashPassword } from "../admission/password.ts";
import { newId } from "../ids.ts";
import { recordClock } from "../process/recordclock.ts";
import { setOperator } from "../record/accounts/accounts.ts";
import { defaultAudience } from "../record/contacts/audiences.ts";
import { connectRecord, type Sql } from "../record/db/connect.ts";
import { clockTime } from "../record/db/time.ts";
import { findKeyByHash } from "../record/workspaces/keys.ts";
import { insertOwner } from "../record/workspaces/workspaces.ts";
import { connectRedis } from "../redis/connect.ts";
import type { Home } from "./home.ts";

const SETUP_MS_MAX = 20_000;
const CAP_FAR_ABOVE = 100_000_000;
const OWNER_EMAIL = "owner@example.com";
const PASSWORD_BYTES = 12;

export type Demo = {
  apiKey: string;
  workspaceId: string;
  audienceId: string;
  ownerEmail: string;
  /** As it was made; null: the account was there before. */
  ownerPassword: string | null;
};

export type DemoParts = {
  databaseUrl: string;
  redisUrl: string;
  secret: string;
  home: Home;
  say(line: string): void;
};

export async function demoWorkspace({ databaseUrl, redisUrl, secret, home, say }: DemoParts): Promise<Demo> {
  const sql = connectRecord(databaseUrl, "setup", SETUP_MS_MAX);
  const redis = connectRedis(redisUrl, "worker", SETUP_MS_MAX);
  redis.on("error", () => {}); // what matters shows in the calls
  try {
    const clock = await recordClock(() => clockTime(sql));
    const owner = { ownerEmail: OWNER_EMAIL, ownerPassword: home.ownerPassword() };
    const known = await findDemo(sql, home.demoKey(), secret, clock.now());
    if (known) return { ...known, ...owner };
    say("Creating a demo workspace");
    const made = await makeDemo(sql, new Keyring({ redis, sql, serverSecret: secret, clock }), clock.now());
    if (made.ownerPassword !== null) home.keepOwnerPassword(made.ownerPassword);
    home.keepDemoKey(made.apiKey);
    return made;
  } finally {
    await sql.end({ timeout: 1 });
    redis.disconnect();
  }
}

/** null: the key is not there any more, was revoked, or belongs to another database or secret. */
async function findDemo(
  sql: Sql,
  apiKey: string | null,
  secret: string,
  now: number,
): Promise<Omit<Demo, "ownerEmail" | "ownerPassword"> | null> {
  const bearer = apiKey === null ? null : readKey(apiKey, secret);
  if (apiKey === null || bearer === null) return null;
  const key = await findKeyByHash(sql, bearer.handle, hashOf(apiKey));
  if (key === null || key.isRevoked) return null;
  const { workspaceId } = key;
  const audienceId = await defaultAudience(sql, workspaceId, new Date(now));
  return audienceId === null ? null : { apiKey, workspaceId, audienceId };
}

/** With an owner, who is an operator, too: there is nobody else. */
async function makeDemo(sql: Sql, keyring: Keyring, now: number): Promise<Demo> {
  const caps = { cap_hour: CAP_FAR_ABOVE, cap_day: CAP_FAR_ABOVE };
  const { id: workspaceId } = await keyring.createWorkspace("Demo", "pro", caps);
  const audienceId = await defaultAudience(sql, workspaceId, new Date(now));
  if (audienceId === null) throw new Error("The demo workspace has lost its audience. Start again.");
  const wanted = { name: "Demo", permissions: ["full" as const], audienceIds: null };
  const created = await keyring.createKey(workspaceId, wanted, "operator");
  if (!("key" in created)) throw new Error(created.message);
  const password = randomBytes(PASSWORD_BYTES).toString("base64url");
  const owner = {
    id: newId(now),
    workspaceId,
    email: OWNER_EMAIL,
    passwordHash: await hashPassword(password),
  };
  const { accountId, isNew } = await insertOwner(sql, owner, new Date(now));
  await setOperator(sql, accountId, true);
  const ownerPassword = isNew ? password : null;
  return { apiKey: created.key, workspaceId, audienceId, ownerEmail: OWNER_EMAIL, ownerPassword };
}
