/** docker-compose.yml and the image name only what exists, in each profile, and give little away. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { childEnv } from "../../src/config.ts";
import { ROLES } from "../../src/rules/roles.ts";
import {
  commandNames,
  ENDS_WITHIN_S,
  parsed,
  ROOT,
  read,
  SETTING_NAMES,
  unknownSettings,
} from "../rig/opsfiles.ts";

type Service = {
  image: string;
  build?: string;
  profiles?: string[];
  command?: string[];
  user?: string;
  environment?: Record<string, string>;
  depends_on?: Record<string, { condition: string; required?: boolean }>;
  healthcheck?: { test: string[] };
  ports?: string[];
  volumes?: string[];
  stop_grace_period?: string;
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
};
type Compose = { services: Record<string, Service>; volumes: Record<string, null> };

const TEXT = read("docker-compose.yml");
const HEADER = TEXT.slice(0, TEXT.indexOf("\nx-engine"));
const [{ services, volumes }] = parsed<Compose>("docker-compose.yml") as [Compose];
const all = Object.entries(services);
const engines = all.filter(([, { image }]) => image === "postrider");
const PROFILES = [...new Set(all.flatMap(([, { profiles }]) => profiles ?? []))];

test("all names in environments are settings", () => {
  expect(engines.length).toBeGreaterThan(8);
  expect(unknownSettings(all.flatMap(([, { environment }]) => Object.keys(environment ?? {})))).toEqual([]);
});

test("every setting can be given in .env", () => {
  const named = engines.flatMap(([, { environment }]) => Object.keys(environment ?? {}));
  const fixed = ["POSTRIDER_HOME", "PORT"]; // a container keeps nothing, and listens where Compose expects it
  expect(SETTING_NAMES.filter((name) => !named.includes(name) && !fixed.includes(name))).toEqual([]);
});

test("who owns the tables owns them in every cell", () => {
  const isOwner = ({ DATABASE_URL = "" }) => DATABASE_URL.includes("OWNER_PASSWORD");
  for (const [name, { environment = {} }] of engines) {
    const given = [...(environment.CELLS_FILE ?? "").matchAll(/\$\{(\w+)/g)].map(([, variable]) => variable);
    expect(given, name).toEqual([...(isOwner(environment) ? ["OWNER_CELLS_FILE"] : []), "CELLS_FILE"]);
  }
});

test("what is demanded is what the header writes into .env", () => {
  const demanded = new Set([...TEXT.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name as string));
  const [, loop = ""] = /for name in ([\w ]+); do/.exec(HEADER) ?? [];
  const written = [...loop.split(" "), ...[...HEADER.matchAll(/echo "(\w+)=/g)].map(([, name]) => name)];
  expect([...demanded].filter((name) => !written.includes(name))).toEqual([]);
});

test("each service of the engine runs a command that exists, and each role has one", () => {
  const roles = engines.flatMap(([name, { command = [] }]) => {
    expect(commandNames(), name).toContain(command[0]);
    if (command[0] !== "serve") return [];
    expect(command.slice(1), name).toEqual(["--role", expect.stringMatching(/^\w+$/)]);
    return [command[2] as string];
  });
  expect([...new Set(roles)].sort()).toEqual([...ROLES].sort());
});

test("commands of the header exist", () => {
  const told = [...HEADER.matchAll(/exec api postrider (\w+)/g)].map(([, name]) => name);
  expect(told.length).toBeGreaterThan(3);
  expect(told.filter((name) => !commandNames().includes(name as string))).toEqual([]);
});

test.each(["", ...PROFILES])("with the profile '%s' everything that is waited for runs", (profile) => {
  const runs = ({ profiles }: Service) => profiles === undefined || profiles.includes(profile);
  const missing = all
    .filter(([, service]) => runs(service))
    .flatMap(([name, { depends_on: dependsOn = {} }]) =>
      Object.entries(dependsOn)
        .filter(([other, { required = true }]) => {
          const service = services[other];
          return service === undefined || (required && !runs(service));
        })
        .map(([other]) => `${name} waits for ${other}`),
    );
  expect(missing).toEqual([]);
});

test("what has to be healthy has a health check, and what has to be complete ends", () => {
  for (const [name, { depends_on: dependsOn = {} }] of all)
    for (const [other, { condition }] of Object.entries(dependsOn))
      if (condition === "service_healthy")
        expect(services[other]?.healthcheck, `${name}: ${other}`).toBeDefined();
      else expect(["roles", "migrate"], name).toContain(other);
});

test("health checks ask what exists", () => {
  for (const [name, { healthcheck, image }] of all) {
    if (!healthcheck) continue;
    const command = healthcheck.test.join(" ");
    if (image !== "postrider") expect(command, name).toMatch(/pg_isready|redis-cli/);
    else {
      const [, port, path] = /http:\/\/127\.0\.0\.1:(\d+)(\/\w+)/.exec(command) ?? [];
      expect(port, name).toBe("3000");
      expect(read("src/api/server.ts"), name).toContain(`READY_PATH = "${path}"`);
    }
  }
});

test("no two services take the same port of the machine", () => {
  const ports = all.flatMap(([, { ports = [] }]) => ports.map((port) => /:-(\d+)\}/.exec(port)?.[1] ?? port));
  expect(new Set(ports).size).toBe(ports.length);
});

test("volumes are declared, and files of the repository are there", () => {
  for (const [name, { volumes: mounted = [] }] of all)
    for (const mount of mounted) {
      const [source = ""] = mount.split(/:(?!-)/);
      if (source.startsWith("./")) expect(existsSync(join(ROOT, source)), source).toBe(true);
      else if (!source.startsWith("$")) expect(Object.keys(volumes), name).toContain(source);
    }
});

test("the engine may not write into its container, and has no capabilities", () => {
  for (const [name, service] of engines) {
    expect(service, name).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
    });
    expect(Number.parseInt(service.stop_grace_period ?? "", 10), name).toBeGreaterThan(ENDS_WITHIN_S);
  }
});

test("the cluster has a second process of each role that must not be missing", () => {
  const added = all.filter(([, { profiles }]) => profiles?.includes("cluster"));
  expect(added.map(([name]) => name)).toEqual(["redis-cluster", "api-2", "deliver-2", "keeper-2"]);
  for (const [name, service] of added.slice(1)) {
    const first = services[name.replace("-2", "")] as Service;
    expect({ ...service, profiles: null, ports: null }).toEqual({ ...first, profiles: null, ports: null });
  }
});

test("the url of the cluster in the header names nodes of its script", () => {
  const [, url = ""] = /REDIS_URL=redis-cluster:\/\/postrider:\$password@([^"]+)/.exec(HEADER) ?? [];
  const script = read("ops/redis-cluster.sh");
  const [, ports = ""] = /REDIS_PORTS:-([\d ]+)/.exec(script) ?? [];
  const { environment: { REDIS_NAME: name } = {} } = services["redis-cluster"] as Service;
  expect(url.split(",").length).toBe(3);
  for (const node of url.split(",")) {
    expect(node.split(":")[0]).toBe(name);
    expect(ports.split(" ")).toContain(node.split(":")[1]);
  }
});

test("the image has the files that the package has, and runs as nobody special", () => {
  const image = read("Dockerfile");
  const [, last = ""] = image.split(/^FROM .* AS built$/m);
  const final = last.slice(last.indexOf("\nFROM "));
  const { files, engines, bin } = JSON.parse(read("package.json")) as {
    files: string[];
    engines: { node: string };
    bin: Record<string, string>;
  };
  const copied = [...final.matchAll(/^COPY (?:--from=built \/app\/)?(\S+) /gm)].map(([, path]) => path);
  expect(copied).toEqual(expect.arrayContaining([...files, "package.json", "node_modules"]));
  const sources = [...image.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, paths]) =>
    paths?.split(" "),
  );
  expect(sources.filter((path) => !existsSync(join(ROOT, path as string)))).toEqual([]);
  const ignored = read(".dockerignore").split("\n");
  expect(sources.filter((path) => ignored.includes(path as string))).toEqual([]);
  const versions = [...image.matchAll(/^FROM node:(\d+)-/gm)].map(([, major]) => `^${major}`);
  expect(versions.filter((major) => !engines.node.split(" || ").includes(major))).toEqual([]);
  expect(final).toContain(`ln -s ../${bin.postrider} bin/postrider`);
  expect(final).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
  expect(engines.node).toBeDefined();
});

const hasCompose = spawnSync("docker", ["compose", "version"]).status === 0;

test.skipIf(!hasCompose).each(["none", ...PROFILES])(
  "Compose reads it with the profile '%s' (skipped without docker compose)",
  (profile) => {
    const demanded = [...TEXT.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => [name, "a".repeat(32)]);
    const { status, stderr } = spawnSync(
      "docker",
      ["compose", "--file", join(ROOT, "docker-compose.yml"), "--profile", profile, "config", "--quiet"],
      { env: { ...childEnv({}), ...Object.fromEntries(demanded) }, encoding: "utf8" },
    );
    expect(status, stderr).toBe(0);
  },
);
