/** The demo workspace of `npm start`: made on the first run, found again by its key on every other. Development only. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashOf, readKey } from "../admission/bearer.ts";
import { Keyring } from "../admission/keyring.ts";
import { newId } from "../ids.ts";
import { insertAudience, listAudiences } from "../record/audiences.ts";
import { connectRecord } from "../record/connect.ts";
import { findKeyByHash } from "../record/keys.ts";
import { migrate } from "../record/migrate.ts";
import { connectRedis } from "../redis/connect.ts";

const SETUP_MS_MAX = 20_000;
const CAP_FAR_ABOVE = 100_000_000;

export type Demo = { apiKey: string; workspaceId: string; audienceId: string };

export async function demoWorkspace(
  env: Record<string, string>,
  home: string,
  say: (line: string) => void,
): Promise<Demo> {
  const sql = connectRecord(env.DATABASE_URL as string, "setup", SETUP_MS_MAX);
  const redis = connectRedis(env.REDIS_URL as string, "worker", SETUP_MS_MAX);
  redis.on("error", () => {}); // what matters shows in the calls
  try {
    const clock = { now: () => Date.now(), given: () => 0 };
    await migrate(sql, clock.now());
    const serverSecret = env.POSTRIDER_SECRET as string;
    const file = join(home, "demo-key");
    const known = existsSync(file) ? readFileSync(file, "utf8").trim() : null;
    const bearer = known === null ? null : readKey(known, serverSecret);
    const record = bearer && (await findKeyByHash(sql, bearer.handle, hashOf(known as string)));
    if (known !== null && record && !record.isRevoked) {
      const [audience] = await listAudiences(sql, record.workspaceId);
      if (audience) return { apiKey: known, workspaceId: record.workspaceId, audienceId: audience.id };
    }
    say("Making a demo workspace");
    const keyring = new Keyring({ redis, sql, serverSecret, clock });
    const workspace = await keyring.createWorkspace("Demo", "pro", {
      cap_hour: CAP_FAR_ABOVE,
      cap_day: CAP_FAR_ABOVE,
    });
    const audienceId = newId(clock.now());
    await insertAudience(
      sql,
      { workspaceId: workspace.id, id: audienceId, name: "Demo", doubleOptIn: false },
      new Date(clock.now()),
    );
    const created = await keyring.createKey(
      workspace.id,
      { name: "Demo", permissions: ["full"], audienceIds: null },
      "operator",
    );
    if (!("key" in created)) throw new Error(created.message);
    writeFileSync(file, created.key, { mode: 0o600 });
    return { apiKey: created.key, workspaceId: workspace.id, audienceId };
  } finally {
    await sql.end({ timeout: 1 });
    redis.disconnect();
  }
}
