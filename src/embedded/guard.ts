/**
 * Holds what `npm start` brings itself (Postgres, Redis, the mail catcher) as children of one process of ours, so that
 * none of them outlives the root: on a lost leash it ends them at once, and Postgres recovers on the next start.
 * Run by the root with the folder and what is wanted: `--role stores FOLDER postgres,redis,mailbox`.
 */
import { join } from "node:path";
import { onLeashLost, report } from "./leash.ts";
import { startMailbox } from "./mailbox.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";

const wanted = new Set(process.argv.at(-1)?.split(","));
const home = process.argv.at(-2) ?? ".";
const log = (line: string): void => report({ kind: "progress", line });

const found: Record<string, string> = {};
const pids: Record<string, number> = {};
const stops: (() => Promise<void>)[] = [];
let isEnding = false;

onLeashLost(() => {
  isEnding = true;
  if (pids.postgres) process.kill(pids.postgres, "SIGQUIT");
  endAll();
});
process.on("SIGTERM", endAll);
process.on("SIGINT", () => {});

function endAll(): void {
  isEnding = true;
  Promise.allSettled(stops.map((stop) => stop())).then(() => process.exit(0));
}

function endsWithUs(name: string, ended: Promise<void>): void {
  ended.then(() => {
    if (isEnding) return;
    report({ kind: "failed", reason: `${name} ended unexpectedly` });
    endAll();
  });
}

try {
  if (wanted.has("postgres")) {
    log("Starting Postgres");
    const postgres = await startPostgres({ folder: join(home, "postgres"), durable: true, log });
    stops.push(postgres.stop);
    endsWithUs("Postgres", postgres.ended);
    Object.assign(found, {
      DATABASE_URL: postgres.url,
      database_url: postgres.tcpUrl,
      POSTGRES_DATA_FOLDER: postgres.folder,
    });
    pids.postgres = postgres.pid;
  }
  if (wanted.has("redis")) {
    log("Starting Redis");
    const redis = await startRedis({ folder: join(home, "redis"), durable: true, log });
    stops.push(redis.stop);
    endsWithUs("Redis", redis.ended);
    Object.assign(found, { REDIS_URL: redis.url, redis_url: redis.tcpUrl });
    pids.redis = redis.pid;
  }
  if (wanted.has("mailbox")) {
    log("Starting the mail catcher");
    const mailbox = await startMailbox();
    stops.push(mailbox.stop);
    Object.assign(found, { SMTP_URL: mailbox.smtpUrl, mailbox_url: mailbox.url });
  }
  report({ kind: "stores", found, pids });
} catch (error) {
  report({ kind: "failed", reason: error instanceof Error ? error.message : String(error) });
  endAll();
}
