/**
 * Holds what `npm start` brings itself (Postgres, Redis, the mail catcher) as children of one process of
 * ours, so that none of them outlives the root: when their channel closes it ends them at once, and Postgres
 * recovers on the next start. When one of them ends by itself, it says which, and ends the others.
 *
 * Run by the root with the folder and what is wanted: `--role stores FOLDER postgres,redis,mailbox`.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { messageOf } from "../caught.ts";
import { startMailbox } from "./mailbox.ts";
import { onParentGone, report, type StoresReport } from "./parent.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";

type EmbeddedStore = { stop(): Promise<void>; ended?: Promise<void> };

const PASSWORD_BYTES = 18;

const [home = ".", wanted = ""] = process.argv.slice(-2);
const stores: StoresReport = { env: {}, databaseUrl: null, redisUrl: null, mailboxUrl: null, pids: {} };
const held: EmbeddedStore[] = [];
const atOnce = new AbortController();
let isEnding = false;

const options = {
  durable: true,
  log: (line: string) => report({ kind: "progress", line }),
  signal: atOnce.signal,
};

const STARTS: Record<string, () => Promise<EmbeddedStore>> = {
  async postgres() {
    options.log("Starting Postgres");
    const postgres = await startPostgres({ ...options, folder: join(home, "postgres") });
    Object.assign(stores.env, { DATABASE_URL: postgres.url, POSTGRES_DATA_FOLDER: postgres.folder });
    stores.databaseUrl = postgres.tcpUrl;
    stores.pids.postgres = postgres.pid;
    return postgres;
  },
  async redis() {
    options.log("Starting Redis");
    const redis = await startRedis({
      ...options,
      folder: join(home, "redis"),
      password: randomBytes(PASSWORD_BYTES).toString("hex"),
    });
    stores.env.REDIS_URL = redis.url;
    stores.redisUrl = redis.tcpUrl;
    stores.pids.redis = redis.pid;
    return redis;
  },
  async mailbox() {
    options.log("Starting the mail catcher");
    const mailbox = await startMailbox();
    stores.env.SMTP_URL = mailbox.smtpUrl;
    stores.env.MAILBOX_URL = mailbox.url;
    stores.mailboxUrl = mailbox.url;
    return mailbox;
  },
};

onParentGone(() => {
  isEnding = true;
  atOnce.abort();
  Promise.all(held.map((store) => store.ended)).finally(() => process.exit(1));
});
process.on("SIGINT", () => {}); // Ctrl-C is the root's: it says when
process.on("SIGTERM", () => end(0));

try {
  for (const name of wanted.split(",")) {
    const store = await STARTS[name]?.();
    if (!store) throw new Error(`there is no store called ${name}`);
    held.push(store);
    store.ended?.then(() => fail(`${name} ended by itself`));
  }
  report({ kind: "stores", stores });
} catch (error) {
  fail(messageOf(error));
}

function fail(reason: string): void {
  if (isEnding) return;
  report({ kind: "failed", reason, status: 1, isPortTaken: false });
  end(1);
}

/** Last started, first stopped; what is still starting is not waited for. */
async function end(status: number): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  for (const store of held.reverse()) await store.stop();
  atOnce.abort();
  process.exit(status);
}
