/**
 * admit: an authenticated request that needs no database (a malformed id, answered 422 after admission, rate headers and
 * all), beside a bare handler that makes one EVALSHA of similar size. status: GET of an e-mail, beside that and a select.
 */
import { load, ONE } from "../load.ts";
import { type Bench, cpuSeconds, type Role } from "../machine.ts";
import { figure, type Scenario } from "../scenario.ts";

const CONNECTIONS = 32;

type Cost = { perSecond: number; cpuMicros: number };

async function cost(role: Role, path: string, key: string, seconds: number): Promise<Cost> {
  const request = { url: role.url + path, key, body: null, connections: CONNECTIONS };
  await load({ ...request, seconds: 1 }, false);
  const before = cpuSeconds(role.pid);
  const { requests, perSecond } = await load({ ...request, seconds }, false);
  return { perSecond, cpuMicros: ((cpuSeconds(role.pid) - before) / requests) * 1e6 };
}

async function compare(bench: Bench, seconds: number, bare: string, path: string) {
  const { key } = await bench.workspace();
  const [api, floor] = [await bench.role("api"), await bench.bare()];
  const target = path.includes("{id}") ? path.replace("{id}", await anEmail(api, key)) : path;
  const [ours, theirs] = [await cost(api, target, key, seconds), await cost(floor, bare, key, seconds)];
  await Promise.all([api.stop(), floor.stop()]);
  return {
    figures: [
      figure("requests", ours.perSecond, "/s"),
      figure("requests of the floor", theirs.perSecond, "/s"),
      figure("CPU per request", ours.cpuMicros, "us"),
      figure("CPU per request of the floor", theirs.cpuMicros, "us"),
      figure("CPU against the floor", ours.cpuMicros / theirs.cpuMicros, "x", "at most 2"),
    ],
  };
}

async function anEmail(api: Role, key: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${api.url}/api/v1/emails`, { method: "POST", headers, body: ONE });
  return ((await response.json()) as { id: string }).id;
}

export const admit: Scenario = {
  name: "admit",
  does: "a malformed id, refused after admission, against a bare handler with one EVALSHA",
  run: (bench, seconds) => compare(bench, seconds, "/evalsha", "/api/v1/emails/no-id"),
};

export const status: Scenario = {
  name: "status",
  does: "GET of an e-mail, against a bare handler with one EVALSHA and one select",
  run: (bench, seconds) => compare(bench, seconds, "/select", "/api/v1/emails/{id}"),
};
