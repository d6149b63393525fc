/**
 * Before the first test file: builds the engine, starts the process that holds Postgres and Redis, and tells
 * the files where they are. The projects of a run share all of it.
 */
import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import type { Services } from "./services.ts";

declare module "vitest" {
  export interface ProvidedContext {
    services: Services;
    /** Whether each Redis is a cluster: TEST_REDIS=cluster, or the project of that name. */
    onCluster: boolean;
  }
}

type Run = {
  services: Services;
  /** Starts a cluster, the first time. */
  clusterUrl(): Promise<string>;
  end(): Promise<void>;
};
/** Each project loads this file anew, so what they share is kept outside of it. */
const shared = globalThis as { testRun?: Promise<Run> };

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.testRun ??= begin();
  const { services, clusterUrl, end } = await shared.testRun;
  const { onCluster } = project.getProvidedContext();
  project.provide("services", onCluster ? { ...services, redisUrl: await clusterUrl() } : services);
  return end;
}

async function begin(): Promise<Run> {
  const [run] = await Promise.all([startStores(), build()]);
  return run;
}

async function startStores(): Promise<Run> {
  const host = fork(fileURLToPath(new URL("host.ts", import.meta.url)), { execArgv: ["--import", "tsx"] });
  const ended = once(host, "exit");
  const died = ended.then(() => Promise.reject(new Error("the stores for the tests did not start")));
  const [services] = await Promise.race([once(host, "message"), died]);
  died.catch(() => {}); // from here on a store that is gone shows in the tests that need it
  let cluster: Promise<string> | undefined;
  return {
    services: services as Services,
    clusterUrl() {
      cluster ??= Promise.race([once(host, "message"), died]).then(([url]) => url as string);
      host.send("start a cluster");
      return cluster;
    },
    async end() {
      if (host.connected) host.disconnect();
      await ended;
    },
  };
}

/** What is up to date already is not built again. */
async function build(): Promise<void> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  await promisify(execFile)("npm", ["run", "-s", "build"], { cwd: root }).catch((error) => {
    throw new Error(`the engine does not build:\n${error.stdout}${error.stderr}`);
  });
}
