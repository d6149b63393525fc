/**
 * The process that holds Postgres and Redis for one run of the tests, in a folder of its own. It lives
 * exactly as long as the channel to the runner: when that closes, because the tests are over or were killed,
 * everything that was started in the folder ends and the folder is removed. Ctrl-C reaches this process too
 * and is left to the runner.
 */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { startRedis } from "../../src/embedded/redis.ts";
import { cloneTemplate, makeTemplate } from "./database.ts";
import { startTestPostgres } from "./postgresversions.ts";
import { type OwnCluster, ownCluster } from "./rediscluster.ts";
import type { Services } from "./services.ts";

process.on("SIGINT", () => {});

const folder = mkdtempSync(join(tmpdir(), "postrider-test-"));
chmodSync(folder, 0o755); // Postgres runs as a user of its own and has to get in
const said: string[] = [];
const log = (line: string) => said.push(line);

const starting = [
  startTestPostgres({ folder: join(folder, "postgres"), log }),
  startRedis({ folder: join(folder, "redis"), durable: false, log }),
] as const;
let cluster: Promise<OwnCluster> | undefined;
process.on("message", async () => {
  cluster ??= ownCluster(folder);
  process.send?.((await cluster).url);
});
process.once("disconnect", end);
process.once("SIGTERM", end);

try {
  const [postgres, redis] = await Promise.all(starting);
  await makeTemplate(postgres.url, Date.now());
  const databaseUrl = await cloneTemplate(postgres.url, "shared");
  const services: Services = { folder, databaseUrl, redisUrl: redis.url };
  process.send?.(services);
} catch (error) {
  console.error(said.join("\n"));
  console.error(error);
  process.exitCode = 1;
  await end();
}

async function end(): Promise<void> {
  // one may have started although the other could not
  for (const server of await Promise.allSettled([...starting, ...(cluster ? [cluster] : [])]))
    if (server.status === "fulfilled") await server.value.stop();
  endForgotten();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  process.exit();
}

/** A test file that was killed could not stop the Redis it had for itself. */
function endForgotten(): void {
  const homes = readdirSync(folder).map((name) => join(folder, name));
  const nodes = homes
    .filter((home) => basename(home).startsWith("cluster-"))
    .flatMap((home) => readdirSync(home).map((name) => join(home, name)));
  for (const home of [...homes, ...nodes]) {
    const pidFile = join(home, "redis.pid");
    if (!existsSync(pidFile)) continue;
    const pid = Number(readFileSync(pidFile, "utf8"));
    if (existsSync(`/proc/${pid}/cwd`) && readlinkSync(`/proc/${pid}/cwd`) === home) process.kill(pid);
  }
}
