/** Before the first test file: starts the process that holds Postgres and Redis, and tells the files where they are. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import type { Services } from "./services.ts";

declare module "vitest" {
  export interface ProvidedContext {
    services: Services;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const host = fork(fileURLToPath(new URL("host.ts", import.meta.url)), { execArgv: ["--import", "tsx"] });
  const ended = once(host, "exit");
  const died = ended.then(() => Promise.reject(new Error("the stores for the tests did not start")));
  const [services] = await Promise.race([once(host, "message"), died]);
  died.catch(() => {}); // from here on a store that is gone shows in the tests that need it
  project.provide("services", services as Services);
  return async () => {
    host.disconnect();
    await ended;
  };
}
